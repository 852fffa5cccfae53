package quota_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// tooOften ends a loop that never sleeps, in which the time of a bubble would stand still.
const tooOften = 100_000

// asked counts what reaches a store.
type asked struct {
	quota.Store
	mu    sync.Mutex
	times int
	fails int           // so many times more it cannot be reached
	delay time.Duration // of its answers
}

func (a *asked) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	a.mu.Lock()
	a.times++
	fails, delay := a.fails > 0 || a.times > tooOften, a.delay
	a.fails--
	a.mu.Unlock()
	if err := (quota.SystemClock{}).Sleep(ctx, delay); err != nil {
		return quota.Verdict{}, err
	}
	if fails {
		return quota.Verdict{}, errors.New("no route to host")
	}
	return a.Store.Reserve(ctx, r)
}

func (a *asked) fail(times int, delay time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fails, a.delay = times, delay
}

func (a *asked) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.times
}

const lineBook = `
revision: 1
upstreams:
  api:
    pools:
      a: {quota: 200, windows: [{per: 1h, algorithm: log}]}
      b: {quota: 10, windows: [{per: 1h, algorithm: log}]}
      c: {quota: 10, windows: [{per: 1h, algorithm: log}]}
    methods:
      free: {pool: a, cost: 0}
      guess: {pool: c, cost: {estimate: {body: most, default: 5}, actual: {body: used}}}
families:
  client: {quota: 1, windows: [{per: 1h, algorithm: log}]}
`

// queue is a ledger whose waiters are called by name. Time is that of its bubble.
type queue struct {
	t     *testing.T
	l     *quota.Ledger
	store *asked
	began time.Time

	mu   sync.Mutex
	done []string
}

func newQueue(t *testing.T) *queue {
	t.Helper()
	q := &queue{t: t, store: &asked{Store: memstore.New(nil)}, began: time.Now()}
	var err error
	q.l, err = quota.New(mustParse(t, lineBook), q.store, &quota.Options{Observer: quota.ObserverFunc(func(e quota.Event) {
		if e.Kind == quota.EventGranted && e.Call.ID != "" {
			q.end(e.Call.ID)
		}
	})})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func (q *queue) end(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.done = append(q.done, name)
}

// take charges, like "a=5 b=1".
func (q *queue) take(charges string) {
	q.t.Helper()
	must(q.t, q.l, charged(charges))
}

func charged(charges string) quota.Call {
	c := quota.Call{Upstream: "api", Charges: map[string]int64{}}
	for one := range strings.FieldsSeq(charges) {
		var units int64
		name, text, _ := strings.Cut(one, "=")
		fmt.Sscan(text, &units)
		c.Charges[name] = units
	}
	return c
}

// wait begins to wait for a call, behind all that wait already, and notes its name
// when it is granted, and its name and a "!" when it is not. It returns what cancels it.
func (q *queue) wait(name string, c quota.Call, most time.Duration) context.CancelFunc {
	ctx, cancel := context.WithCancel(q.t.Context())
	c.ID = name // of one whose units were granted, the observer knows in which order
	go func() {
		defer cancel()
		_, err := q.l.Wait(ctx, c, most)
		switch {
		case err == nil:
		case errors.Is(err, quota.ErrRefused):
			q.end(name + "!")
		case errors.Is(err, context.Canceled):
			q.end(name + " left")
		default:
			q.end(name + " failed")
		}
	}()
	synctest.Wait()
	return func() { cancel(); synctest.Wait() }
}

// pass lets time pass.
func (q *queue) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// after lets time pass since the beginning, and compares who is done. A caller that leaves and the one that is
// served in its place are done at one instant, in any order.
func (q *queue) after(d time.Duration, want ...string) {
	q.t.Helper()
	q.pass(time.Until(q.began.Add(d)))
	q.mu.Lock()
	defer q.mu.Unlock()
	if diff := cmp.Diff(leftLast(want), leftLast(q.done)); diff != "" {
		q.t.Errorf("after %s: %s", d, diff)
	}
}

// leftLast puts those who left behind the others.
func leftLast(done []string) []string {
	return slices.SortedStableFunc(slices.Values(done), func(a, b string) int {
		switch left := strings.HasSuffix(a, " left"); {
		case left == strings.HasSuffix(b, " left"):
			return 0
		case left:
			return 1
		}
		return -1
	})
}

// inLine runs a test in a bubble, at whose end no goroutine may be left, and nobody
// may stand in line.
func inLine(t *testing.T, name string, test func(q *queue)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t)
			test(q)
			synctest.Wait()
			if n := q.l.Waiting(); n != 0 {
				t.Errorf("%d lines are left", n)
			}
		})
	})
}
