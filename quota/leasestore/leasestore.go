package leasestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
)

// Options are the settings of a [Store]. Nil is legal.
type Options struct {
	Clock   quota.Clock   // measures the life of blocks; nil is the machine's
	Timeout time.Duration // of giving units back; zero is 5s
}

// Store is a [quota.Store] that hands out the units of leased pools by itself. It is made
// by [New], and safe for concurrent use.
type Store struct {
	storekit.Whole // the store, which settles by itself: only it knows whether a call was settled before

	clock   quota.Clock
	timeout time.Duration
	least   int64 // of tests: a block is for at least so many calls, if there is room
	timers  bool  // end blocks; without them the clock is a simulated one
	apart   storekit.Apart
	epoch   atomic.Uint64 // changes when this process has shut a pool

	mu     sync.Mutex
	closed bool
	lines  map[lineKey][]*line
	last   *line                // of the last request, which is mostly the next one's
	recent []sighting           // of keys of families; by their hash
	seed   maphash.Seed         // of recent
	taken  map[quota.Pool]int64 // units of the blocks of a pool
	blocks map[*block]struct{}  // those that have not ended
	owed   map[owner][]*debt    // due or under way
	failed []*debt              // to be tried again
	back   int64                // how often units may have come back to the store
}

var _ storekit.Whole = (*Store)(nil)

// New returns a store that takes the units of leased pools from another one in blocks.
// Call [Store.Close] at the end.
func New(store quota.Store, o *Options) *Store {
	o = cmp.Or(o, &Options{})
	s := &Store{
		Whole: storekit.Complete(store), clock: cmp.Or[quota.Clock](o.Clock, quota.SystemClock{}), timeout: cmp.Or(o.Timeout, 5*time.Second),
		lines: make(map[lineKey][]*line), taken: make(map[quota.Pool]int64), blocks: make(map[*block]struct{}),
		owed: make(map[owner][]*debt), apart: storekit.NewApart(),
	}
	_, s.timers = s.clock.(quota.SystemClock)
	return s
}

// errNotMade is the error of a nil or zero store that is asked for units.
var errNotMade = quota.BadInput("this store was not made by leasestore.New, or has no store behind it")

// ready returns an error if the store cannot be used, or if ctx has ended.
func (s *Store) ready(ctx context.Context) error {
	if s == nil || s.Whole == nil {
		return errNotMade
	}
	return ctx.Err()
}

func (s *Store) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	if err := s.ready(ctx); err != nil {
		return quota.Verdict{}, err
	}
	if !leasable(&r) {
		return s.direct(ctx, &r)
	}
	return s.lease(ctx, &r)
}

// direct asks the store for a request. Before it refuses, this process gives back what its
// blocks have of the pools. It asks again if any units came back since the first time.
func (s *Store) direct(ctx context.Context, r *quota.Request) (quota.Verdict, error) {
	if !leased(r.Charges) {
		return s.Whole.Reserve(ctx, *r)
	}
	before, busy := s.busy(r.Charges)
	v, err := s.Whole.Reserve(ctx, *r)
	if _, now := s.busy(r.Charges); err != nil || !busy && !now { // most keys of families have no blocks
		return v, err
	}
	held := s.unspent(v.Pool)
	if !v.Allowed && !v.Impossible {
		s.giveBack(ctx, of(r.Charges))
		if since, _ := s.busy(r.Charges); !v.Blocked && since != before {
			rebased := v.Rebased
			v, err = s.Whole.Reserve(ctx, *r)
			v.Rebased, held = v.Rebased || rebased, s.unspent(v.Pool)
		}
	}
	if err == nil && (v.Allowed || v.Blocked || v.Impossible) {
		v.Used -= held
		v.Remaining = max(v.Limit-v.Used, 0)
	}
	return v, err
}

func (s *Store) Record(ctx context.Context, r quota.Request) (quota.Units, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	s.giveBack(ctx, of(r.Charges)) // they are not spent, so a correction must not take or miss them
	return s.Whole.Record(ctx, r)
}

// Block implements [quota.Store]. No call is served from a block of this process once the
// pool is shut.
func (s *Store) Block(ctx context.Context, b quota.BlockRequest) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	err := s.Whole.Block(ctx, b)
	s.epoch.Add(1)
	s.giveBack(ctx, of(b.Charges))
	return err
}

// Look implements [quota.Store]. Units that this process has not handed out are given back
// first, because they are not used.
func (s *Store) Look(ctx context.Context, charges []quota.Charge) ([]quota.PageState, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	s.giveBack(ctx, of(charges))
	return s.Whole.Look(ctx, charges)
}

// Spend implements [quota.Store]. The blocks of this process end first, so that it is
// complete.
func (s *Store) Spend(ctx context.Context, q quota.SpendQuery) ([]quota.Spent, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	s.giveBack(ctx, func(p *quota.Pool) bool { return p.Upstream == q.Upstream && p.Account == q.Account })
	return s.Whole.Spend(ctx, q)
}

// Close gives back all units that were not handed out, also of blocks that are being taken.
// After it, all calls ask the store. It returns an error if the store did not answer. The
// units then count as spent.
func (s *Store) Close() error {
	if s == nil || s.Whole == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	s.mu.Lock()
	s.closed = true
	now := s.clock.Now()
	for b := range s.blocks {
		s.end(b, now)
	}
	var taking []chan struct{}
	for _, all := range s.lines {
		for _, l := range all {
			if l.taking != nil {
				taking = append(taking, l.taking)
			}
		}
	}
	s.mu.Unlock()
	var late error
	for _, came := range taking {
		select {
		case <-came:
		case <-ctx.Done():
			late = fmt.Errorf("take a block: %w", ctx.Err())
		}
	}
	s.apart.Wait() // for blocks whose callers have left
	return errors.Join(late, s.giveAllBack(ctx))
}

// leasable reports whether a request may be served from a block.
func leasable(r *quota.Request) bool {
	if len(r.Charges) == 0 || len(r.Charges) > maxPools || r.ID != "" && !r.Fresh && !member(r.Charges) {
		return false
	}
	if len(r.Charges) > maxOwned {
		if owner, _ := quota.SplitID(r.ID); owner != "" {
			return false
		}
	}
	for i := range r.Charges {
		c := &r.Charges[i]
		if c.Lease.Life <= 0 || c.Units <= 0 {
			return false
		}
		for j := range c.Windows {
			if s := &c.Windows[j].Spec; !s.Calendar() && !s.Ring() && !(s.Estimates() && member(r.Charges)) {
				return false
			}
		}
	}
	return true
}

// member reports whether charges are of a family's member. It takes no receipts, and leaves no
// spend.
func member(charges []quota.Charge) bool { return charges[0].Pool.Name == "" }

// maxPools is how many pools a call served from a block may charge, and maxOwned one with an
// owner. Their units must fit into an id.
const maxPools, maxOwned = 4, 2

// leased reports whether blocks may have units of the pools of charges.
func leased(charges []quota.Charge) bool {
	return slices.ContainsFunc(charges, func(c quota.Charge) bool { return c.Lease.Life > 0 })
}

// of returns whether a pool is among those of charges.
func of(charges []quota.Charge) func(*quota.Pool) bool {
	return func(p *quota.Pool) bool { return has(charges, func(q *quota.Pool) bool { return *q == *p }) }
}
