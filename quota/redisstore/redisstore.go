package redisstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/headroom-quota/headroom/internal/redisclock"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
	"github.com/redis/go-redis/v9"
)

// Options are what New can be told; nil is legal.
type Options struct {
	Prefix  string               // begins every key; "" is "headroom:"
	Timeout time.Duration        // of one round trip, whatever the client's own settings, and for a caller that cancels; zero is 2s
	Births  storekit.BirthKeeper // remembers the pages of this ledger beyond this process; nil: within it only
}

// defaultPrefix begins the keys if Options has no prefix.
const defaultPrefix = "headroom:"

// Store is a [quota.Store] in Redis. It is safe for concurrent use.
type Store struct {
	client    redis.UniversalClient
	opened    redis.UniversalClient // by Open; nil for a client given to New
	prompt    bool                  // it keeps a context's deadline
	cluster   *topology             // nil unless it is a Cluster
	prefix    string
	timeout   time.Duration
	apart     storekit.Apart
	births    *storekit.Births
	families  families
	scripts   scripts
	hour      atomic.Pointer[hourOf] // the last call's
	zones     zones
	testClock func() time.Time // the clock of tests; nil: the server's
	local     func() time.Time // this machine's clock, of which little is believed
	ahead     atomic.Int64     // how far the server's clock is ahead of it, when last heard of
}

var _ quota.Store = (*Store)(nil)

// New returns a store in what client is connected to. It does not connect: call
// [Store.Check] for that, once, at the start. Clients that may read from replicas
// are refused, because a replica's answer is stale.
func New(client redis.UniversalClient, o *Options) (*Store, error) {
	if c, ok := client.(*redis.ClusterClient); ok {
		if opt := c.Options(); opt.ReadOnly || opt.RouteByLatency || opt.RouteRandomly {
			return nil, errors.New("a ledger must not read from replicas: clear ReadOnly, RouteByLatency and RouteRandomly of the cluster client")
		}
	}
	if c, ok := client.(*redis.Client); client == nil || ok && c == nil {
		return nil, quota.BadInput("a store needs a client: redis.NewClient makes one")
	}
	o = cmp.Or(o, &Options{})
	s := &Store{prefix: cmp.Or(o.Prefix, defaultPrefix), timeout: cmp.Or(o.Timeout, 2*time.Second), apart: storekit.NewApart(), testClock: redisclock.Get()}
	s.births = storekit.NewBirths(s, o.Births)
	if strings.ContainsAny(s.prefix, "{}") {
		return nil, fmt.Errorf("prefix %q must not hold braces: they mark the part of a key that chooses its slot", s.prefix)
	}
	if strings.ContainsFunc(s.prefix, unicode.IsControl) {
		return nil, fmt.Errorf("prefix %q must not hold control characters: they stand between the parts of a receipt", s.prefix)
	}
	s.client, s.prompt = prompt(client, s.timeout)
	s.cluster = newTopology(client)
	clock := "clock"
	s.local = quota.SystemClock{}.Now
	if s.testClock != nil {
		clock, s.local = "clock_moved", s.testClock
	}
	s.scripts = scriptsOf[clock]()
	return s, nil
}

// ready returns an error if the store cannot be used, or if ctx has ended.
func (s *Store) ready(ctx context.Context) error {
	if s == nil || s.client == nil {
		return quota.BadInput("this store was not made by redisstore.New or redisstore.Open")
	}
	return ctx.Err()
}

// now returns the server's time, roughly. That is enough to choose the days and periods
// to send.
func (s *Store) now() time.Time {
	return s.local().Add(time.Duration(s.ahead.Load()))
}

func (s *Store) tell(now any) {
	s.ahead.Store(int64(instant(now).Sub(s.local())))
}

// Reserve implements [quota.Store].
func (s *Store) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	if err := s.ready(ctx); err != nil {
		return quota.Verdict{}, err
	}
	if err := r.Check(); err != nil {
		return quota.Verdict{}, err
	}
	return s.apart.Reserve(ctx, r, s.reserve, s.Settle)
}

func (s *Store) reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	if r.Charges[0].Pool.Name == "" {
		return s.reserveMember(ctx, &r)
	}
	a := s.ask(s.scripts.reserve, &r)
	a.look = r.ID != "" && !r.Fresh
	return s.decide(ctx, a, r.ID)
}

