package redisstore

import (
	"context"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// A family's member has a page in a slot of its own, so what bounds their number
// lies elsewhere: a sorted set of the members, by when they will be idle, which is
// asked first. A page of a member expires seconds after it is idle, and is deleted when
// another one takes its place. A family without a maximum is not asked for.

// reserveMember reserves on the page of a key. Families take no receipts.
func (s *Store) reserveMember(ctx context.Context, r *quota.Request) (quota.Verdict, error) {
	c, place, err := s.enrol(ctx, r.Charges[0])
	if err != nil {
		return quota.Verdict{}, err
	}
	v, err := s.decide(ctx, s.askMember(s.scripts.reserve, c), "")
	v.ID, v.Overflow, v.Pool, v.Nonce = r.ID, place.overflow, r.Charges[0].Pool, [16]byte{}
	if err == nil && !v.Allowed && place.before != place.idle {
		// where it fails, the key has its place for a window longer
		_, _ = s.eval(ctx, s.scripts.unenrol, []string{place.members}, []any{c.Pool.Key, place.before, place.idle})
	}
	return v, err
}

// recordMember charges the page of a key, even above its limit.
func (s *Store) recordMember(ctx context.Context, r *quota.Request) (quota.Units, error) {
	c, _, err := s.enrol(ctx, r.Charges[0])
	if err != nil {
		return nil, err
	}
	return s.record(ctx, s.askMember(s.scripts.record, c), r)
}

func (s *Store) askMember(script script, c quota.Charge) *ask {
	tag := s.tag(c.Pool)
	return &ask{store: s, script: script, tag: tag, first: receiptKey(tag, ""), charges: []quota.Charge{c}, noSpend: true}
}

// overflowKey is the member that new keys share when the family is full. It differs
// from every key of a caller, because those are printable.
const overflowKey = "\x00overflow"

// place is the place of a key among the members of its family.
type place struct {
	overflow     bool   // the key has no place
	members      string // the Redis key of the set of members
	before, idle string // when the key becomes idle without this call, and with it; equal if there is nothing to take back
}

// enrol gives a key a place in its family, if there is room, and returns the charge on
// the key's page. Without room it returns the charge on the shared page.
func (s *Store) enrol(ctx context.Context, c quota.Charge) (quota.Charge, place, error) {
	if c.MaxKeys == 0 {
		return c, place{}, nil
	}
	family := c.Pool
	family.Key = ""
	p := place{members: membersKey(s.tag(family))}
	reply, err := s.eval(ctx, s.scripts.enrol, []string{p.members}, []any{c.Pool.Key, span(c.Windows).Microseconds(), c.MaxKeys})
	if err != nil {
		return c, p, err
	}
	for _, dropped := range reply[4:] {
		family.Key, _ = dropped.(string)
		if err := s.purge(ctx, family, len(c.Windows)); err != nil {
			return c, p, err
		}
	}
	if integer(reply[1]) == 0 {
		c.Pool.Key, p.overflow = overflowKey, true
	} else if before, _ := reply[2].(string); before != "" { // a new key keeps its place
		p.before = before
		p.idle, _ = reply[3].(string)
	}
	return c, p, nil
}

// purge deletes the page of a key that has lost its place, if it is idle.
func (s *Store) purge(ctx context.Context, member quota.Pool, windows int) error {
	page := pageKey(s.tag(member), "")
	keys := []string{page}
	for i := range windows {
		keys = append(keys, logKey(page, i))
	}
	_, err := s.eval(ctx, s.scripts.purge, keys, nil)
	return err
}

// span returns the longest time for which a charge can count, within the limits.
func span(windows []window.Limit) (longest time.Duration) {
	for i := range windows {
		longest = max(longest, windows[i].Span())
	}
	return longest
}
