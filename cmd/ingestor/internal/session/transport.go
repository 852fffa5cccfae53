package session

import (
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/proxy"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/internal/pattern"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// Proxied returns the settings of the proxy of a program.
func (a *Session) Proxied(s *settings.Settings, l *quota.Ledger) (proxy.Options, error) {
	keys, err := s.AllKeys()
	return proxy.Options{
		Base: BaseOfAll(s), Clock: a.Clock, Log: a.Log, Keys: keys,
		Metered: func(t http.RoundTripper) http.RoundTripper { return a.Traces.Calls(l, t) },
	}, err
}

// BaseOfAll makes the calls of all upstreams.
func BaseOfAll(s *settings.Settings) http.RoundTripper { return redirect(s, proxy.NewTransport()) }

// Transport meters the calls of the upstream of the jobs.
func (a *Session) Transport(s *settings.Settings, l *quota.Ledger) (*meter.Transport, error) {
	base := redirect(s, http.DefaultTransport)
	u := s.Book.Upstreams[settings.Metered]
	if u == nil { // all jobs are programs
		return meter.New(l, &meter.Options{Base: base, Logger: a.Log})
	}
	if u.Key.Header != "" {
		base = &discreet{header: u.Key.Header, base: base}
	}
	return meter.New(l, &meter.Options{Base: base, Logger: a.Log, Keys: s.KeySources()})
}

// redirect returns a transport that obeys the setting endpoint: the calls of the upstream of the
// jobs are metered as what they are, and sent to another address.
func redirect(s *settings.Settings, base http.RoundTripper) http.RoundTripper {
	to, err := url.Parse(s.Endpoint)
	if s.Endpoint == "" || err != nil { // checkCommand has read it
		return base
	}
	return &redirected{to: to, book: s.Book, base: base}
}

type redirected struct {
	to   *url.URL
	book *quota.Book
	base http.RoundTripper
}

func (r *redirected) RoundTrip(req *http.Request) (*http.Response, error) {
	if m := r.book.Match(req.Method, req.URL.Host, req.URL.EscapedPath()); m.Upstream != nil && m.Upstream.Name == settings.Metered {
		req = req.Clone(req.Context())
		req.URL.Scheme, req.URL.Host, req.Host = r.to.Scheme, r.to.Host, r.to.Host
	}
	return r.base.RoundTrip(req)
}

// discreet removes the API key from error responses. An upstream may repeat the key in
// them, and their text ends in errors, logs and the history of runs.
type discreet struct {
	header string // of the key
	base   http.RoundTripper
}

// maxErrorBody is how much of an error response is read.
const maxErrorBody = 1 << 20

func (d *discreet) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := d.base.RoundTrip(req)
	if key := req.Header.Get(d.header); err == nil && key != "" && resp.StatusCode >= http.StatusMultipleChoices {
		proxy.Hide(resp, key)
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxErrorBody), resp.Body}
	}
	return resp, err
}

// standardLog writes the lines of Go's standard logger to the log, without the texts that
// they quote. net/http quotes there what an upstream sends when nobody asked, and that may
// be a key, or a part of one.
type standardLog struct{ to *slog.Logger }

func redirectStandardLog(to *slog.Logger) {
	log.SetFlags(0)
	log.SetOutput(&standardLog{to})
}

var quotedText = pattern.Of(`"(?:[^"\\]|\\.)*(?:"|$)`)

func (l *standardLog) Write(line []byte) (int, error) {
	l.to.Info(quotedText().ReplaceAllString(strings.TrimSpace(string(line)), "(hidden)"))
	return len(line), nil
}
