package quota_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
)

const learnedBook = `
revision: 1
upstreams:
  shop:
    pools:
      calls: {quota: {learn: {from: 2, to: 1000}}}
      daily: {quota: 100000, windows: [{per: day}]}
    methods:
      get: {charge: {calls: 1, daily: 1}}
`

// learnedRig sends calls of several processes to an upstream with a limit that nobody knows.
type learnedRig struct {
	t        *testing.T
	clock    *quota.SimClock
	store    quota.Store
	ledgers  []*quota.Ledger
	takes    func(time.Time) bool
	flying   []learnedCall
	next     []time.Time // when each process asks again
	accepted int
	refused  int
}

type learnedCall struct {
	r    *quota.Reservation
	ends time.Time
	ok   bool
}

func newLearnedRig(t *testing.T, text string, processes int) *learnedRig {
	r := &learnedRig{t: t, clock: quota.NewSimClock(time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)), next: make([]time.Time, processes)}
	r.store = memstore.New(&memstore.Options{Clock: r.clock})
	r.restart(text)
	return r
}

// restart ends all processes, and begins others on the same store.
func (r *learnedRig) restart(text string) {
	b, err := book.Parse("costs.yaml", []byte(text), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	r.ledgers, r.flying = nil, nil
	for range r.next {
		l, err := quota.New(b, r.store, &quota.Options{Clock: r.clock})
		if err != nil {
			r.t.Fatal(err)
		}
		r.ledgers = append(r.ledgers, l)
	}
}

// run sends as much as the ledgers let through, for a while.
func (r *learnedRig) run(d time.Duration) {
	r.accepted, r.refused = 0, 0
	ctx := r.t.Context()
	for until := r.clock.Now().Add(d); r.clock.Now().Before(until); r.clock.Advance(10 * time.Millisecond) {
		now := r.clock.Now()
		left := r.flying[:0]
		for _, c := range r.flying {
			switch {
			case c.ends.After(now):
				left = append(left, c)
			case c.ok:
				r.accepted++
				c.r.Answered()
			default:
				r.refused++
				if learns, err := c.r.Refused(ctx, quota.Pool{Upstream: "shop", Account: "default", Name: "calls"}, 0); err != nil || !learns {
					r.t.Fatal(learns, err)
				}
			}
		}
		r.flying = left
		for i, l := range r.ledgers {
			for !r.next[i].After(now) {
				grant, err := l.Reserve(ctx, quota.Call{Method: "get", TellsAnswer: true})
				var refused *quota.RefusedError
				if errors.As(err, &refused) {
					r.next[i] = now.Add(refused.RetryAfter)
					break
				} else if err != nil {
					r.t.Fatal(err)
				}
				r.flying = append(r.flying, learnedCall{grant, now.Add(100 * time.Millisecond), r.takes(now)})
			}
		}
	}
}

// perMinute is an upstream that takes so many calls in each minute of the clock.
func perMinute(limit *int) func(time.Time) bool {
	used, minute := 0, time.Time{}
	return func(at time.Time) bool {
		if m := at.Truncate(time.Minute); m != minute {
			minute, used = m, 0
		}
		used++
		return used <= *limit
	}
}

// Processes that share a store learn a limit together, and those that come later know it.
func TestProcessesLearnALimitTogether(t *testing.T) {
	limit := 600
	r := newLearnedRig(t, learnedBook, 3)
	r.takes = perMinute(&limit)
	check := func(what string, minutes int) {
		t.Helper()
		if share := float64(r.accepted) / float64(minutes*limit); share < .9 || share > 1.02 {
			t.Errorf("%s: %.3f of the limit was used, want .9 to 1.02", what, share)
		}
		if r.refused > r.accepted/50 {
			t.Errorf("%s: %d calls were refused beside %d", what, r.refused, r.accepted)
		}
	}
	r.run(10 * time.Minute)
	r.run(10 * time.Minute)
	check("after ten minutes", 10)
	r.restart(learnedBook)
	r.run(10 * time.Minute)
	check("after a restart", 10)
	limit = 300
	r.run(10 * time.Minute)
	r.run(10 * time.Minute)
	check("after the limit has fallen", 10)

	all, err := r.ledgers[0].View().Usage(t.Context(), "", "")
	if err != nil || all[0].Learned == nil || all[1].Learned != nil {
		t.Fatal(all, err)
	}
	if k := all[0].Learned; k.Rate < 4 || k.Rate > 6 || k.Refusals == 0 || k.Since.IsZero() || k.At.IsZero() || len(k.Course) == 0 {
		t.Errorf("learned is %+v, want a rate of about 5", k)
	}
	if err := r.ledgers[1].Admin().Forget(t.Context(), all[0].Pool); err != nil {
		t.Fatal(err)
	}
	if all, err = r.ledgers[0].View().Usage(t.Context(), "", ""); err != nil || all[0].Learned.Rate != 2 || all[0].Learned.Refusals != 0 {
		t.Errorf("after it was forgotten: %+v %v, want the rate at first", all, err)
	}
	if all[1].Allowances[0].Used == 0 {
		t.Errorf("the published pool beside it counts nothing: %+v", all[1])
	}
}

// A published limit beside the learned one holds, too.
func TestALearnedLimitBesideAPublishedOne(t *testing.T) {
	r := newLearnedRig(t, `
revision: 1
upstreams:
  shop:
    pools:
      calls: {quota: {learn: {from: 100}}, windows: [{per: 10m, quota: 50}]}
    methods:
      get: {pool: calls, cost: 1}
`, 2)
	r.takes = func(time.Time) bool { return true }
	r.run(9 * time.Minute)
	if r.accepted != 50 {
		t.Errorf("%d calls were sent, want the 50 that the book allows", r.accepted)
	}
}

// A refusal of a block's form is one that lowers the rate; a person's block shuts the pool.
func TestBlocksOfALearnedPool(t *testing.T) {
	r := newLearnedRig(t, learnedBook, 1)
	l, pool, ctx := r.ledgers[0], quota.Pool{Upstream: "shop", Account: "default", Name: "calls"}, t.Context()
	reserve := func() (*quota.Reservation, error) { return l.Reserve(ctx, quota.Call{Method: "get"}) }
	first, err := reserve()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.BlockFor(ctx, pool, time.Hour, "too many requests"); err != nil {
		t.Fatal(err)
	}
	var refused *quota.RefusedError
	if _, err := reserve(); !errors.As(err, &refused) || refused.Blocked || refused.RetryAfter > time.Minute {
		t.Errorf("after a refusal: %v, want one that is not blocked, and soon asks again", err)
	}
	first.Answered()
	r.clock.Advance(time.Minute)
	probe, err := reserve()
	if err != nil {
		t.Fatalf("the probe: %v", err)
	}
	if _, err := reserve(); !errors.As(err, &refused) {
		t.Errorf("beside the probe: %v, want a refusal", err)
	}
	if s, err := probe.Release(ctx); err != nil || s.Back == 0 {
		t.Fatal(s, err)
	}
	if probe, err = reserve(); err != nil {
		t.Fatalf("after a probe that was not sent: %v", err)
	}
	probe.Answered()
	r.clock.Advance(time.Minute)
	if _, err = reserve(); err != nil {
		t.Errorf("after the probe has passed: %v", err)
	}
	if err := l.BlockFor(ctx, pool, time.Hour, quota.ByHand("maintenance")); err != nil {
		t.Fatal(err)
	}
	r.clock.Advance(time.Minute)
	if _, err := reserve(); !errors.As(err, &refused) || !refused.Blocked {
		t.Errorf("a person's block: %v, want it shut", err)
	}
}

// Calls that draw from a hold keep to the rate, too.
func TestAHoldKeepsToTheLearnedRate(t *testing.T) {
	r := newLearnedRig(t, learnedBook, 1)
	h, err := r.ledgers[0].Hold(t.Context(), quota.Call{Method: "get"}, 20)
	if err != nil {
		t.Fatal(err)
	}
	ctx, drawn := h.Context(t.Context()), 0
	for range 1000 {
		if _, err := r.ledgers[0].Reserve(ctx, quota.Call{Method: "get"}); err == nil {
			drawn++
		} else if !errors.Is(err, quota.ErrRefused) {
			t.Fatal(err)
		}
		r.clock.Advance(time.Millisecond)
	}
	if drawn == 0 || drawn > 4 {
		t.Errorf("%d calls were drawn in a second, want about 2", drawn)
	}
	if err := h.Close(context.WithoutCancel(ctx)); err != nil {
		t.Error(err)
	}
}

// A repeated id passes the rate once.
// A limit in units is learned from calls that cost many of them.
func TestLearnsALimitOfUnits(t *testing.T) {
	limit := 60
	r := newLearnedRig(t, strings.NewReplacer("calls: 1", "calls: 100", "from: 2, to: 1000", "from: 200, to: 100000").Replace(learnedBook), 2)
	r.takes = perMinute(&limit)
	r.run(time.Hour)
	r.run(time.Hour)
	if share := float64(r.accepted) / float64(60*limit); share < .9 || share > 1.02 || r.refused > r.accepted/100 {
		t.Errorf("%.3f of the limit was used, and %d calls of %d were refused", share, r.refused, r.accepted)
	}
}

// A limit of the calls in flight is shown as one, and a refusal names it.
func TestLearnsHowManyCallsMayBeInFlight(t *testing.T) {
	r := newLearnedRig(t, learnedBook, 2)
	r.takes = func(now time.Time) bool {
		n := 0
		for _, c := range r.flying {
			if c.ok && c.ends.After(now) {
				n++
			}
		}
		return n < 6
	}
	r.run(10 * time.Minute)
	all, err := r.ledgers[1].View().Usage(t.Context(), "", "")
	if err != nil || all[0].Learned.Places < 5 || all[0].Learned.Places > 7 {
		t.Fatalf("learned is %+v %v, want 6 places", all[0].Learned, err)
	}
	for range 8 {
		_, err = r.ledgers[0].Reserve(t.Context(), quota.Call{Method: "get", TellsAnswer: true})
	}
	if refused := new(quota.RefusedError); !errors.As(err, &refused) || !strings.Contains(refused.Reason, "in flight") {
		t.Errorf("%v, want a refusal that says that too many calls are in flight", err)
	}
}

func TestARepeatedCallPassesTheRateOnce(t *testing.T) {
	r := newLearnedRig(t, learnedBook, 2)
	for i := range 10 {
		got, err := r.ledgers[i%2].Reserve(t.Context(), quota.Call{Method: "get", ID: "one"})
		if err != nil || got.Repeat != (i > 0) {
			t.Fatalf("%d: %+v %v", i, got, err)
		}
		if i == 4 { // also while one call goes first
			if learns, err := got.Refused(t.Context(), quota.Pool{Upstream: "shop", Name: "calls"}, time.Hour); !learns || err != nil {
				t.Fatal(learns, err)
			}
		}
		if _, err := r.ledgers[0].Reserve(t.Context(), quota.Call{Method: "get", ID: "another"}); i == 0 && !errors.Is(err, quota.ErrRefused) {
			t.Errorf("another id, right after it: %v, want a refusal", err)
		}
		r.clock.Advance(100 * time.Millisecond)
	}
	usage, err := r.ledgers[0].View().Usage(t.Context(), "shop", "")
	if err != nil || usage[1].Allowances[0].Used > 2 {
		t.Errorf("%+v %v: want the units of two calls at most", usage[1].Allowances[0], err)
	}
}

// Nothing is learned from calls that did not keep to the rate.
func TestNothingIsLearnedInModeObserve(t *testing.T) {
	r := newLearnedRig(t, strings.Replace(learnedBook, "  shop:", "  shop:\n    mode: observe", 1), 1)
	for range 20 {
		got, err := r.ledgers[0].Reserve(t.Context(), quota.Call{Method: "get"})
		if err != nil {
			t.Fatal(err)
		}
		if learns, err := got.Refused(t.Context(), quota.Pool{Upstream: "shop", Name: "calls"}, 0); !learns || err != nil {
			t.Fatal(learns, err)
		}
	}
	usage, err := r.ledgers[0].View().Usage(t.Context(), "shop", "")
	if err != nil || usage[0].Learned.Refusals != 0 {
		t.Errorf("%+v %v: want nothing learned", usage[0].Learned, err)
	}
}

// An answer that is written late tells nothing about the clock: who must wait still does.
func TestAnAnswerThatIsWrittenLate(t *testing.T) {
	r := newLearnedRig(t, strings.Replace(learnedBook, "to: 1000", "to: 1000, obey: true", 1), 2)
	old, err := r.ledgers[0].Reserve(t.Context(), quota.Call{Method: "get"})
	if err != nil {
		t.Fatal(err)
	}
	old.Answered() // it is not written yet
	r.clock.Advance(5 * time.Minute)
	got, err := r.ledgers[1].Reserve(t.Context(), quota.Call{Method: "get"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := got.Refused(t.Context(), quota.Pool{Upstream: "shop", Name: "calls"}, 4*time.Minute); err != nil {
		t.Fatal(err)
	}
	r.clock.Advance(time.Second)
	for i, l := range r.ledgers {
		var refused *quota.RefusedError
		if _, err := l.Reserve(t.Context(), quota.Call{Method: "get"}); !errors.As(err, &refused) || refused.RetryAfter < 3*time.Minute {
			t.Errorf("process %d: %v, want a refusal for almost four minutes", i, err)
		}
	}
}

// Many goroutines of several processes learn at once; a new price book and readers come between.
func TestManyLearnAtOnce(t *testing.T) {
	r := newLearnedRig(t, strings.Replace(learnedBook, "from: 2, to: 1000", "from: 100000", 1), 2)
	books := []*quota.Book{r.ledgers[0].Book(), r.ledgers[1].Book()}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			l := r.ledgers[i%2]
			for n := range 40 {
				switch got, err := l.Reserve(t.Context(), quota.Call{Method: "get"}); {
				case err != nil && !errors.Is(err, quota.ErrRefused):
					t.Error(err)
				case err == nil && n%10 == 9:
					if _, err := got.Refused(t.Context(), quota.Pool{Upstream: "shop", Name: "calls"}, 0); err != nil {
						t.Error(err)
					}
				case err == nil:
					got.Answered()
				}
				if n%20 == i {
					_ = l.SetBook(books[i%2])
					if _, err := l.View().Usage(t.Context(), "", ""); err != nil {
						t.Error(err)
					}
				}
				r.clock.Advance(time.Second)
			}
		})
	}
	all.Wait()
	for _, l := range r.ledgers {
		if err := l.Flush(t.Context()); err != nil {
			t.Error(err)
		}
	}
	usage, err := r.ledgers[0].View().Usage(t.Context(), "shop", "")
	if err != nil || usage[0].Learned.Refusals == 0 {
		t.Errorf("%+v %v: want some refusals", usage[0].Learned, err)
	}
}

