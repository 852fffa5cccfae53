package journal_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
)

// admit has calls of one unit admitted, and returns how many were.
func (p *process) admit(t *testing.T, calls int) (admitted int) {
	t.Helper()
	for range calls {
		r, err := p.Reserve(t.Context(), quota.Call{Method: "videos.list"})
		if errors.Is(err, quota.ErrOutage) {
			return admitted
		}
		if err != nil || !r.Outage {
			t.Fatalf("%+v, %v; want it to be admitted in an outage", r, err)
		}
		admitted++
	}
	return admitted
}

// Production and a rehearsal share a journal: on two servers, or as two databases of
// one. Neither is taken for the other one with its memory lost, neither pays what was
// admitted for the other, and each has its own allowance.
func TestLedgersThatShareAJournalAreKeptApart(t *testing.T) {
	for name, servers := range map[string]func(t *testing.T) (all []*redistest.Server, addrs [2]string){
		"two servers": func(t *testing.T) ([]*redistest.Server, [2]string) {
			a, b := durable(t), durable(t)
			return []*redistest.Server{a, b}, [2]string{a.Addr, b.Addr}
		},
		"two databases of one": func(t *testing.T) ([]*redistest.Server, [2]string) {
			s := durable(t)
			return []*redistest.Server{s}, [2]string{s.Addr + "/0", s.Addr + "/1"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			all, addrs := servers(t)
			path := filepath.Join(t.TempDir(), "journal.db")
			production, rehearsal := startAt(t, addrs[0], path, nil), startAt(t, addrs[1], path, nil)
			for range 2 {
				for who, p := range map[string]*process{"production": production, "rehearsal": rehearsal, "production, started again": startAt(t, addrs[0], path, nil)} {
					if _, err := p.Reserve(t.Context(), quota.Call{Method: "search.list"}); err != nil {
						t.Errorf("%s: %v", who, err)
					}
					if _, err := p.Reserve(t.Context(), quota.Call{Method: "videos.list"}); err != nil {
						t.Errorf("%s: %v", who, err)
					}
				}
			}
			for _, s := range all {
				s.Kill()
			}
			if n := rehearsal.admit(t, quota.DefaultAllowance+1); n != quota.DefaultAllowance {
				t.Errorf("the rehearsal is admitted %d units, want its allowance of %d", n, quota.DefaultAllowance)
			}
			if n := production.admit(t, 3); n != 3 {
				t.Errorf("production is admitted %d units of its own allowance, want 3", n)
			}
			for _, s := range all {
				if err := s.Run(); err != nil {
					t.Fatal(err)
				}
			}
			production.back(t)
			rehearsal.back(t)
			for _, row := range []struct {
				who  string
				p    *process
				want int64
			}{{"production", production, 4 + 3}, {"the rehearsal", rehearsal, 2 + quota.DefaultAllowance}} {
				if err := row.p.Replay(t.Context()); err != nil {
					t.Errorf("%s: %v", row.who, err)
				}
				if n := row.p.used(t, "units"); n != row.want {
					t.Errorf("%s has %d units used, want %d", row.who, n, row.want)
				}
			}
		})
	}
}

