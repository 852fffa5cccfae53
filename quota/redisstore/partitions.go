package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// A family has as many partitions as its max_keys needs. Redis keeps their number, and every
// process uses that one, so that no two count a key apart while they load a new price book. If
// the number changes, pages are elsewhere, as pages of earlier versions are. For as long as
// such a page can count, a process that meets a new key brings it from the former place.
//
// The partitions that are left are marked before the number changes. No page is made there
// any more: a process that tries is told so, and reads the number again. A page that is
// brought is renamed first, so nobody charges it in the former place.

// former is how the members of a family are spread, and were.
type former struct {
	parts int
	was   int // 0: each had a tag of its own; -1: only keys of the price book had pages
	at    time.Time
	asked time.Time // when Redis said so, by the local clock
}

// brought is how long pages are brought from the former place: as long as they may count.
func brought(c *quota.Charge) time.Duration { return 2*window.Span(c.Windows) + time.Minute }

// partitionsFor is how long a process believes the number of partitions without asking. It
// is less than the time for which pages are brought.
const partitionsFor = 30 * time.Second

// is reports whether the page of a new key may be in the former place.
func (f *former) is(c *quota.Charge, now time.Time) bool {
	return (f.was >= 0 || c.MaxKeys == 0) && now.Before(f.at.Add(brought(c)))
}

// families are the families that a process has met.
type families struct {
	mu  sync.RWMutex
	all map[string]former // by the tag
}

// partitions returns the number of partitions that a member's family needs.
func partitions(c *quota.Charge) int {
	return min(max(max(c.MaxKeys, c.FamilyKeys)/1000, 1), 64)
}

// partition returns the partition of a key. It is the same for ever, because pages are
// found by it.
func partition(key string, parts int) int {
	if parts == 1 {
		return 0
	}
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	return int((h ^ h>>32) % uint64(parts))
}

// partitionsOf returns how the members of a charge's family are spread.
func (s *Store) partitionsOf(ctx context.Context, c *quota.Charge) (former, error) {
	pool, now := c.Pool, s.local()
	s.families.mu.RLock()
	f, known := s.families.all[pool.Upstream+"/"+pool.Account]
	s.families.mu.RUnlock()
	if age := now.Sub(f.asked); known && age >= 0 && age < partitionsFor {
		return f, nil
	}
	tag, done := s.tag(pool), int64(0)
	for {
		reply, err := s.eval(ctx, s.scripts.partitions, []string{partitionsKey(tag), membersKey(tag)}, []any{partitions(c), c.Revision, done, brought(c).Microseconds()})
		if err != nil {
			return f, err
		}
		s.tell(reply[1])
		f = former{parts: int(integer(reply[2])), was: int(integer(reply[3])), at: instant(reply[4]), asked: now}
		if integer(reply[5]) == 1 {
			if err := s.count(ctx, c, f.parts, integer(reply[1])); err != nil {
				return f, err
			}
		}
		if done = integer(reply[6]); done == 0 {
			break
		}
		if err := s.leave(ctx, pool, f.parts, int(done)); err != nil {
			return f, err
		}
	}
	s.families.mu.Lock()
	defer s.families.mu.Unlock()
	if s.families.all == nil {
		s.families.all = make(map[string]former)
	}
	s.families.all[pool.Upstream+"/"+pool.Account] = f
	return f, nil
}

// leave marks the partitions that a family leaves, and removes the marks of those that it
// gets. Doing it again changes nothing, so any process can finish what another has begun.
func (s *Store) leave(ctx context.Context, p quota.Pool, from, to int) error {
	for i := range from {
		seats := seatsKey(s.partitionTag(p, i, from), "")
		if _, err := s.number(ctx, "hset", seats, "moved", 1); err != nil {
			return err
		}
		if _, err := s.number(ctx, "pexpire", seats, (400 * 24 * time.Hour).Milliseconds()); err != nil {
			return err
		}
	}
	for i := range to {
		if _, err := s.number(ctx, "hdel", seatsKey(s.partitionTag(p, i, to), ""), "moved"); err != nil {
			return err
		}
	}
	return nil
}

