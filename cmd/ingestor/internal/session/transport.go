package session

import (
	"net/http"
	"net/url"
	"path/filepath"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/proxy"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/quota"
)

// Proxied returns the settings of the proxy of a program.
func (a *Session) Proxied(s *settings.Settings, l *quota.Ledger, job string) (proxy.Options, error) {
	keys, err := s.AllKeys()
	return proxy.Options{
		Base: BaseOfAll(s), Clock: a.Clock, Log: a.Log, Keys: keys, Memory: filepath.Join(s.State, "exec-"+job+"-costs.json"),
		Metered: func(t http.RoundTripper) http.RoundTripper { return a.Traces.Calls(l, t) },
	}, err
}

// BaseOfAll makes the calls of all upstreams. The setting endpoint is the address of the
// upstream of the jobs alone.
func BaseOfAll(s *settings.Settings) http.RoundTripper {
	base := proxy.NewTransport()
	to, err := url.Parse(s.Endpoint)
	if s.Endpoint == "" || err != nil { // checkCommand has read it
		return base
	}
	return &redirectedOne{book: s.Book, redirected: redirected{to: to, base: base}, base: base}
}

// redirectedOne sends the calls of the upstream of the jobs to another address.
type redirectedOne struct {
	book       *quota.Book
	redirected redirected
	base       http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (r *redirectedOne) RoundTrip(req *http.Request) (*http.Response, error) {
	if m := r.book.Match(req.Method, req.URL.Host, req.URL.EscapedPath()); m.Upstream != nil && m.Upstream.Name == settings.Metered {
		return r.redirected.RoundTrip(req)
	}
	return r.base.RoundTrip(req)
}
