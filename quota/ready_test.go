package quota_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/journal"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// readable is a store that can be read and not written.
type readable struct{ quota.Store }

func (readable) Settle(context.Context, quota.Token, quota.Units) (quota.Settlement, error) {
	return quota.Settlement{}, errors.New("the file is locked")
}

func TestReady(t *testing.T) {
	costs, err := book.Parse("costs.yaml", []byte("revision: 1\nupstreams: {shop: {pools: {units: {quota: 10, windows: [{per: 1h}]}}, methods: {get: 1}}}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	ready := func(s quota.Store) (*quota.Ledger, error) {
		l, err := quota.New(costs, s, nil)
		if err != nil {
			t.Fatal(err)
		}
		return l, l.Ready(t.Context())
	}
	t.Run("a ledger that takes reservations is", func(t *testing.T) {
		l, err := ready(memstore.New(nil))
		if err != nil {
			t.Error(err)
		}
		if all, err := l.View().Usage(t.Context(), "", ""); err != nil || all[0].Known {
			t.Errorf("it has charged the pool: %+v, %v", all, err)
		}
	})
	t.Run("one that can only be read is not", func(t *testing.T) {
		if _, err := ready(readable{memstore.New(nil)}); !errors.Is(err, quota.ErrOutage) {
			t.Errorf("it says %v", err)
		}
	})
	t.Run("a ledger that nobody made is not", func(t *testing.T) {
		if err := new(quota.Ledger).Ready(t.Context()); err == nil {
			t.Error("it is ready")
		}
	})
}

// fickleStore is a store that is down for a while.
type fickleStore struct {
	quota.Store
	down bool
}

func (d *fickleStore) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	if d.down {
		return quota.Verdict{}, errors.New("it is down")
	}
	return d.Store.Reserve(ctx, r)
}

// TestReadyChargesWhatAnOutageOwes: what is left after Ready is what the next call finds, also if another process
// admitted calls and is gone.
func TestReadyChargesWhatAnOutageOwes(t *testing.T) {
	costs, err := book.Parse("costs.yaml", []byte("revision: 1\nupstreams: {shop: {pools: {units: {quota: 10, windows: [{per: 1h}]}}, methods: {get: {pool: units, cost: 4, outage: admit}}}}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	store, folder := &fickleStore{Store: memstore.New(nil)}, t.TempDir()
	process := func() *quota.Ledger {
		j, err := journal.Open(t.Context(), filepath.Join(folder, "journal.db"), "one")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = j.Close() })
		l, err := quota.New(costs, store, &quota.Options{Journal: j})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	server, command := process(), process()
	if err := server.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	store.down = true
	if _, err := command.Reserve(t.Context(), quota.Call{Method: "get"}); err != nil {
		t.Fatal(err)
	}
	store.down = false
	if err := server.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := server.View().Usage(t.Context(), "", "")
	if err != nil || all[0].Allowances[0].Used != 4 {
		t.Errorf("%+v, %v, want 4 units used", all, err)
	}
}

// tornJournal is a journal that cannot be read for a while.
type tornJournal struct {
	quota.Journal
	torn bool
}

func (j *tornJournal) Pending(ctx context.Context) ([]quota.Entry, error) {
	if j.torn {
		return nil, errors.New("it is torn")
	}
	return j.Journal.Pending(ctx)
}

// TestReadyWithATornJournal: a journal that cannot be read holds up no call that did not need it, and a look at the
// ledger does not change that.
func TestReadyWithATornJournal(t *testing.T) {
	costs, err := book.Parse("costs.yaml", []byte("revision: 1\nupstreams: {shop: {pools: {units: {quota: 10, windows: [{per: 1h}]}}, methods: {get: 4}}}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := journal.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), "one")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kept.Close() })
	j := &tornJournal{Journal: kept}
	l, err := quota.New(costs, memstore.New(nil), &quota.Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	j.torn = true
	if err := l.Ready(t.Context()); !errors.Is(err, quota.ErrOutage) {
		t.Errorf("an earlier process may have left entries, and it says %v", err)
	}
	j.torn = false
	if err := l.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	j.torn = true
	for range 2 {
		if err := l.Ready(t.Context()); err != nil {
			t.Errorf("it says %v", err)
		}
		if _, err := l.Reserve(t.Context(), quota.Call{Method: "get"}); err != nil {
			t.Errorf("the call is not granted: %v", err)
		}
	}
}

// An admitted call of a pool that is in no price book any more stays in the journal, and holds up no other.
func TestACallOfAPoolThatIsGone(t *testing.T) {
	const both = "revision: 1\nupstreams: {shop: {pools: {old: {quota: 10, windows: [{per: 1h}]}, units: {quota: 10, windows: [{per: 1h}]}}, methods: {old: {pool: old, cost: 1, outage: admit}, get: {pool: units, cost: 4, outage: admit}}}}\n"
	const one = "revision: 1\nupstreams: {shop: {pools: {units: {quota: 10, windows: [{per: 1h}]}}, methods: {get: 4}}}\n"
	j, err := journal.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), "one")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	store := &unreachable{Store: memstore.New(nil), on: true}
	process := func(text string) *quota.Ledger {
		l, err := quota.New(mustParse(t, text), store, &quota.Options{Journal: j})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	before := process(both)
	for _, method := range []string{"old", "get"} {
		must(t, before, quota.Call{Method: method})
	}
	store.on = false
	after := process(one)
	must(t, after, quota.Call{Method: "get"})
	all, err := after.View().Usage(t.Context(), "", "")
	if err != nil || all[0].Allowances[0].Used != 8 {
		t.Errorf("%+v, %v, want the 4 units of an outage and 4 more", all, err)
	}
	if err := after.Replay(t.Context()); !errors.Is(err, quota.ErrBadInput) {
		t.Errorf("replayed: %v", err)
	}
	if err := process(both).Replay(t.Context()); err != nil {
		t.Errorf("replayed with the pool: %v", err)
	}
}
