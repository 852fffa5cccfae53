package redisstore_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/redisstore"
)

// streams is how many reserve at once in a stream.
const streams = 4

// impatience is what a call waits for at most where a server is made to hang.
const impatience = 150 * time.Millisecond

// dialImpatient is a client whose calls fail soon.
func dialImpatient(t testing.TB, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{
		Addr: addr, DialTimeout: impatience, ReadTimeout: impatience, WriteTimeout: impatience,
	})
	t.Cleanup(func() { c.Close() })
	return c
}

// stream is a stream of reservations, a unit each, that something happens to.
type stream struct {
	testing.TB
	store    quota.Store
	prefix   string
	n        int // ids
	limit    int64
	failures atomic.Int64 // calls that were not answered
	putBack  func()       // what the server may forget; nil if it must not
	mu       sync.Mutex
	answers  map[string]quota.Verdict // by id
}

// newStream returns a stream whose store has the given timeout. Zero is the store's
// default.
func newStream(t testing.TB, c redis.UniversalClient, timeout time.Duration, n int) *stream {
	t.Helper()
	s := &stream{TB: t, prefix: prefix(), n: n, limit: 1 << 20, answers: make(map[string]quota.Verdict)}
	s.store = openWith(t, c, redisstore.Options{Prefix: s.prefix, Timeout: timeout})
	return s
}

// run reserves under every id, several at once, and retries each until there is an
// answer. Before an id is used, run calls hurt with its number, and no other goroutine
// takes an id meanwhile. Then it calls the function that hurt returned, if any, while the
// others go on.
func (s *stream) run(hurt func(i int) (heal func())) {
	s.Helper()
	var turn sync.Mutex
	i := 0
	next := func() (id string, heal func()) {
		turn.Lock()
		defer turn.Unlock()
		if i++; i > s.n || s.Failed() {
			return "", nil
		}
		return fmt.Sprint("id-", i), hurt(i)
	}
	var wg sync.WaitGroup
	for range streams {
		wg.Go(func() {
			for id, heal := next(); id != ""; id, heal = next() {
				if heal != nil {
					heal()
				}
				s.answered(id)
			}
		})
	}
	wg.Wait()
}

// once runs what happens once, in the middle.
func (s *stream) once(hurt func() (heal func())) func(int) func() {
	return func(i int) func() {
		if i == s.n/2 {
			return hurt()
		}
		return nil
	}
}

func (s *stream) request(id string) quota.Request {
	return quota.Request{ID: id, Charges: []quota.Charge{units(1, s.limit)}, Labels: quota.Labels{Method: "get"}}
}

// answered asks until there is an answer. No failure may be passed off as one.
func (s *stream) answered(id string) {
	err := redistest.Await(patient(s), func() error {
		v, err := s.store.Reserve(bg, s.request(id))
		if err != nil {
			s.failures.Add(1)
			var forgotten *quota.ForgottenError
			if s.putBack != nil && errors.As(err, &forgotten) {
				s.putBack()
			} else {
				mustBeOutage(s, err)
			}
			if s.Failed() {
				return nil
			}
			return err
		}
		if !v.Allowed {
			s.Errorf("%s is refused with %d of %d used", id, v.Used, v.Limit)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.answers[id] = v
		return nil
	})
	if err != nil {
		s.Errorf("%s: no answer: %v", id, err)
	}
}

// awaitFailures returns when that many calls more have failed.
func (s *stream) awaitFailures(n int64) {
	n += s.failures.Load()
	err := redistest.Await(patient(s), func() error {
		if s.failures.Load() < n && !s.Failed() {
			return errors.New("too few calls have failed")
		}
		return nil
	})
	if err != nil {
		s.Error(err)
	}
}

// settled checks, after everything, that each id was charged once: what the page
// says, what the spend says and what was answered are the same, and a repeat of
// any id is told the same grant again.
func (s *stream) settled() {
	s.Helper()
	if got := used(s, s.store); got != int64(s.n) || len(s.answers) != s.n {
		s.Errorf("%d units used for %d ids, of which %d were answered", got, s.n, len(s.answers))
	}
	if units, calls := spent(s, s.store, "units"); units != int64(s.n) || calls != int64(s.n) {
		s.Errorf("%d units of %d calls are booked as spent, want %d", units, calls, s.n)
	}
	for id, first := range s.answers {
		if s.Failed() {
			return
		}
		v, err := s.store.Reserve(bg, s.request(id))
		if err != nil || !v.Repeat || v.Token() != first.Token() {
			s.Errorf("%s again: %+v, %v; it was granted before with %+v", id, v, err, first)
		}
	}
	if got := used(s, s.store); got != int64(s.n) {
		s.Errorf("after a repeat of each id %d units used, want %d", got, s.n)
	}
}

// spent is what is booked as spent of a pool of api.
func spent(t testing.TB, s quota.Store, pool string) (units, calls int64) {
	t.Helper()
	rows, err := s.Spend(bg, quota.SpendQuery{Upstream: "api", Account: quota.DefaultAccount})
	if err != nil {
		t.Fatalf("spend: %v", err)
	}
	for _, r := range rows {
		if r.Pool.Name == pool {
			units += r.Units
			calls += r.Calls
		}
	}
	return units, calls
}
