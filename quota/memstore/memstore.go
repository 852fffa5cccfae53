// Package memstore keeps a ledger in memory: for tests, for simulations, and for
// limits per client inside one process. What it knows ends with the process; a
// quota that is shared or must survive a restart belongs in sqlitestore or
// redisstore.
package memstore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	chacha "math/rand/v2"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// Options are what New can be told.
type Options struct {
	Clock quota.Clock // nil: the machine's
}

// Store is a [quota.Store] in memory. It is safe for concurrent use.
type Store struct {
	clock quota.Clock

	mu       sync.Mutex
	nonces   *chacha.ChaCha8
	accounts map[accountKey]*account
	families map[accountKey]*family
	last     *account
	lastKey  accountKey

	// scratch of one call, by charge
	pools []int32
	pages []*window.Page
	at    []window.Instant // when it counted
}

var _ quota.Store = (*Store)(nil)

type accountKey struct{ upstream, account string }

// account is what one account's pools share: their receipts.
type account struct {
	pools    []*pool
	receipts receipts
}

// pool is a page with what stands beside it.
type pool struct {
	name   string
	page   *window.Page
	reason string // of the block
	spend  spend
}

// New returns an empty store.
func New(o *Options) *Store {
	s := &Store{
		clock:    quota.SystemClock{},
		accounts: make(map[accountKey]*account),
		families: make(map[accountKey]*family),
	}
	if o != nil && o.Clock != nil {
		s.clock = o.Clock
	}
	var seed [32]byte
	rand.Read(seed[:])
	s.nonces = chacha.NewChaCha8(seed)
	return s
}