// At the address of a ledger there is another one now: what was admitted for the first
// one is not charged to it, and takes nothing of its allowance.
func TestDebtsOfALedgerThatWasReplaced(t *testing.T) {
	server := durable(t)
	path := filepath.Join(t.TempDir(), "journal.db")
	p := start(t, server, path)
	if _, err := p.Reserve(t.Context(), quota.Call{Method: "videos.list"}); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	if n := p.admit(t, 30); n != 30 {
		t.Fatalf("%d were admitted, want 30", n)
	}
	if err := server.Run(); err != nil {
		t.Fatal(err)
	}
	flush(t, server)
	p = start(t, server, path)
	if err := p.Replay(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, pool := range []string{"units", "searches"} {
		_, _ = p.Admin().Adjust(t.Context(), quota.Pool{Upstream: "youtube", Account: "default", Name: pool}, 5, "as the console says")
	}
	if n := p.used(t, "units"); n != 5 {
		t.Errorf("the new ledger has %d units used, want the 5 that a person put back", n)
	}
	if left, err := p.journal.Pending(t.Context()); err != nil || len(left) != 30 {
		t.Errorf("%d calls of the ledger before are left in the journal, want 30; %v", len(left), err)
	}
	server.Kill()
	if n := p.admit(t, quota.DefaultAllowance+1); n != quota.DefaultAllowance {
		t.Errorf("the new ledger is admitted %d units, want an allowance of its own, %d", n, quota.DefaultAllowance)
	}
}

// A ledger that lost its data still answers. Calls admitted meanwhile are charged to it
// once a person has put the spend back.
func TestDebtsOfALedgerThatForgot(t *testing.T) {
	server := durable(t)
	p := start(t, server, filepath.Join(t.TempDir(), "journal.db"))
	if _, err := p.Reserve(t.Context(), quota.Call{Method: "videos.list"}); err != nil {
		t.Fatal(err)
	}
	flush(t, server)
	if n := p.admit(t, 3); n != 3 {
		t.Fatalf("%d were admitted, want 3", n)
	}
	if _, err := p.Admin().Adjust(t.Context(), pool, 5, "as the console says"); err != nil {
		t.Fatal(err)
	}
	if err := p.Replay(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := p.used(t, "units"); n != 5+3 {
		t.Errorf("%d units used, want the 5 that were put back and the 3 that were admitted", n)
	}
}

// A journal of commit 9455905 opens. Its own ledger, and no other, adopts the entries,
// once.
func TestOldJournalIsAdoptedByItsLedgerOnce(t *testing.T) {
	production, other := durable(t), durable(t)
	ledger := startAt(t, production.Addr, filepath.Join(t.TempDir(), "journal.db"), nil)
	if _, err := ledger.Reserve(t.Context(), quota.Call{Method: "videos.list"}); err != nil {
		t.Fatal(err)
	}
	pages, err := ledger.View().Usage(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	born := map[string]int64{}
	for _, u := range pages {
		born[u.Pool.Name] = u.Born.UnixMicro()
	}
	schema, err := os.ReadFile("schema/0001_journal.sql")
	if err != nil {
		t.Fatal(err)
	}
	path, until := filepath.Join(t.TempDir(), "journal.db"), time.Now().Add(25*time.Hour)
	spoil(t, path, string(schema)+fmt.Sprintf(`; PRAGMA user_version = 1; PRAGMA journal_mode = WAL;
		INSERT INTO births VALUES ('headroom:{youtube/default}:page:units', %d, %d), ('headroom:{youtube/default}:page:searches', 17, %[2]d);
		INSERT INTO entries VALUES ('a', %[3]d, NULL, 1, '', 'videos.list', '', '', '');
		INSERT INTO charges VALUES ('a', 0, 'youtube', 'default', 'units', 20, 7);`, born["units"], until.UnixMicro(), time.Now().UnixMicro()))

	rehearsal, p := startAt(t, other.Addr, path, nil), startAt(t, production.Addr, path, nil)
	found := map[*process][]quota.Usage{}
	for _, who := range []*process{p, rehearsal} {
		if found[who], err = who.View().Usage(t.Context(), "", ""); err != nil {
			t.Fatal(err)
		}
	}
	for i, row := range []struct {
		who     *process
		name    string
		orphans bool
		adopts  bool
	}{
		{rehearsal, "another ledger", true, false},
		{p, "its own ledger", true, true},
		{p, "the same again", false, false},
		{rehearsal, "another one again", false, false},
	} {
		if orphans, err := row.who.journal.Orphans(t.Context()); err != nil || orphans != row.orphans {
			t.Errorf("%d, %s: orphans %t, want %t; %v", i, row.name, orphans, row.orphans, err)
		}
		if got, err := row.who.journal.Adopt(t.Context(), time.Now(), found[row.who]); err != nil || got != row.adopts {
			t.Errorf("%d, %s: adopts %t, want %t; %v", i, row.name, got, row.adopts, err)
		}
	}
	if err := p.Replay(t.Context()); err != nil {
		t.Fatal(err)
	}
	spent, err := p.View().Spend(t.Context(), quota.SpendQuery{}, quota.ByMethod)
	if err != nil || len(spent) != 1 || spent[0].Units != 1+7 {
		t.Errorf("spent %+v, %v; want 1 and the 7 of the old journal", spent, err)
	}
	if _, err := p.Reserve(t.Context(), quota.Call{Method: "search.list"}); !errors.As(err, new(*quota.ForgottenError)) {
		t.Errorf("searches: %v; want it to be forgotten, as the old journal remembers a page", err)
	}
	if _, err := rehearsal.Reserve(t.Context(), quota.Call{Method: "search.list"}); err != nil {
		t.Errorf("the rehearsal: %v", err)
	}
}

// A ledger and a copy of it have one identity. That is said, and they count apart.
func TestCopyOfALedgerIsNoticed(t *testing.T) {
	original, replica := durable(t), durable(t)
	path := filepath.Join(t.TempDir(), "journal.db")
	p := startAt(t, original.Addr, path, nil)
	if _, err := p.Reserve(t.Context(), quota.Call{Method: "videos.list"}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(replica.Follow(t.Context(), original), replica.CatchUp(t.Context(), original), replica.Lead(t.Context())); err != nil {
		t.Fatal(err)
	}
	if all, err := p.journal.Copies(t.Context(), time.Now()); err != nil || len(all) != 0 {
		t.Errorf("before it is used: %v, %v", all, err)
	}
	q := startAt(t, replica.Addr, path, nil)
	for range 2 {
		if _, err := q.Reserve(t.Context(), quota.Call{Method: "videos.list"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := p.used(t, "units"); n != 1 {
		t.Errorf("the original has %d units used, want 1", n)
	}
	for _, row := range []struct {
		j    *process
		want string
	}{{p, "redis://" + replica.Addr}, {q, "redis://" + original.Addr}} {
		if all, err := row.j.journal.Copies(t.Context(), time.Now()); err != nil || len(all) != 1 || all[0] != row.want {
			t.Errorf("copies %v, %v; want %s", all, err, row.want)
		}
	}
}
