package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/redisstore"
)

// stormSeed replays what is random in a storm, though not how its callers take
// turns.
const stormSeed = "HEADROOM_TEST_SEED"

// The ledger keeps its promises on a network that loses replies, delays them beyond the
// timeouts, cuts replies and requests in half, and resets connections. No reservation is
// charged twice or granted beyond the limit. An error is an outage if, and only if, there
// was no answer. In the end the test compares the page with the answers of all callers,
// and with the calls that had no answer.
func TestStorm(t *testing.T) {
	t.Run("single", func(t *testing.T) {
		sv := start(t)
		storming(t, []*redistest.Server{sv}, func(proxies map[string]*redistest.Proxy) redis.UniversalClient {
			return redis.NewClient(&redis.Options{
				Addr: proxies[sv.Addr].Addr, DialTimeout: impatience, ReadTimeout: impatience, WriteTimeout: impatience,
			})
		})
	})
	t.Run("cluster", func(t *testing.T) {
		c := startedCluster(t)
		storming(t, c.Masters, func(proxies map[string]*redistest.Proxy) redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{
				Addrs: c.Addrs(), Dialer: through(proxies),
				DialTimeout: impatience, ReadTimeout: impatience, WriteTimeout: impatience,
			})
		})
	})
}

// storming runs a storm through proxies in front of servers.
func storming(t *testing.T, servers []*redistest.Server, dial func(map[string]*redistest.Proxy) redis.UniversalClient) {
	seed := rand.Uint64()
	if text := os.Getenv(stormSeed); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("again: %s=%d", stormSeed, seed)
	proxies := make(map[string]*redistest.Proxy)
	for i, sv := range servers {
		p, err := redistest.StartProxy(sv.Addr, seed+uint64(i), 2*impatience)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		proxies[sv.Addr] = p
	}
	operations := scaled(600, 10_000)
	client, prefix := dial(proxies), prefix()
	t.Cleanup(func() { client.Close() })
	s := &storm{T: t, limit: int64(operations), counts: make(map[string]int)}
	s.store = openWith(t, client, redisstore.Options{Prefix: prefix, Timeout: impatience})
	s.ledger = ledger(t, s.store, s.limit)
	for _, p := range proxies {
		p.Misbehave(80)
	}
	var left atomic.Int64
	left.Store(int64(operations))
	var wg sync.WaitGroup
	for i := range 2 * streams {
		wg.Go(func() {
			c := &caller{storm: s, name: fmt.Sprint("caller-", i), rand: rand.New(rand.NewPCG(seed, uint64(i)))}
			for left.Add(-1) >= 0 && !t.Failed() {
				c.operate()
			}
		})
	}
	wg.Wait()

	client.Close()
	did := make(map[redistest.Fault]int)
	for _, p := range proxies {
		p.Close()
		for f, n := range p.Did() {
			did[f] += n
		}
	}
	for _, sv := range servers { // whatever they had been asked they have done when the callers are gone
		err := redistest.Await(patient(t), func() error {
			if n := info(t, sv, "clients", "connected_clients"); n != "1" {
				return fmt.Errorf("%s has %s clients", sv.Addr, n)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	direct := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: addrs(servers), IsClusterMode: len(servers) > 1})
	t.Cleanup(func() { direct.Close() })
	s.store = open(t, direct, prefix)
	s.ledger = ledger(t, s.store, s.limit)
	s.reckon()
	t.Logf("%d operations: %v; the proxies did %v", operations, s.counts, did)
	for _, f := range redistest.Faults {
		if did[f] == 0 {
			t.Errorf("the proxies never did %s", f)
		}
	}
	for _, what := range []string{"granted", "granted again", "refused", "impossible", "bad input", "outage", "settled"} {
		if s.counts[what] == 0 {
			t.Errorf("nothing was %s", what)
		}
	}
}

func addrs(servers []*redistest.Server) (all []string) {
	for _, s := range servers {
		all = append(all, s.Addr)
	}
	return all
}

// storm is what callers do and are told. The pool api/units is charged under ids,
// which are tried again; api/more without, so that nobody can know.
type storm struct {
	*testing.T
	store  quota.Store
	ledger *quota.Ledger
	limit  int64 // of each pool

	mu          sync.Mutex
	counts      map[string]int
	charged     int64        // of api/units, for sure
	unknown     []quota.Call // those who gave up before they were told
	more        int64        // charged of api/more, for sure
	moreUnknown int64        // perhaps
}

// tell notes the outcome of an operation, and checks that it is exactly one.
func (s *storm) tell(what string, r *quota.Reservation, err error) string {
	came, n := "", 0
	for name, target := range map[string]error{
		"outage": quota.ErrOutage, "refused": quota.ErrRefused, "bad input": quota.ErrBadInput,
		"impossible": quota.ErrImpossible, "stale": quota.ErrStaleBook, "unpriced": quota.ErrUnpriced,
	} {
		if errors.Is(err, target) {
			came = name
			n++
		}
	}
	var forgotten *quota.ForgottenError
	var refused *quota.RefusedError
	switch {
	case n > 1 || errors.As(err, &forgotten):
		s.Errorf("%s: came to several things: %v", what, err)
	case errors.As(err, &refused) && refused.Used+refused.Units <= refused.Limit:
		s.Errorf("%s: refused while there was room: %v", what, err)
	case err == nil && r != nil && r.Used > r.Limit:
		s.Errorf("%s: granted beyond the limit: %+v", what, r.Verdict)
	case err == nil && r != nil && r.Repeat:
		came = "granted again"
	case err == nil && r != nil:
		came = "granted"
	case err == nil:
		came = "settled"
	case n == 0 && errors.Is(err, context.DeadlineExceeded):
		came = "late"
	case n == 0:
		s.Errorf("%s: unknown kind of error: %v", what, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[came]++
	return came
}

// must notes the outcome of an operation, and checks that it is one of may.
func (s *storm) must(what string, r *quota.Reservation, err error, may ...string) string {
	came := s.tell(what, r, err)
	for _, m := range may {
		if came == m {
			return came
		}
	}
	s.Errorf("%s came to %q: %v; want one of %q", what, came, err, may)
	return came
}

// caller makes one call after the other.
type caller struct {
	*storm
	name string
	rand *rand.Rand
	made int
}

// operate makes a call, and does what callers do with it.
func (c *caller) operate() {
	c.made++
	call := quota.Call{ID: fmt.Sprint(c.name, "-", c.made), Charges: map[string]int64{"units": 1 + c.rand.Int64N(3)}}
	switch dice := c.rand.IntN(20); {
	case dice < 11:
		c.persist(call)
	case dice < 13: // gives up at once
		r, err := c.ledger.Reserve(bg, call)
		c.leave(call, c.must(call.ID, r, err, "granted", "refused", "outage"))
	case dice < 15: // has no time
		ctx, cancel := context.WithTimeout(bg, time.Duration(c.rand.Int64N(int64(2*time.Millisecond))))
		defer cancel()
		r, err := c.ledger.Reserve(ctx, call)
		c.leave(call, c.must(call.ID, r, err, "granted", "refused", "outage", "late"))
	case dice < 16: // asks for more than there ever is
		charge := units(c.limit+1, c.limit)
		v, err := c.store.Reserve(bg, quota.Request{Charges: []quota.Charge{charge}})
		switch {
		case err != nil:
			c.must(call.ID, nil, &quota.OutageError{Err: err}, "outage")
		case !v.Impossible:
			c.Errorf("%d units of %d: %+v", charge.Units, c.limit, v)
		default:
			c.tell(call.ID, nil, quota.ErrImpossible)
		}
	default: // under no id of its own
		n := 1 + c.rand.Int64N(3)
		r, err := c.ledger.Reserve(bg, quota.Call{Charges: map[string]int64{"more": n}})
		came := c.must("an unnamed call", r, err, "granted", "refused", "outage")
		c.mu.Lock()
		defer c.mu.Unlock()
		switch came {
		case "granted":
			c.more += n
		case "outage":
			c.moreUnknown += n
		}
	}
}

// leave notes a call that is not tried again.
func (c *caller) leave(call quota.Call, came string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch came {
	case "granted":
		c.charged += call.Charges["units"]
	case "outage", "late":
		c.unknown = append(c.unknown, call)
	}
}

// persist tries until there is an answer. Then it may ask the same again, or
// something else under the same id, and may settle.
func (c *caller) persist(call quota.Call) {
	var r *quota.Reservation
	var came string
	again := func(what string, may []string, try func() (*quota.Reservation, error)) string {
		came := ""
		err := redistest.Await(patient(c), func() error {
			r, err := try()
			if came = c.must(what, r, err, append(may, "outage")...); came == "outage" && !c.Failed() {
				return err
			}
			return nil
		})
		if err != nil {
			c.Errorf("%s: no answer: %v", what, err)
		}
		return came
	}
	came = again(call.ID, []string{"granted", "granted again", "refused"}, func() (_ *quota.Reservation, err error) {
		r, err = c.ledger.Reserve(bg, call)
		return r, err
	})
	if came == "refused" || c.Failed() {
		return
	}
	n := call.Charges["units"]
	stands := n
	if c.rand.IntN(4) == 0 {
		again(call.ID+" asked again", []string{"granted again"}, func() (*quota.Reservation, error) {
			return c.ledger.Reserve(bg, call)
		})
	}
	if c.rand.IntN(4) == 0 {
		other := call
		other.Charges = map[string]int64{"units": n + 1}
		again(call.ID+" for other charges", []string{"bad input"}, func() (*quota.Reservation, error) {
			return c.ledger.Reserve(bg, other)
		})
	}
	if c.rand.IntN(4) == 0 {
		stands = c.rand.Int64N(n + 1)
		again(call.ID+" settled", []string{"settled"}, func() (*quota.Reservation, error) {
			s, err := r.Settle(bg, quota.Units{"units": stands})
			if err == nil && s.Back != n-stands {
				c.Errorf("%s: settled from %d to %d, and %d came back", call.ID, n, stands, s.Back)
			}
			return nil, err
		})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.charged += stands
}

// reckon compares what the pages say with what the callers know, when all is quiet.
func (s *storm) reckon() {
	pages, err := s.store.Look(bg, []quota.Charge{units(0, s.limit), pool("more", 0, s.limit)})
	if err != nil {
		s.Fatal(err)
	}
	units, more := pages[0].Windows[0].Used, pages[1].Windows[0].Used
	for name, used := range map[string]int64{"units": units, "more": more} {
		if n, _ := spent(s, s.store, name); n != used {
			s.Errorf("api/%s: %d used, %d booked as spent", name, used, n)
		}
	}
	var perhaps, late int64
	for _, call := range s.unknown { // their receipts tell
		n := call.Charges["units"]
		perhaps += n
		if r, err := s.ledger.Reserve(bg, call); err == nil && r.Repeat {
			late += n
		}
	}
	s.Logf("api/units: %d used of %d; %d granted, %d without an answer", units, s.limit, s.charged, perhaps)
	s.Logf("api/more: %d used; %d granted, %d without an answer", more, s.more, s.moreUnknown)
	if units < s.charged || units > s.charged+perhaps || units != s.charged+late {
		s.Errorf("api/units: %d used; %d were granted; of %d without an answer, %d have receipts", units, s.charged, perhaps, late)
	}
	if more < s.more || more > s.more+s.moreUnknown {
		s.Errorf("api/more: %d used; %d were granted, %d without an answer", more, s.more, s.moreUnknown)
	}
	if units > s.limit || more > s.limit {
		s.Errorf("%d and %d used, the limit is %d", units, more, s.limit)
	}
}
