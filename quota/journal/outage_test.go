package journal_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/breaker"
	"github.com/headroom-quota/headroom/quota/journal"
	"github.com/headroom-quota/headroom/quota/redisstore"
)

const prices = `
revision: 1
upstreams:
  youtube:
    classes: {careful: {outage: refuse}, manual: {outage: admit}}
    pools:
      units:    {quota: 1000000, headroom: 0, windows: [{per: 24h}]}
      searches: {quota: 1000000, headroom: 0, windows: [{per: 24h}]}
    methods:
      videos.list: {pool: units, cost: 1, outage: admit}
      channels.list: {pool: units, cost: 20, outage: admit}
      search.list: {pool: searches, cost: 1}
`

// process is what one process has: a ledger on a server and a journal.
type process struct {
	*quota.Ledger
	client  *redis.Client
	journal *journal.Journal
	events  []quota.EventKind
	log     strings.Builder
}

// open begins a process; wrap may put something between the ledger and its store.
func open(addr, path string, wrap func(quota.Store) quota.Store) (*process, error) {
	parsed, err := book.Parse("costs.yaml", []byte(prices), nil)
	if err != nil {
		return nil, err
	}
	host, db, _ := strings.Cut(addr, "/") // a server, or one of its databases
	n, _ := strconv.Atoi(db)
	p := &process{client: redis.NewClient(&redis.Options{Addr: host, DB: n, MaxRetries: -1, DialerRetries: 1})}
	if p.journal, err = journal.Open(context.Background(), path, "redis://"+addr); err != nil {
		return nil, err
	}
	var store quota.Store
	if store, err = redisstore.New(p.client, &redisstore.Options{Births: p.journal, Timeout: 20 * time.Second}); err != nil {
		return nil, err
	}
	if wrap != nil {
		store = wrap(store)
	}
	log := quota.LogObserver(slog.New(slog.NewTextHandler(&p.log, nil)))
	p.Ledger, err = quota.New(parsed, breaker.New(store, &breaker.Options{Probe: 20 * time.Millisecond}), &quota.Options{
		Journal: p.journal,
		Observer: quota.ObserverFunc(func(e quota.Event) {
			p.events = append(p.events, e.Kind)
			log.Observe(context.Background(), e)
		}),
	})
	return p, err
}

func start(t *testing.T, server *redistest.Server, path string) *process {
	t.Helper()
	return startBehind(t, server, path, nil)
}

func startBehind(t *testing.T, server *redistest.Server, path string, wrap func(quota.Store) quota.Store) *process {
	t.Helper()
	return startAt(t, server.Addr, path, wrap)
}

func startAt(t *testing.T, addr, path string, wrap func(quota.Store) quota.Store) *process {
	t.Helper()
	p, err := open(addr, path, wrap)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.client.Close()
		p.journal.Close()
	})
	return p
}

func durable(t *testing.T) *redistest.Server {
	t.Helper()
	server, err := redistest.Start(t.TempDir(), "--appendonly", "yes", "--appendfsync", "always")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	return server
}

