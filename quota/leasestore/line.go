package leasestore

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"hash/maphash"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/internal/deadline"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/fair"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// line is what a process knows about the calls that may share a block: they have the same
// pools with the same windows and limits, and the same labels.
type line struct {
	key     lineKey
	charges []quota.Charge // of no units
	block   *block         // the present one, or nil
	taking  chan struct{}  // closed when the block that is being taken has come; nil if none is

	want int64     // calls that the next block is for, by their rate
	room int64     // units that the store had left lately
	seen time.Time // when the store was last asked for a single call
}

// lineKey finds a few lines, of which charges tell the right one.
type lineKey struct {
	pool   quota.Pool // of the first charge
	labels quota.Labels
}

// maxLines is how many lines are remembered. Keys and labels come and go.
const maxLines = 4096

// share is the part of what is left that a block may take: a 16th.
const share = 16

// crowdedLife is the longest life of a block while others wait for its units.
const crowdedLife = 2 * time.Second

// lead returns how many units a block has at most while others wait for them.
func lead(c *quota.Charge) int64 {
	least := c.Windows[0].Limit
	for i := range c.Windows {
		least = min(least, c.Windows[i].Limit)
	}
	return int64(fair.Lead * float64(least))
}

// growth is how many times as many calls as the last block the next one is for at most.
const growth = 8

// matches reports whether a request belongs to the line.
func (l *line) matches(r *quota.Request) bool {
	if l == nil || len(l.charges) != len(r.Charges) || l.key.labels != r.Labels {
		return false
	}
	for i := range l.charges {
		a, b := &l.charges[i], &r.Charges[i]
		if a.Pool != b.Pool || a.Revision != b.Revision || a.Lease != b.Lease || a.MaxKeys != b.MaxKeys || a.Zone != b.Zone ||
			len(a.Windows) != len(b.Windows) {
			return false
		}
		for j := range a.Windows {
			if v, w := &a.Windows[j], &b.Windows[j]; v.Limit != w.Limit || v.Hash != w.Hash || v.Layout != w.Layout {
				return false
			}
		}
	}
	return true
}

// lineOf returns the line of a request; nil for a key of a family that is not hot. The caller holds s.mu.
func (s *Store) lineOf(r *quota.Request, now time.Time) *line {
	if s.last.matches(r) {
		return s.last
	}
	key := lineKey{r.Charges[0].Pool, r.Labels}
	for _, l := range s.lines[key] {
		if l.matches(r) {
			s.last = l
			return l
		}
	}
	if member(r.Charges) && !s.hot(&r.Charges[0], now) {
		return nil
	}
	if len(s.lines) >= maxLines {
		s.forgetLines((*line).idle)
	}
	l := &line{key: key, charges: slices.Clone(r.Charges)}
	for i := range l.charges {
		l.charges[i].Units, l.charges[i].Windows = 0, slices.Clone(l.charges[i].Windows)
	}
	if all := s.lines[key]; len(all) >= 16 { // limits have changed often
		s.lines[key] = slices.DeleteFunc(all, (*line).idle)
	}
	s.lines[key] = append(s.lines[key], l)
	if s.last = l; member(r.Charges) && s.timers {
		s.forgetQuiet(l, 2*r.Charges[0].Lease.Life)
	}
	return l
}

// sighting is when a key of a family was last asked for.
type sighting struct {
	hash uint64
	at   window.Instant
}

// hot reports whether a key of a family was asked for within half a life before. Only a hot key has
// a line. A key that is used now and then has nothing but a place that it shares with others. The
// caller holds s.mu.
func (s *Store) hot(c *quota.Charge, now time.Time) bool {
	if s.recent == nil {
		s.recent, s.seed = make([]sighting, 4096), maphash.MakeSeed()
	}
	seen := sighting{maphash.Comparable(s.seed, c.Pool), window.At(now)}
	place := &s.recent[seen.hash%uint64(len(s.recent))]
	before := *place
	*place = seen
	since := seen.at.Sub(before.at)
	return s.least > 0 || before.hash == seen.hash && since >= 0 && since < c.Lease.Life/2
}

