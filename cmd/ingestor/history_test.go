package main

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/ledger"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/open"
)

// past is a place with a ledger, its journal and a catalog of runs, at 09:00 in
// California.
type past struct {
	*testing.T
	dir   string
	clock *quota.SimClock
	book  *quota.Book
}

func newPast(t *testing.T) *past {
	book, err := headroom.Load("")
	if err != nil {
		t.Fatal(err)
	}
	return &past{t, t.TempDir(), quota.NewSimClock(time.Date(2026, 11, 20, 17, 0, 0, 0, time.UTC)), book}
}

// in does something as a process does it, with this ledger and the catalog.
func (p *past) in(ledger string, do func(*session.Session, *settings.Settings, *quota.Ledger, session.AnyCatalog)) {
	p.Helper()
	address, err := open.Parse("sqlite:" + filepath.Join(p.dir, ledger))
	if err != nil {
		p.Fatal(err)
	}
	s := &settings.Settings{Ledger: address.String(), Fresh: address.Fresh, Catalog: filepath.Join(p.dir, "catalog.db"), State: p.dir, Book: p.book}
	s.Jobs = map[string]ingest.Job{"trending": {Name: "trending"}}
	a := &session.Session{Clock: p.clock, Log: slog.New(slog.DiscardHandler), Stdout: io.Discard, Stderr: io.Discard, Loaded: s, Output: "json"}
	var done console.Closers
	l, err := a.OpenLedger(p.Context(), s, &done)
	if err != nil {
		p.Fatal(err)
	}
	c, err := a.OpenCatalog(p.Context(), s, &done)
	if err != nil {
		p.Fatal(err)
	}
	do(a, s, l, c)
	if err := done.Close(); err != nil {
		p.Fatal(err)
	}
}

// run is a run of 40 units, as the ledger and the catalog have it; or none, if the
// ledger is refused.
func (p *past) run(ledger string) (refused error) {
	p.Helper()
	p.in(ledger, func(a *session.Session, s *settings.Settings, l *quota.Ledger, c session.AnyCatalog) {
		if refused = a.Compare(p.Context(), s, l, c); refused != nil {
			return
		}
		for range 40 {
			if _, err := l.Reserve(p.Context(), quota.Call{Method: "videos.list", Job: "trending"}); err != nil {
				p.Fatal(err)
			}
		}
		r, err := c.Begin(p.Context(), catalog.Start{Job: "trending"})
		if err != nil {
			p.Fatal(err)
		}
		done := catalog.Outcome{State: catalog.Done, Units: 40}
		if err := errors.Join(r.EndWork(p.Context(), "US", "US", done), r.End(p.Context(), done)); err != nil {
			p.Fatal(err)
		}
	})
	return refused
}

func (p *past) remove(names ...string) {
	p.Helper()
	for _, name := range names {
		if err := os.Remove(filepath.Join(p.dir, name)); err != nil {
			p.Fatal(err)
		}
	}
}

// The ledger and its journal are gone, and the catalog knows of runs of today.
func TestLedgerThatKnowsLessThanTheRuns(t *testing.T) {
	t.Parallel()
	units := quota.Pool{Upstream: "youtube", Account: quota.DefaultAccount, Name: "units"}
	for _, tt := range []struct {
		name    string
		then    func(p *past)
		refused bool
	}{
		{"is refused", func(*past) {}, true},
		{"is refused though others have spent", func(p *past) {
			p.in("ledger.db", func(_ *session.Session, _ *settings.Settings, l *quota.Ledger, _ session.AnyCatalog) {
				if _, err := l.Reserve(t.Context(), quota.Call{Method: "videos.list", Job: "other"}); err != nil {
					t.Fatal(err)
				}
			})
		}, true},
		{"is trusted once a person has adjusted it", func(p *past) {
			p.in("ledger.db", func(_ *session.Session, _ *settings.Settings, l *quota.Ledger, _ session.AnyCatalog) {
				if _, err := l.Admin().Adjust(t.Context(), units, 1, "as the console says"); err != nil {
					t.Fatal(err)
				}
			})
		}, false},
		{"is trusted once it was started afresh", func(p *past) {
			p.in("ledger.db", func(a *session.Session, _ *settings.Settings, l *quota.Ledger, _ session.AnyCatalog) {
				if err := ledger.StartAfresh(t.Context(), a, l, "nothing was spent"); err != nil {
					t.Fatal(err)
				}
			})
		}, false},
		{"is trusted if its address says so", func(p *past) {
			p.in("ledger.db?fresh", func(a *session.Session, s *settings.Settings, l *quota.Ledger, c session.AnyCatalog) {
				if err := a.Compare(t.Context(), s, l, c); err != nil {
					t.Error(err)
				}
			})
		}, false},
		{"is trusted the next day", func(p *past) { p.clock.Advance(24 * time.Hour) }, false},
		{"is trusted just after midnight", func(p *past) { p.clock.Advance(15*time.Hour + 5*time.Minute) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPast(t)
			for range 2 {
				if err := p.run("ledger.db"); err != nil {
					t.Fatal(err)
				}
				p.clock.Advance(time.Minute)
			}
			p.remove("ledger.db", "journal-ledger.db")
			tt.then(p)
			err := p.run("ledger.db")
			if refused := console.ExitCode(err) == console.ExitDown && errors.Is(err, quota.ErrOutage); refused != tt.refused || !refused && err != nil {
				t.Errorf("the next run: %v", err)
			}
		})
	}
	t.Run("is refused pool by pool while there is a journal", func(t *testing.T) {
		p := newPast(t)
		if err := p.run("ledger.db"); err != nil {
			t.Fatal(err)
		}
		p.remove("ledger.db")
		p.in("ledger.db", func(a *session.Session, s *settings.Settings, l *quota.Ledger, c session.AnyCatalog) {
			if err := a.Compare(t.Context(), s, l, c); err != nil {
				t.Errorf("the whole ledger is refused: %v", err)
			}
			if _, err := l.Reserve(t.Context(), quota.Call{Method: "videos.list", Outage: quota.Refuse}); !errors.As(err, new(*quota.ForgottenError)) {
				t.Errorf("a call: %v", err)
			}
		})
	})
	t.Run("is no alarm for the catalog of another ledger", func(t *testing.T) {
		p := newPast(t)
		for _, ledger := range []string{"ledger.db", "second.db", "second.db", "ledger.db"} {
			if err := p.run(ledger); err != nil {
				t.Errorf("%s: %v", ledger, err)
			}
			p.clock.Advance(time.Minute)
		}
	})
	t.Run("is no alarm after a correction downwards", func(t *testing.T) {
		p := newPast(t)
		if err := p.run("ledger.db"); err != nil {
			t.Fatal(err)
		}
		p.in("ledger.db", func(_ *session.Session, _ *settings.Settings, l *quota.Ledger, _ session.AnyCatalog) {
			if _, err := l.Admin().Adjust(t.Context(), units, -30, "counted twice"); err != nil {
				t.Fatal(err)
			}
		})
		if err := p.run("ledger.db"); err != nil {
			t.Error(err)
		}
	})
}