// ask prepares a request to a script for Reserve or Record.
func (s *Store) ask(script script, r *quota.Request) *ask {
	tag := s.tag(r.Charges[0].Pool)
	a := &ask{
		store: s, script: script, tag: tag, charges: r.Charges, labels: r.Labels,
		id: r.ID != "", look: r.ID != "", first: receiptKey(tag, r.ID),
	}
	if a.id {
		rand.Read(a.nonce[:])
	}
	return a
}

func (s *Store) decide(ctx context.Context, a *ask, id string) (quota.Verdict, error) {
	reply, err := a.run(ctx)
	if err != nil {
		return quota.Verdict{}, err
	}
	switch integer(reply[0]) {
	case replyOtherCharges:
		return quota.Verdict{}, storekit.OtherCharges(id)
	case replyEnded:
		return quota.Verdict{}, storekit.Ended(id)
	}
	c := &a.charges[integer(reply[3])-1]
	v := quota.Verdict{
		Allowed:  integer(reply[2]) == 1,
		ID:       id,
		Pool:     c.Pool,
		Window:   c.Windows[integer(reply[4])-1].Name,
		Units:    c.Units,
		Used:     integer(reply[5]),
		Limit:    integer(reply[6]),
		ResetAt:  instant(reply[8]),
		Rebased:  integer(reply[9]) == 1,
		At:       instant(reply[10]),
		Repeat:   integer(reply[11])&3 == 1,
		Blocked:  integer(reply[11])&2 != 0,
		Overflow: integer(reply[11])&4 != 0,
	}
	v.Remaining = max(v.Limit-v.Used, 0)
	switch free := integer(reply[7]); {
	case v.Repeat:
		nonce, _ := reply[12].(string)
		copy(v.Nonce[:], nonce)
	case v.Allowed:
		if v.Nonce = a.nonce; a.whole {
			v.Generation = integer(reply[16]) // of the news of its page
		}
	case free == never:
		v.Impossible, v.RetryAfter = true, window.Never.Sub(0)
	default:
		v.RetryAt = window.Instant(free).Time()
		v.RetryAfter = window.Instant(free).Sub(window.Instant(integer(reply[1])))
	}
	switch integer(reply[11]) & 3 {
	case 2:
		v.Reason = s.reason(ctx, a, c, v.Overflow)
	case 3: // of a block that is over
		s.forgetReason(ctx, a, c)
	}
	return v, s.remember(ctx, a, reply[13:])
}

// reason returns the reason of a pool's block. It is for people, so it returns "" if the
// reason cannot be read.
func (s *Store) reason(ctx context.Context, a *ask, c *quota.Charge, overflow bool) string {
	page := pageOf(a.tag, c.Pool)
	if c.Pool.Name == "" || c.Pool.Key == "" {
		reason, _ := s.text(ctx, "hget", reasonsKey(a.tag), page)
		return reason
	}
	if overflow {
		page = sharedPage(a.tag, c.Pool)
	}
	reason, _ := s.text(ctx, "get", reasonKey(page))
	return reason
}

// forgetReason forgets the reason of a pool's block that is over. If that fails, it is shown once more.
func (s *Store) forgetReason(ctx context.Context, a *ask, c *quota.Charge) {
	if c.Pool.Key == "" { // that of a key expires
		_, _ = s.number(ctx, "hdel", reasonsKey(a.tag), pageOf(a.tag, c.Pool))
	}
}

// Record implements [quota.Store].
func (s *Store) Record(ctx context.Context, r quota.Request) (quota.Units, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if err := r.CheckRecord(); err != nil {
		return nil, err
	}
	if r.Charges[0].Pool.Name == "" {
		return s.recordMember(ctx, &r)
	}
	return s.record(ctx, s.ask(s.scripts.record, &r), &r)
}

