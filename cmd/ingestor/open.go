package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
	"github.com/headroom-quota/headroom/quota/open"
)

// openLedger opens the ledger that the settings name.
func (a *app) openLedger(ctx context.Context, s *settings, done *closers) (*quota.Ledger, error) {
	at, err := open.Parse(s.Ledger)
	if err == nil && at.Scheme == "sqlite" {
		err = s.makeState(at.File)
	}
	if err != nil {
		return nil, unopened(err, exitDown)
	}
	a.opened, err = open.Open(ctx, s.ledgerAddress(), &open.Options{
		Book: s.book, Clock: a.clock, Observer: a.observer, State: s.state, Fresh: s.fresh, Allowance: s.allowance(), Logger: a.log,
	})
	if err != nil {
		return nil, unopened(err, exitDown)
	}
	done.add(a.opened.Close)
	return a.opened.Ledger, nil
}

// ledgerAddress returns the address of the ledger. Behind PgBouncer in transaction mode, a ledger in
// PostgreSQL must not keep statements between transactions.
func (s *settings) ledgerAddress() string {
	const mode = "default_query_exec_mode="
	if at, err := open.Parse(s.Ledger); err != nil || at.Scheme != "postgres" || !s.PollOnly || strings.Contains(s.Ledger, mode) {
		return s.Ledger
	}
	if strings.Contains(s.Ledger, "?") {
		return s.Ledger + "&" + mode + "exec"
	}
	return s.Ledger + "?" + mode + "exec"
}

// ledgerFlag names the ledger in commands that a message tells a person to type.
func (s *settings) ledgerFlag() string {
	at, err := open.Parse(s.Ledger)
	if err != nil {
		return ""
	}
	return at.Flag()
}

// makeState makes our own folder for a file that is to be in it, and no other one.
func (s *settings) makeState(file string) error {
	if filepath.Dir(file) != s.state {
		return nil
	}
	if err := os.MkdirAll(s.state, 0o700); err != nil {
		return fmt.Errorf("make the folder of the state: %w", err)
	}
	return nil
}

// unopened is a file that could not be opened, as the exit code ill says if it or the
// disk is in a bad way; else it is the wrong one, and the configuration's fault.
func unopened(err error, ill int) error {
	if sqlitefile.Ailing(err) {
		return &exit{ill, err}
	}
	return config(err)
}

// transport meters the calls of the upstream. Another endpoint than the real one
// is metered as if it were that.
func (a *app) transport(s *settings, l *quota.Ledger) (*meter.Transport, error) {
	base := http.DefaultTransport
	if s.Endpoint != "" {
		to, err := url.Parse(s.Endpoint)
		if err != nil {
			return nil, config(fmt.Errorf("endpoint: %w", err))
		}
		base = &redirected{to: to, base: base}
	}
	u := s.book.Upstreams[metered]
	if u == nil { // all jobs are programs
		return meter.New(l, &meter.Options{Base: base, Logger: a.log})
	}
	if u.Key.Header != "" {
		base = &discreet{header: u.Key.Header, base: base}
	}
	return meter.New(l, &meter.Options{Base: base, Logger: a.log, Keys: s.keys()})
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
