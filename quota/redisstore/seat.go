package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/quota"
)

// The pages of a keyed pool are in the slot of their account, so the scripts themselves
// bound their number: see lua/seat.lua.

// sharedPage returns the key of the page that new keys share if their pool is full.
func sharedPage(tag string, p quota.Pool) string {
	p.Key = overflowKey
	return pageOf(tag, p)
}

// A charge has one of these numbers in place of the most seats. The prelude has the same
// ones.
const (
	plain      = -1
	seated     = -2 // for a settlement: on the page of the key
	seatShared = -3 // and on the page that new keys share
)

func (a *ask) seats(i int) int64 {
	c := &a.charges[i]
	switch {
	case c.Pool.Key == "":
		return plain
	case c.Pool.Name == "":
		return share(c, a.parts)
	case !a.kept:
		return int64(c.MaxKeys)
	case c.Pool.Key == overflowKey:
		return seatShared
	}
	return seated
}

var _ quota.KeyLister = (*Store)(nil)

// Keys implements [quota.KeyLister]. The price book's keys have no seats.
func (s *Store) Keys(ctx context.Context, p quota.Pool, most int) ([]string, int, error) {
	if err := s.ready(ctx); err != nil {
		return nil, 0, err
	}
	if err := p.Check(); err != nil {
		return nil, 0, err
	}
	seats := seatsKey(s.tag(quota.Pool{Upstream: p.Upstream, Account: p.Account}), p.Name)
	count := redis.NewIntCmd(ctx, "zcard", seats)
	if err := s.do(ctx, count); err != nil {
		return nil, 0, err
	}
	last := redis.NewStringSliceCmd(ctx, "zrevrange", seats, 0, max(most, 1)-1)
	if err := s.do(ctx, last); err != nil {
		return nil, 0, err
	}
	keys := make([]string, len(last.Val()))
	for i, key := range last.Val() {
		keys[i] = poolOf(key)
	}
	return keys, int(count.Val()), nil
}
