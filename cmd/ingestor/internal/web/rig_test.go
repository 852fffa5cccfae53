package web_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/testing/viewtest"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
)

// rig is a server over the sources of a [viewtest.Rig].
type rig struct {
	*viewtest.Rig
	server *web.Server
	url    string
}

var noon = viewtest.Noon

// generous are limits per client that no test reaches.
const generous = "families: {client: {quota: 1000000, windows: [{per: 1m, algorithm: counter}]}}"

// newRig returns a server with these options and with limits that no test reaches.
func newRig(t testing.TB, o *web.Options) *rig {
	t.Helper()
	return newLimitedRig(t, o, generous)
}

// newLimitedRig returns a server with the families of a price book.
func newLimitedRig(t testing.TB, o *web.Options, families string) *rig {
	t.Helper()
	return newRigOf(t, o, &viewtest.Options{Prices: families})
}

// through returns the address at which a test asks a server, and heard gets each answer. With
// the tag contract a proxy is between the two, see contract_test.go.
var (
	through = func(_ *rig, address string) string { return address }
	heard   = func(*rig, answer) {}
)

// newRigOf returns a server over the sources that the options of viewtest describe.
func newRigOf(t testing.TB, o *web.Options, src *viewtest.Options) *rig {
	t.Helper()
	if o == nil {
		o = &web.Options{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Share == 0 {
		o.Share = -1 // the clock of tests stands still
	}
	if o.Metrics == nil {
		o.Metrics = metrics.New(&metrics.Options{Log: o.Log, Share: -1})
	}
	src.Observer, src.Log = o.Metrics, o.Log
	r := &rig{Rig: viewtest.New(t, src)}
	o.Clock = r.Clock
	var err error
	r.server, err = web.New(web.Sources{Sources: r.Sources()}, o)
	r.Must(err)
	front := httptest.NewServer(r.server)
	t.Cleanup(front.Close)
	r.url = through(r, front.URL)
	return r
}

// answer is an answer of the server.
type answer struct {
	*http.Response
	body string
}

// plain asks for no compression, as curl does.
var plain = &http.Transport{DisableCompression: true}

// ask makes a request; headers are pairs of name and value.
func (r *rig) ask(method, path, body string, headers ...string) answer {
	r.Helper()
	if method == http.MethodGet { // prism refuses one with a body
		body = ""
	}
	req, err := http.NewRequestWithContext(r.Context(), method, r.url+path, strings.NewReader(body))
	r.Must(err)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := plain.RoundTrip(req) // follows no redirect
	r.Must(err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	r.Must(err)
	a := answer{res, string(text)}
	heard(r, a)
	return a
}

// get asks for JSON and reads it into a value.
func (r *rig) get(path string, into any) {
	r.Helper()
	a := r.ask("GET", path, "")
	if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != "application/json" {
		r.Fatalf("%s: %s, %s", path, a.Status, a.body)
	}
	r.Must(json.Unmarshal([]byte(a.body), into))
}

// problem makes a request that must fail with a status, and returns the problem.
func (r *rig) problem(status int, method, path, body string, headers ...string) problem.Problem {
	r.Helper()
	a := r.ask(method, path, body, headers...)
	if a.StatusCode != status || a.Header.Get("Content-Type") != "application/problem+json" {
		r.Fatalf("%s %s: %s of %s, %s", method, path, a.Status, a.Header.Get("Content-Type"), a.body)
	}
	var p problem.Problem
	r.Must(json.Unmarshal([]byte(a.body), &p))
	if p.Status != status || p.Title == "" {
		r.Errorf("%s %s: the problem says %+v", method, path, p)
	}
	return p
}
