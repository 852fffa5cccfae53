package web_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// TestKeyLimits sets limits over HTTP, and holds the answers against the document.
func TestKeyLimits(t *testing.T) {
	r := newDecider(t, nil)
	d, all := r.documented()
	operations := map[string]operation{}
	for _, o := range all {
		if strings.HasPrefix(o.path, "/v1/limits/") {
			operations[o.method] = o
		}
	}
	store, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), &sqlitestore.Options{Clock: r.Clock, Families: true})
	r.Must(err)
	t.Cleanup(func() { r.Must(store.Close()) })
	r.on(store, &quota.Options{Clock: r.Clock})
	program, err := access.New("", theToken, access.Rights...)
	r.Must(err)
	anna, err := access.New("anna", annas, access.Limits, access.Operate)
	r.Must(err)
	r.Must(r.server.Update(web.Sources{Sources: r.Sources(), Tokens: []*access.Token{program, anna}}, r.Ledger.Book()))
	const path, operators = "/v1/limits/visitor/", "a-token-that-may-only-operate-0123456789ab"
	ask := func(status int, method, key, body, says string) {
		t.Helper()
		a := r.ask(method, path+key, body, "Authorization", "Bearer "+annas)
		r.answers(d, operations[method], status, a)
		if !strings.Contains(a.body, says) {
			t.Errorf("%s %s %s: %s, want %s", method, key, body, a.body, says)
		}
	}
	ask(http.StatusNotFound, "GET", "ann", "", "has no limit that was set")
	ask(http.StatusOK, "PUT", "ann", `{"quota": 5, "reason": "a larger plan"}`, `"quota":5,"by":"anna","reason":"a larger plan","at":"2026-11-20T20:00:00Z","version":1`)
	ask(http.StatusOK, "GET", "ann", "", `"quota":5`)
	for n := range 6 {
		a := r.ask("POST", "/v1/reserve", `{"family": "visitor", "key": "ann"}`, withToken...)
		if granted := a.StatusCode == http.StatusOK; granted != (n < 5) {
			t.Errorf("call %d: %s", n, a.Status)
		}
	}
	ask(http.StatusOK, "PUT", "a%2Fb", `{"quota": 7}`, `"key":"a/b"`)
	ask(http.StatusOK, "PUT", "ann", `{"quota": 4, "dry_run": true}`, `"used":5,"limit_now":5,"limit_then":4,"refused":true`)
	ask(http.StatusOK, "PUT", "ann", `{"quota": 6, "dry_run": true}`, `"limit_then":6,"refused":false`)
	ask(http.StatusOK, "GET", "ann", "", `"quota":5`) // nothing was set
	ask(http.StatusOK, "PUT", "bea", `{"quota": 9, "until": "2026-11-20T21:00:00Z"}`, `"until":"2026-11-20T21:00:00Z"`)
	ask(http.StatusOK, "GET", "bea", "", `"until":"2026-11-20T21:00:00Z"`)
	r.Clock.Advance(time.Hour)
	ask(http.StatusNotFound, "GET", "bea", "", "has no limit that was set") // it has ended
	ask(http.StatusUnprocessableEntity, "PUT", "bea", `{"quota": 9, "until": "2026-11-20T21:00:00Z"}`, "has passed")
	ask(http.StatusBadRequest, "PUT", "bea", `{"quota": 9, "until": "tomorrow"}`, "until must be a time, as")
	ask(http.StatusBadRequest, "PUT", "bea", `{"quota": 9, "dry_run": 1}`, "true or false")
	ask(http.StatusUnprocessableEntity, "PUT", "ann", `{"quota": 0}`, "send DELETE")
	ask(http.StatusUnprocessableEntity, "PUT", "%0A", `{"quota": 1}`, "printable")
	ask(http.StatusBadRequest, "PUT", "ann", `{"quota": "5"}`, "whole number")
	ask(http.StatusOK, "DELETE", "ann?reason=over", "", `"quota":0,"by":"anna","reason":"over"`)
	ask(http.StatusNotFound, "GET", "ann", "", "has no limit that was set")
	ask(http.StatusNotFound, "DELETE", "amn", "", "has no limit that was set")
	for method, status := range map[string]int{"PUT": http.StatusForbidden, "DELETE": http.StatusForbidden, "GET": http.StatusNotFound} { // a program that charges the family
		r.answers(d, operations[method], status, r.ask(method, path+"ann", `{"quota": 9}`, withToken...))
	}
	operator, err := access.New("olga", operators, access.Operate)
	r.Must(err)
	r.Must(r.server.Update(web.Sources{Sources: r.Sources(), Tokens: []*access.Token{operator}}, r.Ledger.Book()))
	for _, method := range []string{"PUT", "GET", "DELETE"} {
		r.answers(d, operations[method], http.StatusOK, r.ask(method, path+"cleo", `{"quota": 9}`, "Authorization", "Bearer "+operators))
	}
	const text = "a-token-that-may-only-reserve-0123456789ab"
	token, err := access.New("front", text, access.Reserve, access.Read)
	r.Must(err)
	src := web.Sources{Sources: r.Sources(), Tokens: []*access.Token{token}}
	r.Must(r.server.Update(src, r.Ledger.Book()))
	for method, o := range operations {
		r.answers(d, o, http.StatusForbidden, r.ask(method, path+"ann", `{"quota": 9}`, "Authorization", "Bearer "+text))
		r.answers(d, o, http.StatusUnauthorized, r.ask(method, path+"ann", `{"quota": 9}`))
	}
}