// moved finds the place of a request again, after its partition was left.
func (s *Store) moved(ctx context.Context, a *ask) error {
	pool := a.charges[0].Pool
	s.families.mu.Lock()
	delete(s.families.all, pool.Upstream+"/"+pool.Account)
	s.families.mu.Unlock()
	f, err := s.partitionsOf(ctx, &a.charges[0])
	if err != nil {
		return err
	}
	if f.parts == a.parts { // a change that has been undone since
		_, err := s.number(ctx, "hdel", seatsKey(a.tag, ""), "moved")
		return err
	}
	a.parts, a.tag = f.parts, s.memberTag(pool, f.parts)
	a.first = receiptKey(a.tag, "")
	return s.bring(ctx, a)
}

// count gives the members of an earlier version their places.
func (s *Store) count(ctx context.Context, c *quota.Charge, parts int, now int64) error {
	pool, long := c.Pool, slice(c.Windows)
	places := make(map[string]map[int64]int64) // by partition: how many until when
	for from := int64(0); ; from += 10_000 {
		all, err := value(ctx, s, redis.NewZSliceCmd(ctx, "zrangebyscore", membersKey(s.tag(pool)), "("+strconv.FormatInt(now, 10), "+inf", "withscores", "limit", from, 10_000))
		if err != nil {
			return err
		}
		for _, z := range all {
			pool.Key, _ = z.Member.(string)
			seats := seatsKey(s.memberTag(pool, parts), "")
			if places[seats] == nil {
				places[seats] = make(map[int64]int64)
			}
			places[seats][until(z.Score, long)]++
		}
		if len(all) < 10_000 {
			break
		}
	}
	for seats, of := range places {
		first, n := int64(math.MaxInt64), int64(0)
		for till, members := range of {
			first, n = min(first, till), n+members
			if _, err := s.number(ctx, "hincrby", seats, till, members); err != nil {
				return err
			}
		}
		if _, err := s.number(ctx, "hset", seats, "n", n, "next", first); err != nil {
			return err
		}
	}
	return nil
}

// until returns the end of the slice of an instant.
func until(at float64, long int64) int64 { return int64(math.Ceil(at/float64(long))) * long }

// bring brings the page of a key, and the one that new keys share, from their former place.
func (s *Store) bring(ctx context.Context, a *ask) error {
	c := &a.charges[0]
	if c.Pool.Key == overflowKey {
		return nil // its request is from here
	}
	f, err := s.partitionsOf(ctx, c)
	if err != nil || !f.is(c, s.now()) {
		return err
	}
	if f.was > 0 {
		tag := s.memberTag(c.Pool, f.was)
		if err := s.layouts(ctx, seatsKey(tag, ""), seatsKey(a.tag, "")); err != nil {
			return err
		}
		if err := s.retire(ctx, c, pageOf(tag, c.Pool), pageOf(a.tag, c.Pool)); err != nil {
			return err
		}
		return s.bringShared(ctx, a, f)
	}
	shared := c.Pool
	shared.Key = overflowKey
	page, former := pageKey(s.formerTag(c.Pool), ""), pageKey(s.formerTag(shared), "")
	if err := s.move(ctx, c, page, page, pageOf(a.tag, c.Pool)); err != nil {
		return err
	}
	return s.move(ctx, c, former, former, sharedPage(a.tag, c.Pool))
}

// bringShared charges the page that new keys of a partition share with its part of what all
// those of the former partitions count. They all have left: nobody charges them any more. The
// units count from now on, so they leave later than they would have.
//
// A receipt sees to it that this is done once. Only the first process to come leaves it, in
// the script that charges.
func (s *Store) bringShared(ctx context.Context, a *ask, f former) error {
	record := s.askShared(s.scripts.record, &a.charges[0], a.tag, f.parts)
	id := "moved:" + strconv.Itoa(f.was)
	record.first, record.id, record.look, record.life = receiptKey(a.tag, id), true, true, brought(&a.charges[0])
	if done, err := s.number(ctx, "exists", record.first); err != nil || done > 0 {
		return err
	}
	used := make([]int64, len(a.charges[0].Windows))
	for j := range f.was {
		look := s.askShared(s.scripts.look, &a.charges[0], s.partitionTag(a.charges[0].Pool, j, f.was), f.was)
		state, err := s.seen(ctx, look)
		if err != nil {
			return err
		}
		for i := range state.Windows {
			used[i] += state.Windows[i].Used
		}
	}
	c := &record.charges[0]
	c.Units = part(slices.Max(used), partition(a.charges[0].Pool.Key, f.parts), f.parts)
	_, err := s.record(ctx, record, &quota.Request{ID: id, Charges: record.charges})
	if errors.Is(err, quota.ErrOtherCharges) {
		return nil // another process was faster
	}
	return err
}