// noAnswer is a store whose answer to the next write of a note is lost.
type noAnswer struct {
	*memstore.Store
	lose bool
}

func (s *noAnswer) SwapNote(ctx context.Context, name string, version int64, text string) (quota.Note, bool, error) {
	n, swapped, err := s.Store.SwapNote(ctx, name, version, text)
	if swapped && s.lose {
		s.lose = false
		return quota.Note{}, false, errors.New("the answer was lost")
	}
	return n, swapped, err
}

// A write whose answer is lost counts once, and the call that it let through was not sent.
func TestALostAnswerOfANote(t *testing.T) {
	r := newLearnedRig(t, learnedBook, 1)
	s := &noAnswer{Store: memstore.New(&memstore.Options{Clock: r.clock})}
	r.store = s
	r.restart(learnedBook)
	l, pool := r.ledgers[0], quota.Pool{Upstream: "shop", Name: "calls"}
	first, err := l.Reserve(t.Context(), quota.Call{Method: "get"})
	if err != nil {
		t.Fatal(err)
	}
	s.lose = true
	if _, err := first.Refused(t.Context(), pool, 0); !errors.Is(err, quota.ErrOutage) {
		t.Fatalf("%v, want an outage", err)
	}
	r.clock.Advance(time.Minute)
	s.lose = true
	if _, err := l.Reserve(t.Context(), quota.Call{Method: "get"}); !errors.Is(err, quota.ErrOutage) {
		t.Fatalf("%v, want an outage", err)
	}
	r.clock.Advance(time.Second)
	probe, err := l.Reserve(t.Context(), quota.Call{Method: "get"})
	if err != nil {
		t.Fatalf("the probe after one that was not sent: %v", err)
	}
	probe.Answered()
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	usage, err := l.View().Usage(t.Context(), "shop", "")
	if err != nil || usage[0].Learned.Refusals != 1 || usage[0].Learned.Refused {
		t.Errorf("%+v %v: want one refusal, and a probe that has passed", usage[0].Learned, err)
	}
}