// Reserve implements [quota.Store].
func (s *Store) Reserve(ctx context.Context, r quota.Request) (v quota.Verdict, err error) {
	if err := ctx.Err(); err != nil {
		return v, err
	}
	if err := r.Check(); err != nil {
		return v, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if r.Charges[0].Pool.Key != "" {
		return s.reserveMember(now, r)
	}
	a := s.account(r.Charges[0].Pool)
	if !r.Fresh {
		if got, c := a.receipts.get(r.ID, now); got != nil && !(got.released && a.covers(c.of(got), r.Charges)) {
			return a.repeat(now, r, got, c.of(got))
		}
	}
	pools, err := s.layOut(now, a, r.Charges)
	if err != nil {
		return v, err
	}
	v = quota.Decide(now, r.Charges, s.pages)
	v.ID = r.ID
	if !v.Allowed {
		if v.Blocked {
			v.Reason = a.find(v.Pool.Name).reason
		}
		return v, nil
	}
	s.at = s.at[:0]
	for _, p := range s.pages {
		s.at = append(s.at, p.Latest)
	}
	v.Nonce = s.keep(now, a, &r, pools)
	return v, nil
}

// newNonce makes what nobody can guess.
func (s *Store) newNonce(nonce *[16]byte) {
	binary.LittleEndian.PutUint64(nonce[:8], s.nonces.Uint64())
	binary.LittleEndian.PutUint64(nonce[8:], s.nonces.Uint64())
}

// keep counts the spend of charges that were made, and leaves a receipt under the
// request's id if it has one.
func (s *Store) keep(now time.Time, a *account, r *quota.Request, pools []int32) (nonce [16]byte) {
	var got *receipt
	var c *chunk
	if r.ID != "" {
		got, c = a.receipts.put(r.ID, now)
		s.newNonce(&got.nonce)
		nonce = got.nonce
	}
	for i, n := range pools {
		t := a.charge(n, window.At(now), s.at[i], &r.Charges[i], r.Labels)
		if got != nil {
			c.add(got, t)
		}
	}
	return nonce
}

// repeat answers an id that has its receipt.
func (a *account) repeat(now time.Time, r quota.Request, got *receipt, all []taken) (quota.Verdict, error) {
	if !a.covers(all, r.Charges) {
		return quota.Verdict{}, quota.OtherCharges(r.ID)
	}
	for i, t := range all { // before any page is changed
		if err := quota.CheckBook(&r.Charges[i], a.pools[t.pool].page); err != nil {
			return quota.Verdict{}, err
		}
	}
	pages := make([]*window.Page, len(r.Charges))
	for i, t := range all {
		page, err := quota.LayOut(now, &r.Charges[i], a.pools[t.pool].page)
		if err != nil {
			return quota.Verdict{}, err
		}
		pages[i] = page
	}
	v := quota.Standing(now, r.Charges, pages)
	v.ID, v.Nonce, v.At = r.ID, got.nonce, all[0].At.Time()
	return v, nil
}

// Settle implements [quota.Store].
func (s *Store) Settle(ctx context.Context, t quota.Token, units []int64) (quota.Settlement, error) {
	if err := ctx.Err(); err != nil {
		return quota.Settlement{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	a := s.accounts[accountKey{t.Upstream, t.Account}]
	if a == nil {
		return quota.Settlement{}, quota.NoReceipt(t)
	}
	got, c := a.receipts.get(t.ID, now)
	if got == nil || got.nonce != t.Nonce {
		return quota.Settlement{}, quota.NoReceipt(t)
	}
	all := c.of(got)
	if err := quota.CheckSettle(units, len(all)); err != nil {
		return quota.Settlement{}, err
	}
	if got.settled {
		again := got.settlement
		again.Repeat = true
		return again, nil
	}
	for i := range all {
		got.settlement.Add(a.settle(now, all[i], units[i]))
	}
	got.settled, got.released = true, quota.Released(units)
	return got.settlement, nil
}

// Record implements [quota.Store].
func (s *Store) Record(ctx context.Context, r quota.Request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.CheckRecord(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if r.Charges[0].Pool.Key != "" {
		return s.recordMember(now, r)
	}
	a := s.account(r.Charges[0].Pool)
	if got, c := a.receipts.get(r.ID, now); got != nil {
		switch {
		case !a.covers(c.of(got), r.Charges):
			return quota.OtherCharges(r.ID)
		case !got.released: // that call never left; this one is another try
			return nil
		}
	}
	pools, err := s.layOut(now, a, r.Charges)
	if err != nil {
		return err
	}
	s.at = s.at[:0]
	for i, p := range s.pages {
		s.at = append(s.at, quota.RecordIn(p, now, r.At, r.Charges[i].Units))
	}
	s.keep(now, a, &r, pools)
	return nil
}

// Block implements [quota.Store].
func (s *Store) Block(ctx context.Context, b quota.BlockRequest) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.Check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	a := s.account(b.Charges[0].Pool)
	pools, err := s.layOut(now, a, b.Charges)
	if err != nil {
		return err
	}
	for _, n := range pools {
		if p := a.pools[n]; quota.BlockIn(p.page, now, b) {
			p.reason = b.Reason
		}
	}
	return nil
}

// Look implements [quota.Store].
func (s *Store) Look(ctx context.Context, charges []quota.Charge) ([]quota.PageState, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	states := make([]quota.PageState, len(charges))
	for i := range charges {
		page, reason := s.page(charges[i].Pool)
		state, err := quota.Describe(now, &charges[i], page)
		if err != nil {
			return nil, err
		}
		if !state.Blocked.IsZero() {
			state.Reason = reason
		}
		states[i] = state
	}
	return states, nil
}

// Spend implements [quota.Store].
func (s *Store) Spend(ctx context.Context, q quota.SpendQuery) ([]quota.Spent, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := q.Check(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []quota.Spent
	if a := s.accounts[accountKey{q.Upstream, q.Account}]; a != nil {
		for _, p := range a.pools {
			all = p.spend.read(all, quota.Pool{Upstream: q.Upstream, Account: q.Account, Name: p.name}, q)
		}
	}
	quota.SortSpent(all)
	return all, nil
}

// account returns the account of a pool, known or new. It is mostly the last
// one's again.
func (s *Store) account(p quota.Pool) *account {
	key := accountKey{p.Upstream, p.Account}
	if s.last != nil && s.lastKey == key {
		return s.last
	}
	a := s.accounts[key]
	if a == nil {
		a = &account{}
		s.accounts[key] = a
	}
	s.last, s.lastKey = a, key
	return a
}

// find returns a pool by name, or nil.
func (a *account) find(name string) *pool {
	if n := a.index(name); n >= 0 {
		return a.pools[n]
	}
	return nil
}

// index returns the number of a pool, or -1. An account has few.
func (a *account) index(name string) int32 {
	for i, p := range a.pools {
		if p.name == name {
			return int32(i)
		}
	}
	return -1
}

// layOut finds the pools of charges and lays out their pages, in s.pages. A
// charge that is refused leaves every page as it was.
func (s *Store) layOut(now time.Time, a *account, charges []quota.Charge) ([]int32, error) {
	s.pages, s.pools = s.pages[:0], s.pools[:0]
	for i := range charges {
		n := a.index(charges[i].Pool.Name)
		s.pools = append(s.pools, n)
		if n < 0 || len(charges) == 1 { // LayOut checks a single one itself
			continue
		}
		if err := quota.CheckBook(&charges[i], a.pools[n].page); err != nil {
			return nil, err
		}
	}
	for i, n := range s.pools {
		if n < 0 {
			n = int32(len(a.pools))
			s.pools[i] = n
			a.pools = append(a.pools, &pool{name: charges[i].Pool.Name})
		}
		page, err := quota.LayOut(now, &charges[i], a.pools[n].page)
		if err != nil {
			return nil, err
		}
		a.pools[n].page = page
		s.pages = append(s.pages, page)
	}
	return s.pools, nil
}

// page returns a pool's page and the reason of its block.
func (s *Store) page(p quota.Pool) (*window.Page, string) {
	if p.Key != "" {
		return s.member(p), ""
	}
	if a := s.accounts[accountKey{p.Upstream, p.Account}]; a != nil {
		if got := a.find(p.Name); got != nil {
			return got.page, got.reason
		}
	}
	return nil, ""
}