// askShared prepares a request for the page that new keys of a partition share.
func (s *Store) askShared(script script, c *quota.Charge, tag string, parts int) *ask {
	shared := *c
	shared.Pool.Key, shared.MaxKeys = overflowKey, 0
	return &ask{store: s, script: script, tag: tag, first: receiptKey(tag, ""), charges: []quota.Charge{shared}, noSpend: true, parts: parts}
}

// part returns what one of several partitions has of a number, so that all have it together.
func part(n int64, index, parts int) int64 {
	some := n / int64(parts)
	if int64(index) < n%int64(parts) {
		some++
	}
	return some
}

// retire moves a page so that nobody finds it in its former place. Its logs stay there.
func (s *Store) retire(ctx context.Context, c *quota.Charge, from, to string) error {
	aside := from + ":moved"
	_, err := s.text(ctx, "rename", from, aside)
	if err != nil && !redis.HasErrorPrefix(err, "no such key") { // another process may have done it
		return err
	}
	return s.move(ctx, c, from, aside, to)
}

// move copies a page that is now at aside, and its logs at from, unless there is one already.
// The former copy expires by itself, before anybody could take it for the page again.
func (s *Store) move(ctx context.Context, c *quota.Charge, from, aside, to string) error {
	page, err := s.text(ctx, "get", aside)
	if err != nil || page == "" {
		return err
	}
	if there, err := s.number(ctx, "exists", to); err != nil || there > 0 {
		return err
	}
	life, err := s.number(ctx, "pttl", aside)
	if err != nil {
		return err
	}
	ms := max(life, 1)
	if life < 0 { // it does not expire
		ms = 2 * window.Span(c.Windows).Milliseconds()
	}
	for i := range c.Windows {
		dump, err := s.text(ctx, "dump", logKey(from, i))
		if err == nil && dump != "" {
			_, err = s.text(ctx, "restore", logKey(to, i), ms, dump)
		}
		if err != nil && !redis.HasErrorPrefix(err, "BUSYKEY") {
			return err
		}
	}
	if page, err = s.withPlace(ctx, c, from, page); err != nil {
		return err
	}
	_, err = s.text(ctx, "set", to, page, "nx", "px", ms) // unless another process was faster
	return err
}

// withPlace notes in a page of an earlier version until when it has its place, which count
// has counted.
func (s *Store) withPlace(ctx context.Context, c *quota.Charge, from, page string) (string, error) {
	if from != pageKey(s.formerTag(c.Pool), "") || len(page) < 8*pageFirst {
		return page, nil
	}
	score, err := value(ctx, s, redis.NewFloatCmd(ctx, "zscore", membersKey(s.tag(c.Pool)), c.Pool.Key))
	if err != nil {
		return page, err
	}
	n := int(double(page, 4))
	last := 8 * (pageFirst + 3*n + pageHead)
	if n < 1 || n > maxWindows || len(page) < last {
		return page, nil
	}
	b := []byte(page)
	put := func(i int, v float64) { binary.LittleEndian.PutUint64(b[8*(i-1):], math.Float64bits(v)) }
	if double(page, 2) != -never { // that says where the latest instant is to be read
		put(2, 1-never) // reserve has to see to it
	}
	put(last/8, float64(until(score, slice(c.Windows))))
	return string(b), nil
}

// layouts copies how the small pages of a partition are laid out.
func (s *Store) layouts(ctx context.Context, from, to string) error {
	all, err := value(ctx, s, redis.NewMapStringStringCmd(ctx, "hgetall", from))
	for field, layout := range all {
		if strings.HasPrefix(field, "l") && err == nil {
			_, err = s.number(ctx, "hsetnx", to, field, layout)
		}
	}
	return err
}