// A process that knows what was learned writes each call with one question.
func TestALearnedCallCostsOneQuestion(t *testing.T) {
	r := newLearnedRig(t, learnedBook, 1)
	s := &noted{Store: memstore.New(&memstore.Options{Clock: r.clock})}
	r.store = s
	r.restart(learnedBook)
	must(t, r.ledgers[0], quota.Call{Method: "get"})
	before := s.swaps.Load()
	for range 5 {
		r.clock.Advance(10 * time.Second)
		must(t, r.ledgers[0], quota.Call{Method: "get"})
	}
	if n := s.swaps.Load() - before; n != 5 {
		t.Errorf("5 calls asked %d times", n)
	}
}

// What became of a call is told once, by its reservation or by its token.
func TestAnAnswerIsToldOnce(t *testing.T) {
	pool := quota.Pool{Upstream: "shop", Account: "default", Name: "calls"}
	for name, test := range map[string]struct {
		tell     func(l *quota.Ledger, r *quota.Reservation) bool
		refusals int
	}{
		"refused after it was answered": {func(_ *quota.Ledger, r *quota.Reservation) bool {
			r.Answered()
			learns, err := r.Refused(t.Context(), pool, 0)
			return learns && err == nil
		}, 0},
		"refused twice": {func(l *quota.Ledger, r *quota.Reservation) bool {
			learns, err := l.Refused(t.Context(), r.Token(), 0)
			again, failed := l.Refused(t.Context(), r.Token(), 0)
			return learns && err == nil && !again && failed == nil
		}, 1},
		"a token that somebody made up": {func(l *quota.Ledger, r *quota.Reservation) bool {
			token := r.Token()
			token.Nonce[0]++
			learns, err := l.Refused(t.Context(), token, 0)
			return !learns && err == nil
		}, 0},
	} {
		r := newLearnedRig(t, learnedBook, 1)
		l := r.ledgers[0]
		if !test.tell(l, must(t, l, quota.Call{Method: "get"})) {
			t.Errorf("%s: another answer", name)
		}
		if err := l.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		usage, err := l.View().Usage(t.Context(), "shop", "")
		if err != nil || int(usage[0].Learned.Refusals) != test.refusals {
			t.Errorf("%s: %+v %v, want %d refusals", name, usage[0].Learned, err, test.refusals)
		}
	}
}

