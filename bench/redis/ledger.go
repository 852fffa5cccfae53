package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/window"
)

// The windows of a metered API's day: a trailing one, and its own.
var (
	pacific     = must(time.LoadLocation("America/Los_Angeles"))
	day         = must(window.Spec{Per: 24 * time.Hour}.Normal())
	dayEstimate = must(window.Spec{Per: 24 * time.Hour, Algorithm: window.Estimate}.Normal())
	pacificDay  = must(window.Spec{Period: window.Day, Zone: pacific}.Normal())
)

// member is the charge of a key of a family: like a limiter's, it leaves neither
// receipt nor spend.
func member(units, limit int64, specs ...window.Spec) quota.Charge {
	c := quota.Charge{
		Pool:  quota.Pool{Upstream: "client", Account: quota.DefaultAccount, Key: "203.0.113.7"},
		Units: units, Revision: 1, Zone: pacific,
	}
	for _, s := range specs {
		c.Windows = append(c.Windows, window.NewLimit(s, limit))
	}
	return c
}

// pool is the charge of a pool with two windows.
func pool(units, limit int64) quota.Charge {
	c := member(units, limit, day, pacificDay)
	c.Pool = quota.Pool{Upstream: "youtube", Account: quota.DefaultAccount, Name: "units"}
	return c
}

var labels = quota.Labels{Method: "videos.list", Job: "trending", Region: "DE", Class: "backfill"}

func open(client *redis.Client, prefix string) (quota.Store, error) {
	return redisstore.New(client, &redisstore.Options{Prefix: prefix + "headroom:"})
}

// reserve returns a call that reserves.
func reserve(s quota.Store, c quota.Charge, granted bool, id func(*quota.Request)) call {
	charges := []quota.Charge{c}
	return func(ctx context.Context) error {
		r := quota.Request{Charges: charges, Labels: labels}
		if id != nil {
			id(&r)
		}
		v, err := s.Reserve(ctx, r)
		if err == nil && v.Allowed != granted {
			err = errVerdict
		}
		return err
	}
}

func openMember(specs ...window.Spec) func(context.Context, *redis.Client, string, int64) (call, error) {
	return func(ctx context.Context, client *redis.Client, prefix string, cost int64) (call, error) {
		s, err := open(client, prefix)
		if err != nil {
			return nil, err
		}
		if err := reserve(s, member(held, roomy, specs...), true, nil)(ctx); err != nil {
			return nil, err
		}
		return reserve(s, member(cost, roomy, specs...), true, nil), nil
	}
}

// openClient reserves for some keys by turns of a family that bounds their number, with
// the estimate from two counters.
func openClient(keys int, limit int64, granted bool) func(context.Context, *redis.Client, string, int64) (call, error) {
	return func(ctx context.Context, client *redis.Client, prefix string, cost int64) (call, error) {
		s, err := open(client, prefix)
		if err != nil {
			return nil, err
		}
		calls := make([]call, keys)
		for i := range calls {
			c := member(held, limit, dayEstimate)
			c.Pool.Key, c.MaxKeys = fmt.Sprint("203.0.113.", i), 100_000
			if err := reserve(s, c, true, nil)(ctx); err != nil {
				return nil, err
			}
			c.Units = cost
			calls[i] = reserve(s, c, granted, nil)
		}
		var next atomic.Int64
		return func(ctx context.Context) error { return calls[int(next.Add(1))%keys](ctx) }, nil
	}
}

// openPool reserves as a transport does: with an id, which is fresh unless a
// caller repeats it.
func openPool(fresh bool) func(context.Context, *redis.Client, string, int64) (call, error) {
	return func(ctx context.Context, client *redis.Client, prefix string, cost int64) (call, error) {
		s, err := open(client, prefix)
		if err != nil {
			return nil, err
		}
		ids := newIDs()
		id := func(r *quota.Request) { r.ID, r.Fresh = ids.next(), fresh }
		if err := reserve(s, pool(held, roomy), true, id)(ctx); err != nil {
			return nil, err
		}
		return reserve(s, pool(cost, roomy), true, id), nil
	}
}

// openRefusal spends a day's whole limit over that day, so that every refusal has
// to find out when enough of it comes back.
func openRefusal(ctx context.Context, client *redis.Client, prefix string, cost int64) (call, error) {
	s, err := open(client, prefix)
	if err != nil {
		return nil, err
	}
	if err := saturate(ctx, s, func(units int64) quota.Charge { return pool(units, held) }); err != nil {
		return nil, err
	}
	ids := newIDs()
	return reserve(s, pool(cost, held), false, func(r *quota.Request) { r.ID, r.Fresh = ids.next(), true }), nil
}

// openMemberRefusal is openRefusal for a key of a family.
func openMemberRefusal(ctx context.Context, client *redis.Client, prefix string, cost int64) (call, error) {
	s, err := open(client, prefix)
	if err != nil {
		return nil, err
	}
	charge := func(units int64) quota.Charge { return member(units, held, day) }
	if err := saturate(ctx, s, charge); err != nil {
		return nil, err
	}
	return reserve(s, charge(cost), false, nil), nil
}

// saturate puts held units into all but the oldest hour of a day, which keeps them
// all in the window while they are timed.
func saturate(ctx context.Context, s quota.Store, charge func(units int64) quota.Charge) error {
	const minutes = 23 * 60
	now := time.Now()
	for i := range int64(minutes) {
		units := held*(i+1)/minutes - held*i/minutes
		r := quota.Request{Charges: []quota.Charge{charge(units)}, Labels: labels, At: now.Add(time.Duration(i-minutes+1) * time.Minute)}
		if _, err := s.Record(ctx, r); err != nil {
			return fmt.Errorf("saturate: %w", err)
		}
	}
	return nil
}

// fillPool leaves held units behind, with the receipts of their calls.
func fillPool(ctx context.Context, client *redis.Client, cost int64) error {
	s, err := open(client, "")
	if err != nil {
		return err
	}
	ids := newIDs()
	do := reserve(s, pool(cost, roomy), true, func(r *quota.Request) { r.ID, r.Fresh = ids.next(), true })
	return times(ctx, held/cost, do)
}

// must is for what is made from constants.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