func (p *process) used(t *testing.T, pool string) int64 {
	t.Helper()
	all, err := p.View().Usage(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range all {
		if u.Pool.Name == pool {
			return u.Allowances[0].Used
		}
	}
	t.Fatalf("no pool %s", pool)
	return 0
}

// back waits until the breaker's probe has found the server.
func (p *process) back(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		_, err := p.View().Usage(t.Context(), "", "")
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestOutage(t *testing.T) {
	top := t // whose end closes what is opened
	server := durable(t)
	path := filepath.Join(t.TempDir(), "journal.db")
	p := start(t, server, path)
	list, search := quota.Call{Method: "videos.list", Job: "trending", Region: "DE"}, quota.Call{Method: "search.list"}
	for range 3 {
		if _, err := p.Reserve(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	server.Kill()

	t.Run("a method that refuses is refused, and not as if the quota were gone", func(t *testing.T) {
		_, err := p.Reserve(t.Context(), search)
		if !errors.Is(err, quota.ErrOutage) || errors.Is(err, quota.ErrRefused) {
			t.Error(err)
		}
	})
	t.Run("a call and a class override the method", func(t *testing.T) {
		for _, c := range []quota.Call{{Method: "videos.list", Outage: quota.Refuse}, {Method: "videos.list", Class: "careful"}} {
			if _, err := p.Reserve(t.Context(), c); !errors.Is(err, quota.ErrOutage) {
				t.Errorf("%+v: %v", c, err)
			}
		}
		r, err := p.Reserve(t.Context(), quota.Call{Method: "search.list", Class: "manual"})
		if err != nil || !r.Outage {
			t.Error(r, err)
		}
	})
	t.Run("a method that admits is admitted within the allowance", func(t *testing.T) {
		admitted := 0
		for range 60 {
			r, err := p.Reserve(t.Context(), list)
			if err == nil {
				admitted++
				if !r.Outage || !r.Allowed {
					t.Fatalf("%+v", r.Verdict)
				}
			} else if !errors.Is(err, quota.ErrOutage) {
				t.Fatal(err)
			}
		}
		if admitted != quota.DefaultAllowance {
			t.Errorf("admitted %d, want %d", admitted, quota.DefaultAllowance)
		}
	})
	t.Run("a process that starts again gets no fresh allowance", func(t *testing.T) {
		p.journal.Close()
		p = start(top, server, path)
		_, err := p.Reserve(t.Context(), list)
		if !errors.Is(err, quota.ErrOutage) {
			t.Error(err)
		}
	})
	t.Run("what was admitted is charged once the ledger is back, once", func(t *testing.T) {
		if err := server.Run(); err != nil {
			t.Fatal(err)
		}
		p.back(t)
		other := start(t, server, path) // replays at the same time
		var group sync.WaitGroup
		for _, q := range []*process{p, other} {
			group.Go(func() {
				if err := q.Replay(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if units, searches := p.used(t, "units"), p.used(t, "searches"); units != 53 || searches != 1 {
			t.Errorf("used %d units and %d searches, want 53 and 1", units, searches)
		}
		left, err := p.journal.Pending(t.Context())
		if err != nil || len(left) != 0 {
			t.Error(left, err)
		}
		spent, err := p.View().Spend(t.Context(), quota.SpendQuery{}, quota.ByRegion)
		if err != nil || spent[len(spent)-1].Units != 53 {
			t.Error(spent, err)
		}
	})
	t.Run("and the allowance is whole again", func(t *testing.T) {
		server.Kill()
		if _, err := p.Reserve(t.Context(), list); err != nil {
			t.Error(err)
		}
	})
}

func TestSettleInAnOutage(t *testing.T) {
	server := durable(t)
	p := start(t, server, filepath.Join(t.TempDir(), "journal.db"))
	server.Kill()
	r, err := p.Reserve(t.Context(), quota.Call{Method: "channels.list"})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := r.Settle(t.Context(), quota.Units{"units": 5}); err != nil || s.Back != 15 {
		t.Error(s, err)
	}
	other, err := p.Reserve(t.Context(), quota.Call{Method: "channels.list"})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := other.Release(t.Context()); err != nil || s.Back != 20 {
		t.Error(s, err)
	}
	if err := server.Run(); err != nil {
		t.Fatal(err)
	}
	p.back(t)
	if err := p.Replay(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := p.used(t, "units"); n != 5 {
		t.Errorf("used %d, want 5", n)
	}
	if s, err := r.Release(t.Context()); err != nil || s.Back != 15 || !s.Repeat {
		t.Error("the first settlement wins:", s, err)
	}
	server.Kill()
	if r, err = p.Reserve(t.Context(), quota.Call{Method: "channels.list"}); err != nil {
		t.Fatal(err)
	}
	if err := server.Run(); err != nil {
		t.Fatal(err)
	}
	p.back(t)
	if err := p.Replay(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, err := r.Release(t.Context()); err != nil || s.Back != 20 {
		t.Error("a call that is in the ledger already:", s, err)
	}
	if n := p.used(t, "units"); n != 5 {
		t.Errorf("used %d, want 5", n)
	}
}

func TestBlockInAnOutage(t *testing.T) {
	server := durable(t)
	path := filepath.Join(t.TempDir(), "journal.db")
	p := start(t, server, path)
	server.Kill()
	pool := quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}
	if err := p.BlockFor(t.Context(), pool, time.Hour, "quotaExceeded"); err != nil {
		t.Fatal(err)
	}
	for _, q := range []*process{p, start(t, server, path)} { // every process of the machine
		_, err := q.Reserve(t.Context(), quota.Call{Method: "videos.list"})
		var refused *quota.RefusedError
		if !errors.Is(err, quota.ErrBlocked) || !errors.As(err, &refused) || refused.Reason != "quotaExceeded" {
			t.Error(err)
		}
	}
	if err := server.Run(); err != nil {
		t.Fatal(err)
	}
	p.back(t)
	if _, err := p.Reserve(t.Context(), quota.Call{Method: "videos.list"}); !errors.Is(err, quota.ErrBlocked) || errors.Is(err, quota.ErrOutage) {
		t.Error("the block did not reach the ledger:", err)
	}
}

// A server that lost its memory is an outage until a person has put the spend back.
func TestLedgerThatForgot(t *testing.T) {
	server, err := redistest.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	path := filepath.Join(t.TempDir(), "journal.db")
	p := start(t, server, path)
	search := quota.Call{Method: "search.list"}
	for range 7 {
		if _, err := p.Reserve(t.Context(), search); err != nil {
			t.Fatal(err)
		}
	}
	server.Kill()
	if err := server.Run(); err != nil {
		t.Fatal(err)
	}
	p = start(t, server, path) // also a process that has just begun
	_, err = p.Reserve(t.Context(), search)
	var forgotten *quota.ForgottenError
	if !errors.Is(err, quota.ErrOutage) || !errors.As(err, &forgotten) || errors.Is(err, quota.ErrRefused) {
		t.Fatal(err)
	}
	pool := quota.Pool{Upstream: "youtube", Account: "default", Name: "searches"}
	if _, err := p.Admin().Adjust(t.Context(), pool, 7, "counted by hand"); err != nil {
		t.Fatal(err)
	}
	r, err := p.Reserve(t.Context(), search)
	if err != nil || r.Used != 8 {
		t.Error(r, err)
	}
}

// A block that was journaled does not come back once a person has opened the pool,
// and bad input is not written down.
func TestWhatTheJournalDoesNotKeep(t *testing.T) {
	server := durable(t)
	p := start(t, server, filepath.Join(t.TempDir(), "journal.db"))
	server.Kill()
	pool := quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}
	if err := p.BlockFor(t.Context(), pool, 0, ""); !errors.Is(err, quota.ErrBadInput) {
		t.Error(err)
	}
	if _, err := p.Reserve(t.Context(), quota.Call{Method: "videos.list", Job: "a\x00"}); !errors.Is(err, quota.ErrBadInput) {
		t.Error(err)
	}
	if err := p.BlockFor(t.Context(), pool, time.Hour, "quotaExceeded"); err != nil {
		t.Fatal(err)
	}
	if err := server.Run(); err != nil {
		t.Fatal(err)
	}
	p.back(t)
	if err := p.Admin().Unblock(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Reserve(t.Context(), quota.Call{Method: "videos.list"}); err != nil {
		t.Error(err)
	}
}

func TestJournalThatCannotBeWritten(t *testing.T) {
	server := durable(t)
	p := start(t, server, filepath.Join(t.TempDir(), "journal.db"))
	server.Kill()
	p.journal.Close()
	_, err := p.Reserve(t.Context(), quota.Call{Method: "videos.list"})
	if !errors.Is(err, quota.ErrOutage) {
		t.Error(err)
	}
}

func TestObserverAndLogHearOfTheOutage(t *testing.T) {
	server := durable(t)
	p := start(t, server, filepath.Join(t.TempDir(), "journal.db"))
	server.Kill()
	r, err := p.Reserve(t.Context(), quota.Call{Method: "videos.list"})
	if err != nil {
		t.Fatal(err)
	}
	r.Settle(t.Context(), quota.Units{"units": 2})
	p.Reserve(t.Context(), quota.Call{Method: "search.list"})
	if err := server.Run(); err != nil {
		t.Fatal(err)
	}
	p.back(t)
	time.Sleep(600 * time.Millisecond) // a limit that could not be read is asked for again half a second later
	p.Reserve(t.Context(), quota.Call{Method: "videos.list"})
	want := []quota.EventKind{"admitted", "settled", "outage", "replayed", "granted"}
	if diff := cmp.Diff(want, p.events); diff != "" {
		t.Error(diff)
	}
	for _, want := range []string{
		`level=WARN msg="admitted in an outage of the ledger" pool=youtube/units method=videos.list id=`,
		`connection refused`, // the outage
		`level=WARN msg="refused: outage of the ledger" method=search.list err="reserve youtube/searches: ledger outage, and the call's policy is to refuse: `,
		`level=INFO msg="replayed from the journal" pool=youtube/units method=videos.list units=2`,
	} {
		if !strings.Contains(p.log.String(), want) {
			t.Errorf("the log has no\n%s\nbut\n%s", want, p.log.String())
		}
	}
}