// A call that its learned rate holds back is not the one that goes first after a block of another pool.
func TestACallThatIsHeldBackGoesNotFirst(t *testing.T) {
	r := newLearnedRig(t, strings.Replace(learnedBook, "to: 1000", "to: 1000, obey: true", 1)+"      list: {pool: daily, cost: 1}\n", 1)
	l := r.ledgers[0]
	if _, err := must(t, l, quota.Call{Method: "get"}).Refused(t.Context(), quota.Pool{Upstream: "shop", Name: "calls"}, 4*time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := l.BlockFor(t.Context(), quota.Pool{Upstream: "shop", Name: "daily"}, 10*time.Second, "no"); err != nil {
		t.Fatal(err)
	}
	r.clock.Advance(10 * time.Second)
	if _, err := l.Reserve(t.Context(), quota.Call{Method: "get"}); !errors.Is(err, quota.ErrRefused) || errors.Is(err, quota.ErrBlocked) {
		t.Fatalf("while the upstream has refused calls: %v", err)
	}
	must(t, l, quota.Call{Method: "list"})
}

// Whatever a program says at the end of a call, the one that goes first after a refusal lets the others follow.
func TestEachEndOfACallIsTold(t *testing.T) {
	get := quota.Call{Method: "get"}
	done := func(end func(*quota.Ledger, *quota.Reservation) error) func(*quota.Ledger) error {
		return func(l *quota.Ledger) error {
			r, err := l.Reserve(t.Context(), get)
			if err == nil {
				err = end(l, r)
			}
			return err
		}
	}
	for name, call := range map[string]func(*quota.Ledger) error{
		"Answered": done(func(_ *quota.Ledger, r *quota.Reservation) error { r.Answered(); return nil }),
		"Done":     done(func(_ *quota.Ledger, r *quota.Reservation) error { return r.Done(t.Context()) }),
		"by token": done(func(l *quota.Ledger, r *quota.Reservation) error { return l.Done(t.Context(), r.Token()) }),
		"Settle": done(func(_ *quota.Ledger, r *quota.Reservation) error {
			_, err := r.Settle(t.Context(), quota.Units{"calls": 1, "daily": 1})
			return err
		}),
		"Do": func(l *quota.Ledger) error {
			return l.Do(t.Context(), get, func(context.Context) error { return nil })
		},
		"Do with an error": func(l *quota.Ledger) error {
			err := l.Do(t.Context(), get, func(context.Context) error { return context.Canceled })
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		},
	} {
		r := newLearnedRig(t, learnedBook, 1)
		l := r.ledgers[0]
		if _, err := must(t, l, get).Refused(t.Context(), quota.Pool{Upstream: "shop", Name: "calls"}, 0); err != nil {
			t.Fatal(err)
		}
		calls := 0
		for range 300 {
			r.clock.Advance(100 * time.Millisecond)
			switch err := call(l); {
			case err == nil:
				calls++
			case !errors.Is(err, quota.ErrRefused):
				t.Fatal(name, err)
			}
		}
		if calls < 12 {
			t.Errorf("%s: %d calls in half a minute after a refusal, want 12 at least", name, calls)
		}
		usage, err := l.View().Usage(t.Context(), "shop", "")
		if err != nil || name == "Do with an error" && usage[0].Learned.Rate > 2 {
			t.Errorf("%s: %+v %v, want no rate of calls that may have been refused", name, usage[0].Learned, err)
		}
	}
}

// stuck is a clock that stands: who sleeps is only woken.
type stuck struct{ *quota.SimClock }

func (stuck) Sleep(ctx context.Context, _ time.Duration) error { <-ctx.Done(); return ctx.Err() }

// A call that waits for a place has it when another call of the process has ended.
func TestAPlaceThatIsFreeIsTaken(t *testing.T) {
	clock := quota.NewSimClock(time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC))
	store := memstore.New(&memstore.Options{Clock: clock})
	if _, _, err := store.SwapNote(t.Context(), "learned shop/calls", 0, `{"c":1,"rm":10,"slow":4,"turns":1}`); err != nil {
		t.Fatal(err)
	}
	b, err := book.Parse("costs.yaml", []byte(learnedBook), nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := quota.New(b, store, &quota.Options{Clock: stuck{clock}})
	if err != nil {
		t.Fatal(err)
	}
	first := must(t, l, quota.Call{Method: "get"})
	for range 5 {
		next := make(chan *quota.Reservation, 1)
		go func() {
			r, err := l.Wait(t.Context(), quota.Call{Method: "get"}, time.Hour)
			if err != nil {
				t.Error(err)
			}
			next <- r
		}()
		for l.Waiting() == 0 {
			time.Sleep(time.Millisecond)
		}
		clock.Advance(10 * time.Millisecond)
		first.Answered()
		select {
		case first = <-next:
		case <-time.After(time.Minute):
			t.Fatal("nobody has told the one that waits")
		}
	}
}

// Whoever calls Do with functions that fail keeps to the rate: they may have been refused.
func TestErrorsOfDoAreSpent(t *testing.T) {
	for opened, most := range map[bool]int{false: 24, true: 30} {
		r := newLearnedRig(t, learnedBook, 1)
		l, get, calls := r.ledgers[0], quota.Call{Method: "get"}, 0
		if opened {
			if _, err := must(t, l, get).Refused(t.Context(), quota.Pool{Upstream: "shop", Name: "calls"}, 0); err != nil {
				t.Fatal(err)
			}
		}
		for range 1000 {
			r.clock.Advance(10 * time.Millisecond)
			if err := l.Do(t.Context(), get, func(context.Context) error { calls++; return context.Canceled }); err == nil {
				t.Fatal("no error")
			}
		}
		if calls < 4 || calls > most {
			t.Errorf("after a refusal (%t): %d calls in 10 s, want up to %d", opened, calls, most)
		}
	}
}

// One program tells of a call 50 minutes late, because its machine slept. Places that a killed process had come back in
// seconds all the same.
func TestALateAnswerHoldsNoPlaces(t *testing.T) {
	r := newLearnedRig(t, learnedBook, 2)
	if _, _, err := r.store.(quota.NoteKeeper).SwapNote(t.Context(), "learned shop/calls", 0, `{"c":4,"rm":4,"slow":1,"mean":1,"turns":5}`); err != nil {
		t.Fatal(err)
	}
	a, get := r.ledgers[0], quota.Call{Method: "get"}
	late := must(t, a, get)
	r.clock.Advance(50 * time.Minute)
	if err := late.Done(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		one := must(t, a, get)
		r.clock.Advance(time.Second)
		one.Answered()
	}
	for range 4 {
		must(t, a, get) // of the killed process
		r.clock.Advance(10 * time.Millisecond)
	}
	r.clock.Advance(time.Minute)
	must(t, r.ledgers[1], get)
}
