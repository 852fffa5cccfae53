// Package memstore keeps a ledger in memory, for tests, for simulations and for limits per
// client within one process. The ledger ends with the process. Use sqlitestore or
// redisstore for a quota that is shared or must survive a restart.
package memstore

import (
	"cmp"
	"context"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pagestore"
	"github.com/headroom-quota/headroom/quota/window"
)

// Options are the settings of a [Store]. Nil is legal.
type Options struct {
	Clock quota.Clock // nil is the machine's clock
	// ReceiptBytes bounds the memory for an account's receipts, which live for
	// [quota.ReceiptLife]. At the bound, a call with a receipt fails with
	// [quota.ErrOutage]. Zero is 1 GiB, about 7 million receipts.
	ReceiptBytes int64
}

// Store is a [quota.Store] in memory. It is made by [New], and safe for concurrent
// use.
type Store struct {
	*pagestore.Store
	backend *backend
}

var _ quota.Store = (*Store)(nil)

// New returns an empty store.
func New(o *Options) *Store {
	o = cmp.Or(o, &Options{})
	b := &backend{
		clock:           cmp.Or[quota.Clock](o.Clock, quota.SystemClock{}),
		accounts:        make(map[accountKey]*account),
		families:        make(map[familyKey]*family),
		maxReceiptBytes: cmp.Or(o.ReceiptBytes, 1<<30),
	}
	return &Store{pagestore.New(b, nil), b}
}

// backend is the [pagestore.Backend], and its own [pagestore.Tx]: one at a time.
type backend struct {
	clock           quota.Clock
	now             time.Time
	at              window.Instant
	accounts        map[accountKey]*account
	families        map[familyKey]*family
	maxReceiptBytes int64 // bytes of an account's receipts
	limits          limits

	last       *account // asked for
	lastKey    accountKey
	lastFamily *family

	found found
	got   pagestore.Receipt // scratch

	lent    []*lent
	lending int
	shown   lent
}

// familyKey names a family, or a keyed pool.
type familyKey struct{ upstream, account, pool string }

type accountKey struct{ upstream, account string }

// account is what one account's pools share: their receipts.
type account struct {
	pools    []*pool
	receipts receipts
}

// pool is a page with what stands beside it.
type pool struct {
	pagestore.Entry
	spend spend
	in    *account
	index int32 // in its account; -1: it is not there yet
}

func (b *backend) Begin(ctx context.Context, _ time.Duration) (pagestore.Tx, error) {
	return b.View(ctx)
}

func (b *backend) View(context.Context) (pagestore.Tx, error) {
	b.now = b.clock.Now()
	b.at = window.At(b.now)
	b.lending = 0
	return b, nil
}

func (b *backend) Load(*pagestore.Scope) error { return nil }

func (b *backend) Now() time.Time { return b.now }

func (b *backend) Entry(p *quota.Pool, _ bool) (*pagestore.Entry, error) {
	return &b.pool(p).Entry, nil
}

// pool finds a pool, or makes one that has no place yet.
func (b *backend) pool(p *quota.Pool) *pool {
	if a := b.account(p.Upstream, p.Account); a != nil {
		for _, q := range a.pools { // an account has few
			if q.Pool.Name == p.Name {
				return q
			}
		}
	}
	q := &pool{index: -1}
	q.Pool, q.Ref = *p, q
	return q
}

func (b *backend) Put(e *pagestore.Entry, _ *quota.Charge) error {
	switch r := e.Ref.(type) {
	case *lent:
		r.family.put(r.member, e)
	case *pool:
		if r.index < 0 {
			b.place(r)
		}
	}
	return nil
}

// place gives a new pool its place in its account.
func (b *backend) place(p *pool) {
	a := b.makeAccount(p.Pool)
	p.in, p.index = a, int32(len(a.pools))
	a.pools = append(a.pools, p)
}

// poolOf returns the pool that counts the spend of an entry.
func (b *backend) poolOf(e *pagestore.Entry) *pool {
	if p, plain := e.Ref.(*pool); plain {
		return p
	}
	return b.keyed(e)
}

// keyed is poolOf for a page of a keyed pool.
func (b *backend) keyed(e *pagestore.Entry) *pool {
	f := e.Ref.(*lent).family
	if f.pool == nil {
		f.pool = b.pool(&quota.Pool{Upstream: f.Upstream, Account: f.Account, Name: f.Pool})
		if f.pool.index < 0 {
			b.place(f.pool)
		}
	}
	return f.pool
}

func (b *backend) End(err error) error { return err }

func (b *backend) Spend(_ context.Context, q quota.SpendQuery) (all []quota.Spent, err error) {
	if a := b.account(q.Upstream, q.Account); a != nil {
		for _, p := range a.pools {
			all = p.spend.read(all, p.Pool, q)
		}
	}
	return all, nil
}

// account returns an account, or nil. It is mostly the last one's again.
func (b *backend) account(upstream, name string) *account {
	key := accountKey{upstream, name}
	if b.last != nil && b.lastKey == key {
		return b.last
	}
	a := b.accounts[key]
	if a != nil {
		b.last, b.lastKey = a, key
	}
	return a
}

// makeAccount returns the account of a pool.
func (b *backend) makeAccount(p quota.Pool) *account {
	a := b.account(p.Upstream, p.Account)
	if a == nil {
		a = &account{}
		b.accounts[accountKey{p.Upstream, p.Account}] = a
	}
	return a
}