func (s *Store) record(ctx context.Context, a *ask, r *quota.Request) (quota.Units, error) {
	var at int64
	if !r.At.IsZero() {
		at = r.At.UnixMicro()
		a.around = append(a.around, window.Instant(at))
	}
	a.extra = []any{at, flag(r.Restore), flag(r.AtLeast)}
	if r.AtLeast {
		for i := range r.Charges {
			a.extra = append(a.extra, r.Charges[i].Window+1)
		}
		a.extra = append(a.extra, micros(r.Since))
	} else {
		a.extra = append(a.extra, r.Generation)
	}
	reply, err := a.run(ctx)
	if err != nil {
		return nil, err
	}
	if integer(reply[0]) == replyOtherCharges {
		return nil, storekit.OtherCharges(r.ID)
	}
	recorded := make([]int64, len(r.Charges))
	for i := range recorded {
		recorded[i] = integer(reply[2+i])
	}
	return r.Recorded(recorded), s.remember(ctx, a, reply[2+len(recorded):])
}

// Block implements [quota.Store].
func (s *Store) Block(ctx context.Context, b quota.BlockRequest) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if err := b.Check(); err != nil {
		return err
	}
	tag := s.tag(b.Charges[0].Pool)
	var until int64
	if !b.Until.IsZero() {
		until = int64(min(window.At(b.Until), never-1))
	}
	a := &ask{
		store: s, script: s.scripts.block, tag: tag, charges: b.Charges, noSpend: true, first: reasonsKey(tag),
		extra: []any{until, b.For.Microseconds(), flag(b.Open), b.Reason},
	}
	reply, err := a.run(ctx)
	if err != nil {
		return err
	}
	return s.remember(ctx, a, reply[2:])
}

// Look implements [quota.Store].
func (s *Store) Look(ctx context.Context, charges []quota.Charge) ([]quota.PageState, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	states := make([]quota.PageState, 0, len(charges))
	for i := range charges {
		state, err := s.look(ctx, charges[i:i+1])
		if err != nil {
			return nil, err
		}
		states = append(states, state)
	}
	return states, nil
}

// lookedAt is how many values the script returns for a window.
const lookedAt = 5

func (s *Store) look(ctx context.Context, charges []quota.Charge) (quota.PageState, error) {
	tag := s.tag(charges[0].Pool)
	a := &ask{store: s, script: s.scripts.look, tag: tag, charges: charges, noSpend: true, first: reasonsKey(tag)}
	if charges[0].Pool.Name == "" {
		var err error
		if a, err = s.askMember(ctx, s.scripts.look, charges); err != nil {
			return quota.PageState{}, err
		}
	}
	return s.seen(ctx, a)
}

// seen runs the look script and reads the state of its page.
func (s *Store) seen(ctx context.Context, a *ask) (quota.PageState, error) {
	c := &a.charges[0]
	a.extra = []any{int64(c.Since)}
	reply, err := a.run(ctx)
	if err != nil {
		return quota.PageState{}, err
	}
	state := quota.PageState{Pool: c.Pool, Now: instant(reply[1]), Known: integer(reply[2]) == 1, Revision: integer(reply[4])}
	if state.Known {
		state.Born = instant(reply[3])
	}
	if integer(reply[5]) != 0 {
		state.Blocked = instant(reply[5])
		state.Reason, _ = reply[6].(string)
	}
	found := reply[7+lookedAt*len(c.Windows):]
	for i, w := range c.Windows {
		f := reply[7+lookedAt*i:]
		ws := quota.WindowState{Window: w.Name, Limit: w.Limit, Used: integer(f[0]), NextUnits: integer(f[1]), ResetAt: instant(f[3]), Since: integer(f[4])}
		if integer(f[2]) != never {
			ws.NextAt = instant(f[2])
		}
		state.Windows = append(state.Windows, ws)
	}
	return state, s.remember(ctx, a, found)
}

// remember saves the births that a script returned: charge, born, expires, generation
// and latest of each page. The scripts decide by the server's clock whether a page was
// lost, has expired or was set back.
func (s *Store) remember(ctx context.Context, a *ask, found []any) error {
	for ; len(found) >= 5; found = found[5:] {
		pool := a.charges[integer(found[0])-1].Pool
		if pool.Key != "" {
			continue
		}
		err := s.births.Remember(ctx, pool, storekit.Birth{
			Born: instant(found[1]), Until: instant(found[2]).Add(-margin),
			Generation: integer(found[3]), Latest: instant(found[4]),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// margin is the time for which a page is kept after it stops counting: MARGIN in the prelude.
const margin = time.Hour

// micros returns a time as scripts have it. The zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
