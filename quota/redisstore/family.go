package redisstore

import (
	"context"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// A family's member has a page in a slot of its own, so what bounds their number
// lies elsewhere: a sorted set of the members, by when they will be idle, which is
// asked first. A family without a maximum is not asked for.

// reserveMember reserves on the page of a key. Families take no receipts.
func (s *Store) reserveMember(ctx context.Context, r *quota.Request) (quota.Verdict, error) {
	c, overflow, err := s.member(ctx, r.Charges[0])
	if err != nil {
		return quota.Verdict{}, err
	}
	v, err := s.decide(ctx, s.askMember(s.scripts.reserve, c), "")
	v.ID, v.Overflow, v.Pool, v.Nonce = r.ID, overflow, r.Charges[0].Pool, [16]byte{}
	return v, err
}

// recordMember charges the page of a key whatever its limit.
func (s *Store) recordMember(ctx context.Context, r *quota.Request) (quota.Units, error) {
	c, _, err := s.member(ctx, r.Charges[0])
	if err != nil {
		return nil, err
	}
	return s.record(ctx, s.askMember(s.scripts.record, c), r)
}

func (s *Store) askMember(script script, c quota.Charge) *ask {
	tag := s.tag(c.Pool)
	return &ask{store: s, script: script, tag: tag, first: receiptKey(tag, ""), charges: []quota.Charge{c}, noSpend: true}
}

// overflowKey is the member that new keys share when there are too many. No key of
// a caller's is the same: those are printable.
const overflowKey = "\x00overflow"

// member returns the charge on the page that a key has or may have.
func (s *Store) member(ctx context.Context, c quota.Charge) (_ quota.Charge, overflow bool, err error) {
	if c.MaxKeys == 0 {
		return c, false, nil
	}
	family := c.Pool
	family.Key = ""
	reply, err := s.eval(ctx, s.scripts.enrol, []string{membersKey(s.tag(family))}, []any{c.Pool.Key, span(c.Windows).Microseconds(), c.MaxKeys})
	if err != nil {
		return c, false, err
	}
	if integer(reply[1]) == 0 {
		c.Pool.Key, overflow = overflowKey, true
	}
	return c, overflow, nil
}

// span is the longest time for which a charge can count.
func span(windows []window.Limit) (longest time.Duration) {
	for _, w := range windows {
		longest = max(longest, w.Spec.Span())
	}
	return longest
}
