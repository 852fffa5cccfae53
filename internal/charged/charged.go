// Package charged tells those who make a call over HTTP what it was charged, and which learned limits
// were told that it was refused.
package charged

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// Record has the units that the calls of a context were charged, by pool. Its methods do
// nothing if it is nil.
type Record struct {
	mu    sync.Mutex
	units map[quota.Pool]int64
	told  []Told
}

// Told is a refusal that a learned limit was told of.
type Told struct {
	Pool  quota.Pool
	Named time.Duration // the wait that the answer names, or 0
	Ruled bool          // a rule of the price book is about the answer
}

type key struct{}

// With returns a context whose calls are recorded.
func With(ctx context.Context) (context.Context, *Record) {
	r := &Record{units: map[quota.Pool]int64{}}
	return context.WithValue(ctx, key{}, r), r
}

// Of returns the record of a context, or nil.
func Of(ctx context.Context) *Record {
	r, _ := ctx.Value(key{}).(*Record)
	return r
}

// Grant notes what a call has reserved. The keys are those of keyed pools, by pool.
func (r *Record) Grant(keys map[string]string, granted *quota.Reservation) {
	if r != nil {
		bill, _ := granted.Bill()
		r.add(keys, granted, granted.Charges(), bill)
	}
}

// Tell notes that a learned limit was told of a refusal.
func (r *Record) Tell(t Told) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, t)
}

// Told returns the refusals that learned limits were told of so far.
func (r *Record) Told() []Told {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.told)
}

// Settle notes that a call was charged these units in place of those that it reserved. A bill that they do not name
// stands, unless there are none.
func (r *Record) Settle(keys map[string]string, granted *quota.Reservation, units quota.Units) {
	if r == nil {
		return
	}
	more := granted.Charges()
	for name, n := range more {
		more[name] = units[name] - n
	}
	bill, _ := granted.Bill()
	if now, named := units[book.Money]; named || units == nil {
		bill = now - bill
	} else {
		bill = 0
	}
	r.add(keys, granted, more, bill)
}

// add adds units of pools, and millionths of the budgets.
func (r *Record) add(keys map[string]string, granted *quota.Reservation, units quota.Units, bill int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, budget := range granted.Budgets() {
		r.units[budget] += bill
	}
	for name, n := range units {
		pool := granted.Pool // it has the account and the key as the store knows them
		if name != pool.Name {
			pool.Name, pool.Key = name, keys[name]
		}
		r.units[pool] += n
	}
}

// Units returns what the calls were charged so far. It has the pools of calls that were free.
func (r *Record) Units() map[quota.Pool]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.units)
}