// forgetQuiet forgets the line of a key of a family after so long without a call.
func (s *Store) forgetQuiet(l *line, after time.Duration) {
	time.AfterFunc(after, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if l.idle() && s.clock.Now().Sub(l.seen) >= after {
			s.forgetLines(func(o *line) bool { return o == l })
		} else {
			s.forgetQuiet(l, after)
		}
	})
}

func (l *line) idle() bool { return l.block == nil && l.taking == nil }

func (s *Store) forgetLines(those func(*line) bool) {
	for key, all := range s.lines {
		if all = slices.DeleteFunc(all, those); len(all) == 0 {
			delete(s.lines, key)
		} else {
			s.lines[key] = all
		}
	}
	s.last = nil
}

// lease serves a request from the block of its line, takes the next block, or asks the
// store for this call alone.
func (s *Store) lease(ctx context.Context, r *quota.Request) (quota.Verdict, error) {
	now := s.clock.Now()
	for {
		s.mu.Lock()
		l := s.lineOf(r, now)
		if l == nil {
			s.mu.Unlock()
			return s.direct(ctx, r)
		}
		if b := l.block; b != nil {
			if b.lives(now) && !(r.Crowded && b.large()) {
				if v, ok := b.draw(r, now); ok {
					call := b.calls
					s.mu.Unlock()
					named(&v, r, call)
					return v, nil
				}
			}
			s.end(b, now)
		}
		if wait := l.taking; wait != nil {
			s.mu.Unlock()
			select {
			case <-wait:
			case <-ctx.Done():
				return quota.Verdict{}, ctx.Err()
			}
			now = s.clock.Now()
			continue
		}
		s.sweep(now)
		calls := s.size(l, r, now)
		if calls < 2 {
			s.mu.Unlock()
			return s.single(ctx, l, r)
		}
		l.taking = make(chan struct{})
		s.mu.Unlock()
		return s.take(ctx, l, r, calls, now)
	}
}

// size returns for how many calls like r the next block is. The caller holds s.mu.
func (s *Store) size(l *line, r *quota.Request, now time.Time) int64 {
	if s.closed {
		return 1
	}
	life := l.charges[0].Lease.Life
	if l.want < 2 && !l.seen.IsZero() && now.Sub(l.seen) < life/2 {
		l.want = 2
	}
	l.seen = now
	calls, room := l.want, l.room/share
	if s.least > 0 {
		calls, room = max(calls, s.least), max(room, min(l.room, s.least*r.Charges[0].Units))
	}
	for i := range r.Charges {
		c := &r.Charges[i]
		most := min(c.Lease.Most-s.taken[c.Pool], room, window.MaxUnits/2)
		if r.Crowded {
			most = min(most, lead(c))
		}
		calls = min(calls, most/c.Units)
	}
	return calls
}

func (s *Store) single(ctx context.Context, l *line, r *quota.Request) (quota.Verdict, error) {
	v, err := s.direct(ctx, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	l.learn(&v, err)
	return v, err
}

// learn notes how much is left, by an answer of the store.
func (l *line) learn(v *quota.Verdict, err error) {
	switch {
	case err != nil:
		l.want = 1
	case v.Allowed && !v.Overflow: // else others share what is left, and would wait for a block
		l.room = v.Remaining
	default:
		l.room = 0
	}
}

// take takes a block for so many calls like r, and serves r from it. Other calls of the
// line wait for it.
func (s *Store) take(ctx context.Context, l *line, r *quota.Request, calls int64, sent time.Time) (v quota.Verdict, err error) {
	defer s.took(l)
	epoch := s.epoch.Load()
	request := quota.Request{ID: newID(), Fresh: true, Charges: slices.Clone(l.charges), Labels: r.Labels}
	for i := range request.Charges {
		request.Charges[i].Units = calls * r.Charges[i].Units
	}
	v, err = s.reserve(ctx, l, request)
	now := s.clock.Now()
	if err != nil || !v.Allowed {
		if err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			if l.learn(&v, err); !refused(err) && !left(ctx, err) && !member(l.charges) {
				s.owe(&debt{charges: request.Charges, request: &request})
			}
			return quota.Verdict{}, err
		}
		rebased := v.Rebased
		v, err = s.single(ctx, l, r)
		v.Rebased = v.Rebased || rebased
		return v, err
	}
	b := &block{line: l, verdict: v, sent: sent, wall: sent.Round(0), answer: now, life: lifeOf(v.At, l.charges)}
	if r.Crowded {
		b.life = min(b.life, crowdedLife)
	}
	for i := range request.Charges {
		if request.Charges[i].Pool == v.Pool {
			b.tight = i
		}
		b.units = append(b.units, request.Charges[i].Units)
	}
	b.left = slices.Clone(b.units)
	s.mu.Lock()
	l.learn(&v, nil)
	s.begin(b)
	v, _ = b.draw(r, now) // this call was granted just now
	if s.closed || s.epoch.Load() != epoch || !b.lives(now) {
		s.end(b, now)
	}
	s.mu.Unlock()
	named(&v, r, 1)
	return v, nil
}

