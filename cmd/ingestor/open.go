package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/breaker"
	"github.com/headroom-quota/headroom/quota/journal"
	"github.com/headroom-quota/headroom/quota/lease"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// openLedger opens the ledger that the settings name, and what keeps a job from
// running twice.
func (a *app) openLedger(ctx context.Context, s *settings, done *closers) (*quota.Ledger, lease.Locker, error) {
	o := &quota.Options{Clock: a.clock, Observer: a.observer}
	var store quota.Store
	var locks lease.Locker = lease.Files(filepath.Join(s.state, "locks"))
	kind, where, err := s.home()
	switch {
	case err != nil:
	case kind == "memory":
		store = memstore.New(&memstore.Options{Clock: a.clock})
	case kind == "sqlite":
		store, err = a.openFile(ctx, s, where, done)
		locks = lease.Files(filepath.Join(filepath.Dir(where), "locks"))
	default:
		store, locks, err = a.openRedis(ctx, s, o, done)
	}
	if err != nil {
		return nil, nil, unopened(err, exitDown)
	}
	l, err := quota.New(s.book, store, o)
	if err == nil && a.journal != nil {
		err = a.settleIn(ctx, l)
	}
	return l, locks, err
}

// openFile opens a ledger in a file. Its journal lies beside it, because everybody who
// uses the ledger needs the same one, under a name that does not begin like the
// ledger's: it must outlive an rm ledger.db*.
func (a *app) openFile(ctx context.Context, s *settings, path string, done *closers) (quota.Store, error) {
	if err := s.makeState(path); err != nil {
		return nil, err
	}
	ledger, err := sqlitestore.Canonical(path)
	if err != nil {
		return nil, err
	}
	_, made := os.Stat(besides(path))
	if err := a.openJournal(ctx, s, besides(path), ledger, done); err != nil {
		return nil, err
	}
	store, err := sqlitestore.Open(ctx, path, &sqlitestore.Options{Clock: a.clock, Births: a.journal, Families: true}) // for those who reserve over HTTP
	if err != nil {
		return nil, err
	}
	done.add(store.Close)
	other, err := store.CopyOf(ctx)
	if err != nil {
		return nil, err
	}
	if other != "" {
		a.warn("this ledger is a copy of %s: neither counts what is spent of the other; delete one of them", other)
	}
	info, err := os.Stat(path)
	if err == nil && made != nil { // whoever may use the ledger may use its journal
		err = os.Chmod(a.journal.Path(), info.Mode().Perm())
	}
	return store, err
}

// besides is where the journal of a ledger in a file lies.
func besides(path string) string {
	return filepath.Join(filepath.Dir(path), "journal-"+filepath.Base(path))
}

// openRedis opens a ledger that may be out of reach: with a journal of what is spent
// meanwhile, and a breaker.
func (a *app) openRedis(ctx context.Context, s *settings, o *quota.Options, done *closers) (quota.Store, lease.Locker, error) {
	path := filepath.Join(s.state, "journal.db")
	if err := s.makeState(path); err != nil {
		return nil, nil, err
	}
	ledger, err := redisstore.Canonical(s.Ledger, "")
	if err != nil {
		return nil, nil, err
	}
	if err := a.openJournal(ctx, s, path, ledger, done); err != nil {
		return nil, nil, err
	}
	store, err := redisstore.Open(s.Ledger, &redisstore.Options{Births: a.journal})
	if err != nil {
		return nil, nil, err
	}
	done.add(store.Close)
	o.Journal = a.journal
	warnings, err := store.Check(ctx)
	if err != nil {
		a.log.Warn("the ledger does not answer; calls are admitted or refused as the price book says", "error", err)
	}
	a.warnings = append(a.warnings, warnings...)
	for _, w := range warnings {
		a.log.Warn("the ledger's server is not set up for it", "setting", w)
	}
	return breaker.New(store, nil), lease.Shared{Server: store, Files: lease.Files(filepath.Join(s.state, "locks"))}, nil
}

// openJournal opens the journal of a ledger, which forgets what it remembers of the
// ledger if that is to be trusted as it is found.
func (a *app) openJournal(ctx context.Context, s *settings, path, ledger string, done *closers) (err error) {
	if a.journal, err = journal.Open(ctx, path, ledger); err != nil {
		return err
	}
	done.add(a.journal.Close)
	if s.fresh {
		return a.journal.Forget(ctx)
	}
	remembers, err := a.journal.Remembers(ctx)
	a.trusting = !remembers
	return err
}

// settleIn has a ledger adopt what an older journal holds, and looks for copies of it.
// If the ledger does not answer, that waits for the next process.
func (a *app) settleIn(ctx context.Context, l *quota.Ledger) error {
	orphans, err := a.journal.Orphans(ctx)
	if err != nil {
		return unopened(err, exitDown)
	}
	if orphans {
		if pages, err := l.Usage(ctx, "", ""); err == nil {
			adopted, err := a.journal.Adopt(ctx, a.now(), pages)
			if err != nil {
				return unopened(err, exitDown)
			}
			if adopted {
				a.log.Info("the journal of an older version now belongs to this ledger", "journal", a.journal.Path(), "ledger", a.journal.Ledger())
			}
		}
	}
	copies, err := a.journal.Copies(ctx, a.now())
	if err != nil {
		return unopened(err, exitDown)
	}
	for _, other := range copies {
		a.warn("this ledger and the one at %s have one identity: one is a copy of the other, and neither counts what is spent of the other", other)
	}
	return nil
}

// warn notes something about the ledger that a person should know.
func (a *app) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	a.warnings = append(a.warnings, text)
	a.log.Warn(text)
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

// openCatalog opens the catalog.
func (a *app) openCatalog(ctx context.Context, s *settings, done *closers) (*catalog.Catalog, error) {
	if err := s.makeState(s.Catalog); err != nil {
		return nil, config(err)
	}
	c, err := catalog.Open(ctx, s.Catalog, &catalog.Options{Clock: a.clock})
	if err != nil {
		return nil, unopened(err, exitFailed)
	}
	done.add(c.Close)
	return c, nil
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
	if u := s.book.Upstreams[metered]; u.Key.Header != "" {
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

// shownAddress is an address, of a ledger or an upstream, without its passwords.
func shownAddress(address string) string {
	scheme, rest, _ := strings.Cut(address, ":")
	if !strings.HasPrefix(rest, "//") {
		return address
	}
	u, err := url.Parse(address)
	if err != nil {
		return scheme + ":(no URL)" // it may hold one
	}
	q := u.Query()
	for key := range q {
		if strings.Contains(key, "password") {
			q.Set(key, "xxxxx")
		}
	}
	u.RawQuery = q.Encode()
	return u.Redacted()
}
