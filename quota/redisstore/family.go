package redisstore

import (
	"context"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
	"github.com/redis/go-redis/v9"
)

// The members of a family lie in partitions, each of them in a slot of a Cluster. A
// partition has a part of the family's places, and one page that new keys share when it is
// full. One script decides: lua/member.lua if all windows are counters, else steady or
// reserve. lua/place.lua says how members are counted.

// reserveMember reserves on the page of a key. Families take no receipts.
func (s *Store) reserveMember(ctx context.Context, r *quota.Request) (quota.Verdict, error) {
	c := &r.Charges[0]
	p, err := s.partitionsOf(ctx, c)
	if err != nil {
		return quota.Verdict{}, err
	}
	var v quota.Verdict
	done := false
	if !r.Fresh {
		v, done, err = s.small(ctx, c, p)
	}
	if err == nil && !done {
		var a *ask
		if a, err = s.askMember(ctx, s.scripts.reserve, r.Charges); err == nil {
			a.whole = r.Fresh
			v, err = s.decide(ctx, a, "")
		}
	}
	v.ID, v.Pool, v.Nonce = r.ID, c.Pool, quota.Nonce{}
	return v, err
}

// recordMember charges the page of a key, even above its limit.
func (s *Store) recordMember(ctx context.Context, r *quota.Request) (quota.Units, error) {
	a, err := s.askMember(ctx, s.scripts.record, r.Charges)
	if err != nil {
		return nil, err
	}
	return s.record(ctx, a, r)
}

func (s *Store) askMember(ctx context.Context, script script, charges []quota.Charge) (*ask, error) {
	f, err := s.partitionsOf(ctx, &charges[0])
	if err != nil {
		return nil, err
	}
	tag := s.memberTag(charges[0].Pool, f.parts)
	return &ask{store: s, script: script, tag: tag, first: receiptKey(tag, ""), charges: charges, noSpend: true, parts: f.parts}, nil
}

// overflowKey is the member that new keys share when the family is full. It differs
// from every key of a caller, because those are printable.
const overflowKey = "\x00overflow"

// share returns the most members of a key's partition; 0 for a key that needs no place. It
// is 1 at least, for a process whose price book asks for fewer partitions.
func share(c *quota.Charge, parts int) int64 {
	if c.MaxKeys == 0 {
		return 0
	}
	return max(part(int64(c.MaxKeys), partition(c.Pool.Key, parts), parts), 1)
}

// slice returns the length of a slice: about a fiftieth of the longest window, in
// microseconds. It is a round number.
func slice(windows []window.Limit) int64 {
	most := window.Span(windows).Microseconds() / 40
	length := int64(1000)
	for length*10 <= most {
		length *= 10
	}
	switch {
	case length*5 <= most:
		return length * 5
	case length*2 <= most:
		return length * 2
	}
	return length
}

// maxSmall is the most windows of a page that is stored small: SMALL in the prelude.
const maxSmall = 4

// small tries the script for pages that are stored small. It returns false if another
// script must decide.
func (s *Store) small(ctx context.Context, c *quota.Charge, p former) (v quota.Verdict, done bool, err error) {
	if c.Units == 0 || len(c.Windows) > maxSmall {
		return v, false, nil
	}
	n := packed{make([]byte, 0, 8*(8+3*len(c.Windows)))}
	n.add(c.Units, identity(c.Revision, c.Windows), share(c, p.parts), int64(p.parts), int64(partition(c.Pool.Key, p.parts)), window.Span(c.Windows).Microseconds(), slice(c.Windows), flag(p.is(c, s.now())))
	for i := range c.Windows {
		w := &c.Windows[i]
		if !w.Spec.Estimates() {
			return v, false, nil
		}
		n.add(w.Limit, w.Spec.Per.Microseconds(), int64(w.Spec.Per/w.Spec.Resolution()))
	}
	tag := s.memberTag(c.Pool, p.parts)
	keys := []string{pageOf(tag, c.Pool), seatsKey(tag, ""), sharedPage(tag, c.Pool)}
	reply, err := s.send(ctx, s.scripts.member, keys, []any{n.bytes})
	f, ok := reply.([]any)
	if err != nil || !ok {
		return v, false, err
	}
	s.tell(f[0])
	v = quota.Verdict{
		Allowed: len(f) == 6, Window: c.Windows[integer(f[1])-1].Name, Units: c.Units,
		Used: integer(f[2]), Limit: integer(f[3]), ResetAt: instant(f[4]), At: instant(f[0]), Overflow: integer(f[5]) == 1,
	}
	v.Remaining = max(v.Limit-v.Used, 0)
	if !v.Allowed {
		v.RetryAt = instant(f[6])
		v.RetryAfter = v.RetryAt.Sub(v.At)
	}
	return v, true, nil
}

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
	count, err := s.number(ctx, "zcard", seats)
	if err != nil {
		return nil, 0, err
	}
	keys, err := value(ctx, s, redis.NewStringSliceCmd(ctx, "zrevrange", seats, 0, max(most, 1)-1))
	for i, key := range keys {
		keys[i] = poolOf(key)
	}
	return keys, int(count), err
}