// reserve asks the store for a block. If the caller leaves, the store gives back what it grants
// later. For a key of a family, which has no receipt, this process does.
func (s *Store) reserve(ctx context.Context, l *line, r quota.Request) (quota.Verdict, error) {
	if !member(r.Charges) {
		return s.Whole.Reserve(ctx, r)
	}
	return storekit.Run(ctx, s.apart, func() (quota.Verdict, error) {
		within, cancel := context.WithTimeout(context.Background(), s.timeout)
		defer cancel()
		return s.Whole.Reserve(storekit.Within(within, ctx), r)
	}, func(v quota.Verdict) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if v.Allowed {
			s.owe((&block{line: l, verdict: v, left: []int64{r.Charges[0].Units}}).rest())
		}
	})
}

// left reports whether an error says that the caller has left. The store still takes the block, and
// gives it back behind the caller. To ask for it again meanwhile could take it twice.
func left(ctx context.Context, err error) bool {
	ended := deadline.Err(ctx)
	return ended != nil && errors.Is(err, ended)
}

// took lets the calls go on that wait for a block.
func (s *Store) took(l *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(l.taking)
	l.taking = nil
}

// begin makes a block the present one of its line. The caller holds s.mu.
func (s *Store) begin(b *block) {
	b.line.block = b
	s.blocks[b] = struct{}{}
	for i := range b.units {
		s.taken[b.line.charges[i].Pool] += b.units[i]
	}
	if b.life > 0 && s.timers {
		b.timer = time.AfterFunc(b.life, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.end(b, s.clock.Now())
		})
	}
}

// end ends a block, if it has not ended. The units that are left go back, and its rate decides
// about the next one. The caller holds s.mu.
func (s *Store) end(b *block, now time.Time) {
	if _, open := s.blocks[b]; !open {
		return
	}
	delete(s.blocks, b)
	b.line.block = nil
	if b.timer != nil {
		b.timer.Stop()
	}
	for i := range b.units {
		pool := b.line.charges[i].Pool
		if s.taken[pool] -= b.units[i]; s.taken[pool] == 0 {
			delete(s.taken, pool)
		}
	}
	life := b.line.charges[0].Lease.Life
	rate := float64(b.calls) * float64(life) / float64(max(now.Sub(b.sent), time.Microsecond))
	b.line.want = max(int64(min(rate, growth*float64(b.calls))), 1)
	s.owe(b.rest())
}

// sweep ends the blocks whose life is over. A simulated clock has no timers that do it. The
// caller holds s.mu.
func (s *Store) sweep(now time.Time) {
	if s.timers {
		return
	}
	for b := range s.blocks {
		if !b.lives(now) {
			s.end(b, now)
		}
	}
}

// unspent returns the units of a pool that are in blocks of this process.
func (s *Store) unspent(pool quota.Pool) (units int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[pool] == 0 {
		return 0
	}
	for b := range s.blocks {
		for i := range b.left {
			if b.line.charges[i].Pool == pool {
				units += b.left[i]
			}
		}
	}
	return units
}

// newID returns the id of a block. It cannot be guessed.
func newID() string {
	var b [16]byte
	rand.Read(b[:])
	return "block-" + base64.RawURLEncoding.EncodeToString(b[:])
}
