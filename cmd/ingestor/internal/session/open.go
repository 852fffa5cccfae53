package session

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
	"github.com/headroom-quota/headroom/quota/open"
)

// AddUnits sums charges up by pool.
func AddUnits(all []quota.EntryCharge, c quota.EntryCharge) []quota.EntryCharge {
	for i := range all {
		if all[i].Pool == c.Pool {
			all[i].Units += c.Units
			return all
		}
	}
	return append(all, c)
}

// OpenLedger opens the ledger that the settings name.
func (a *Session) OpenLedger(ctx context.Context, s *settings.Settings, done *console.Closers) (*quota.Ledger, error) {
	at, err := open.Parse(s.Ledger)
	if err == nil && at.Scheme == "sqlite" {
		err = s.MakeState(at.File)
	}
	if err != nil {
		return nil, unopened(err, console.ExitDown)
	}
	a.Opened, err = open.Open(ctx, s.LedgerAddress(), &open.Options{
		Book: s.Book, Clock: a.Clock, Observer: a.Observer, State: s.State, Fresh: s.Fresh, Allowance: s.Allowance(), Logger: a.Log,
	})
	if err != nil {
		return nil, unopened(err, console.ExitDown)
	}
	done.Add(a.Opened.Close)
	return a.Opened.Ledger, nil
}

// unopened is a file that could not be opened, as the exit code ill says if it or the
// disk is in a bad way; else it is the wrong one, and the configuration's fault.
func unopened(err error, ill int) error {
	if sqlitefile.Ailing(err) {
		return &console.Exit{Code: ill, Err: err}
	}
	return console.Config(err)
}

// Transport meters the calls of the upstream. Another endpoint than the real one
// is metered as if it were that.
func (a *Session) Transport(s *settings.Settings, l *quota.Ledger) (*meter.Transport, error) {
	base := http.DefaultTransport
	if s.Endpoint != "" {
		to, err := url.Parse(s.Endpoint)
		if err != nil {
			return nil, console.Config(fmt.Errorf("endpoint: %w", err))
		}
		base = &redirected{to: to, base: base}
	}
	u := s.Book.Upstreams[settings.Metered]
	if u == nil { // all jobs are programs
		return meter.New(l, &meter.Options{Base: base, Logger: a.Log})
	}
	if u.Key.Header != "" {
		base = &discreet{header: u.Key.Header, base: base}
	}
	return meter.New(l, &meter.Options{Base: base, Logger: a.Log, Keys: s.KeySources()})
}

// redirected sends what was metered as the upstream's to another address.
type redirected struct {
	to   *url.URL
	base http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (r *redirected) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req.Clone(req.Context())
	out.URL.Scheme, out.URL.Host, out.Host = r.to.Scheme, r.to.Host, r.to.Host
	return r.base.RoundTrip(out)
}
