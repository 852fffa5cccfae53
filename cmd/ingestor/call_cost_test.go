package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
)

// TestCallCostsItsOwn: a call tells its own cost, as it was settled, also if another one is made
// at the same time, and if the price book does not list its account.
func TestCallCostsItsOwn(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 10, "")
	call := func() result { return f.run("call", "get", "--account", "team") }
	var begun atomic.Bool
	var inner result
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if begun.CompareAndSwap(false, true) {
			inner = call()
		}
		_, _ = fmt.Fprint(w, `{"used": 7}`)
	}))
	t.Cleanup(server.Close)
	f.write("costs.yaml", `
extends: builtin
revision: 2
upstreams:
  files:
    hosts: ["`+strings.TrimPrefix(server.URL, "http://")+`"]
    accounts: any
    pools: {calls: {quota: 100, windows: [{per: day}]}, tokens: {quota: 1000, windows: [{per: day}]}}
    methods: {get: {route: GET /file, charge: {calls: 1, tokens: {estimate: {header: X-Most, default: 100}, actual: {body: used}}}}}
`)
	outer := call()
	for name, r := range map[string]result{"the first": outer, "the second": inner} {
		if r.code != console.ExitDone || !strings.Contains(r.stderr, "get cost 1 unit of files@team/calls and 7 units of files@team/tokens\n") {
			t.Errorf("%s: left with %d\n%s", name, r.code, r.stderr)
		}
	}
}
