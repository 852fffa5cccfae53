package quota_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
)

const fairBook = `
revision: 1
upstreams:
  api:
    classes: {interactive: {share: 50%, priority: 1}, batch: {share: 20%}}
    pools: {units: {quota: 60000, windows: [{per: 1m, precision: 1s}]}}
    methods:
      get: {pool: units, cost: 300}
      heavy: {pool: units, cost: 6000}
      huge: {pool: units, cost: 30000}
      answer: {pool: units, cost: {estimate: {body: max_tokens, default: 600}, actual: {body: usage}}}
`

// flow is how one process uses the pool.
type flow struct {
	method  string
	callers int
	loops   bool   // it does not wait, and asks again each 10 ms
	job     string // of one process with the others that have one
	class   string
	pauses  time.Duration // how long its calls take; 0 is 50 to 150 ms
	units   float64
}

// jain is Jain's index of fairness: 1 if all have had as much.
func jain(flows []*flow) float64 {
	sum, squares := 0.0, 0.0
	for _, f := range flows {
		sum, squares = sum+f.units, squares+f.units*f.units
	}
	return sum * sum / float64(len(flows)) / squares
}

// use lets processes use one pool for a time, and returns the most units that it had.
func use(t *testing.T, flows []*flow, length time.Duration) (most int64) {
	b, err := book.Parse("costs.yaml", []byte(fairBook), nil)
	if err != nil {
		t.Fatal(err)
	}
	store := memstore.New(nil)
	begun := time.Now()
	end := begun.Add(length)
	var all sync.WaitGroup
	var mu sync.Mutex
	one, err := quota.New(b, store, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range flows {
		l := one
		if f.job == "" {
			if l, err = quota.New(b, store, nil); err != nil {
				t.Fatal(err)
			}
		}
		for range max(f.callers, 1) {
			all.Go(func() {
				for time.Now().Before(end) {
					c := quota.Call{Upstream: "api", Job: f.job, Class: f.class, Method: f.method}
					var r *quota.Reservation
					var err error
					if f.loops {
						for r, err = l.Reserve(t.Context(), c); errors.Is(err, quota.ErrRefused) && time.Now().Before(end); r, err = l.Reserve(t.Context(), c) {
							time.Sleep(10 * time.Millisecond)
						}
					} else {
						r, err = l.Wait(t.Context(), c, time.Until(end))
					}
					if errors.Is(err, quota.ErrRefused) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					units := r.Charges()["units"]
					mu.Lock()
					most = max(most, r.Used)
					mu.Unlock()
					time.Sleep(cmp.Or(f.pauses, 50*time.Millisecond+rand.N(100*time.Millisecond)))
					if f.method == "answer" {
						units = 100 + rand.Int64N(500)
						if _, err = r.Settle(context.WithoutCancel(t.Context()), quota.Units{"units": units}); err != nil {
							t.Error(err)
						}
					}
					mu.Lock()
					if time.Now().After(begun.Add(time.Minute)) { // what was taken before stays taken
						f.units += float64(units)
					}
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	return most
}

// Classes get their shares of several processes and within one, and the rest goes to the highest priority.
func TestClassesTakeTurns(t *testing.T) {
	for name, test := range map[string]struct {
		flows []*flow
		want  map[string]float64
	}{
		"a share":     {[]*flow{{method: "get", callers: 8}, {method: "answer", callers: 8}, {method: "get", callers: 4, class: "batch"}}, map[string]float64{"": 0.8, "batch": 0.2}},
		"priority":    {[]*flow{{method: "get", callers: 8}, {method: "answer", callers: 8, class: "interactive"}, {method: "get", callers: 8, class: "batch"}, {method: "get", class: "batch", callers: 2}}, map[string]float64{"": 0.05, "batch": 0.2, "interactive": 0.75}},
		"one process": {[]*flow{{method: "get", callers: 8, job: "jobs"}, {method: "get", callers: 8, job: "jobs", class: "batch"}}, map[string]float64{"": 0.8, "batch": 0.2}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				most := use(t, test.flows, 6*time.Minute)
				if most > 60000 {
					t.Errorf("%d units were used at once", most)
				}
				took, whole := map[string]float64{}, 0.0
				for _, f := range test.flows {
					took[f.class] += f.units
					whole += f.units
				}
				if whole < 0.9*300_000 {
					t.Errorf("all took %.0f units in five minutes", whole)
				}
				for class, want := range test.want {
					if part := took[class] / whole; math.Abs(part-want) > 0.04 {
						t.Errorf("class %q has %.3f of the units, want %.2f", class, part, want)
					}
				}
			})
		})
	}
}

// A call that costs half of the limit gets its units beside light ones of another process, of which none was ever
// refused, because they take 0.6 of the limit.
func TestAHeavyCallIsNotPassedByLightOnes(t *testing.T) {
	t.Run("one pool", func(t *testing.T) { heavyBesideLight(t, fairBook) })
	t.Run("two pools", func(t *testing.T) { // of which the other has the fewest units left
		heavyBesideLight(t, `
revision: 1
upstreams:
  api:
    pools: {units: {quota: 60000, windows: [{per: 1m, precision: 1s}]}, requests: {quota: 1000, windows: [{per: 1m, precision: 1s}]}}
    methods:
      get: {charge: {requests: 1, units: 300}}
      huge: {charge: {requests: 1, units: 30000}}
`)
	})
}

func heavyBesideLight(t *testing.T, costs string) {
	synctest.Test(t, func(t *testing.T) {
		b, err := book.Parse("costs.yaml", []byte(costs), nil)
		if err != nil {
			t.Fatal(err)
		}
		store := memstore.New(nil)
		process := func() *quota.Ledger {
			l, err := quota.New(b, store, nil)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		light, heavy := process(), process()
		ctx, stop := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		calls.Go(func() {
			for ctx.Err() == nil {
				if _, err := light.Wait(ctx, quota.Call{Upstream: "api", Method: "get"}, time.Hour); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				time.Sleep(500 * time.Millisecond)
			}
		})
		time.Sleep(2 * time.Minute)
		began := time.Now()
		_, err = heavy.Wait(ctx, quota.Call{Upstream: "api", Method: "huge"}, time.Hour)
		if took := time.Since(began); err != nil || took > 2*time.Minute { // a minute in its share, alone
			t.Errorf("it waited %s: %v", took, err)
		}
		stop()
		calls.Wait()
	})
}

// Processes that always want more get as much, whatever their calls cost, how many callers they have, and whether
// they wait or ask again and again. What they took before anybody waited is not counted.
func TestProcessesTakeTurns(t *testing.T) {
	for name, test := range map[string]struct {
		flows   []flow
		index   float64 // of Jain, at least
		poorest float64 // of an equal share, at least
	}{
		"one price":       {[]flow{{method: "get", callers: 4}, {method: "get", callers: 4}, {method: "get", callers: 4}, {method: "get", callers: 4}}, 0.99, 0.9},
		"settled":         {[]flow{{method: "answer", callers: 4}, {method: "answer", callers: 4}, {method: "answer", callers: 4}, {method: "answer", callers: 4}}, 0.99, 0.9},
		"a heavy one":     {[]flow{{method: "heavy"}, {method: "get", callers: 4}, {method: "get", callers: 4}, {method: "get", callers: 4}}, 0.99, 0.9},
		"heavy, settled":  {[]flow{{method: "heavy"}, {method: "answer", callers: 4}, {method: "answer", callers: 4}, {method: "answer", callers: 4}}, 0.98, 0.85},
		"many callers":    {[]flow{{method: "get", callers: 4}, {method: "get", callers: 20}, {method: "get", callers: 4}, {method: "get", callers: 4}}, 0.99, 0.9},
		"one caller":      {[]flow{{method: "get", pauses: 100 * time.Millisecond}, {method: "get", callers: 20}, {method: "get", callers: 20}, {method: "get", callers: 20}}, 0.99, 0.9},
		"some ask often":  {[]flow{{method: "get", callers: 4, loops: true}, {method: "get", callers: 4}, {method: "get", callers: 4}, {method: "get", callers: 4, loops: true}}, 0.99, 0.9},
		"jobs of one":     {[]flow{{method: "heavy", job: "a"}, {method: "get", callers: 4, job: "b"}, {method: "get", callers: 4, job: "c"}}, 0.99, 0.9},
		"a quick one":     {[]flow{{method: "heavy", job: "a", pauses: time.Millisecond}, {method: "get", callers: 8, job: "b", pauses: 100 * time.Millisecond}}, 0.99, 0.9},
		"heavy and often": {[]flow{{method: "heavy"}, {method: "get", callers: 4, loops: true}, {method: "get", callers: 4}, {method: "get", callers: 4, loops: true}}, 0.75, 0.6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var all []*flow
				for _, f := range test.flows {
					all = append(all, &f)
				}
				used := use(t, all, 5*time.Minute)
				sum, least := 0.0, math.Inf(1)
				var units []float64
				for _, f := range all {
					sum, least, units = sum+f.units, min(least, f.units), append(units, f.units)
				}
				if index, poorest := jain(all), least/sum*float64(len(all)); index < test.index || poorest < test.poorest {
					t.Errorf("%.0f: an index of %.3f, want %.2f; the poorest has %.2f of its share, want %.2f", units, index, test.index, poorest, test.poorest)
				}
				if part := sum / 60000 / 4; part < 0.95 {
					t.Errorf("%.3f of the limit is used, want 0.95", part)
				}
				if used > 60000 {
					t.Errorf("%d of 60000 units are used", used)
				}
			})
		})
	}
}

// While nobody waits, no call reads or writes a note. A minute after the last one has waited, that is so again.
func TestTurnsCostNothingWhileNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := book.Parse("costs.yaml", []byte(fairBook), nil)
		if err != nil {
			t.Fatal(err)
		}
		store := &noted{Store: memstore.New(nil)}
		l, err := quota.New(b, store, nil)
		if err != nil {
			t.Fatal(err)
		}
		calls := func(many int, method string) {
			t.Helper()
			for range many {
				if _, err := l.Wait(t.Context(), quota.Call{Method: method}, time.Hour); err != nil {
					t.Fatal(err)
				}
				if _, err := l.Reserve(t.Context(), quota.Call{Method: "get"}); err != nil {
					t.Fatal(err)
				}
			}
		}
		calls(50, "get")
		if n := store.swaps.Load(); n != 0 {
			t.Errorf("%d notes were read or written while nobody waited", n)
		}
		calls(11, "heavy") // more than are left
		if store.swaps.Load() == 0 {
			t.Error("no note was written while a call waited")
		}
		time.Sleep(5 * time.Minute)
		calls(1, "get")
		synctest.Wait()
		before := store.swaps.Load()
		time.Sleep(5 * time.Minute)
		calls(50, "get")
		if n := store.swaps.Load() - before; n != 0 {
			t.Errorf("%d notes were read or written after nobody has waited for long", n)
		}
	})
}

// While others wait, calls that come one after the other do not each write the note of their line, because all processes
// write the same one.
func TestManyCallsShareANote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &noted{Store: memstore.New(nil)}
		l, err := quota.New(mustParse(t, `
revision: 1
upstreams:
  api:
    pools: {units: {quota: 60000, windows: [{per: 1m, precision: 1s}]}}
    methods: {light: {pool: units, cost: 1}, heavy: {pool: units, cost: 60000}}
`), store, nil)
		if err != nil {
			t.Fatal(err)
		}
		light := quota.Call{Job: "light", Method: "light"}
		must(t, l, light)
		heavy := make(chan error)
		go func() {
			_, err := l.Wait(t.Context(), quota.Call{Job: "heavy", Method: "heavy"}, time.Hour)
			heavy <- err
		}()
		synctest.Wait()
		before := store.swaps.Load()
		for range 1000 { // they may be ahead by 1200
			if _, err := l.Wait(t.Context(), light, time.Hour); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if n := store.swaps.Load() - before; n > 200 {
			t.Errorf("1000 calls in a second read or wrote %d notes", n)
		}
		if err := <-heavy; err != nil {
			t.Error(err)
		}
	})
}

// A process looks whether others wait as soon as a pool has less left than the dearest call may take: of a price that
// depends on the call, half of the limit.
func TestWhenAProcessLooksWhetherOthersWait(t *testing.T) {
	for name, test := range map[string]struct {
		methods string
		left    int // of 1000, when it looks first
	}{
		"an eighth":                            {"", 124},
		"what the dearest call takes":          {"dear: {pool: units, cost: 300}, cheap: {pool: units, cost: 200}", 299},
		"half, if a price depends on the call": {"asks: {pool: units, cost: {estimate: {body: most, default: 5}, actual: {body: used}}}", 499},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &noted{Store: memstore.New(nil)}
				l, err := quota.New(mustParse(t, `
revision: 1
upstreams:
  api:
    pools: {units: {quota: 1000, windows: [{per: 24h}]}}
    methods: {get: {pool: units, cost: 1}, `+test.methods+`}
`), store, nil)
				if err != nil {
					t.Fatal(err)
				}
				left := 1000
				for left > 0 && store.swaps.Load() == 0 {
					must(t, l, quota.Call{Method: "get"})
					left--
					synctest.Wait()
				}
				if left != test.left {
					t.Errorf("it looks first when %d are left, want %d", left, test.left)
				}
			})
		})
	}
}

// noted counts the questions for notes.
type noted struct {
	*memstore.Store
	swaps atomic.Int64
	hangs atomic.Bool
}

func (n *noted) SwapNote(ctx context.Context, name string, version int64, text string) (quota.Note, bool, error) {
	if n.swaps.Add(1); n.hangs.Load() {
		<-ctx.Done()
		return quota.Note{}, false, ctx.Err()
	}
	return n.Store.SwapNote(ctx, name, version, text)
}

// A call that is held back says so, and its turn comes.
func TestACallThatIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := book.Parse("costs.yaml", []byte(fairBook), nil)
		if err != nil {
			t.Fatal(err)
		}
		l, err := quota.New(b, memstore.New(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Reserve(t.Context(), quota.Call{Method: "get"}); err != nil {
			t.Fatal(err)
		}
		waits := make(chan error)
		for range 10 { // the last one waits
			go func() {
				_, err := l.Wait(t.Context(), quota.Call{Job: "heavy", Method: "heavy"}, time.Hour)
				waits <- err
			}()
		}
		for range 9 {
			if err := <-waits; err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		var refused *quota.RefusedError
		for range 21 { // they are ahead after 1,200 units
			if _, err = l.Reserve(t.Context(), quota.Call{Job: "light", Method: "get"}); err != nil {
				break
			}
		}
		if !errors.As(err, &refused) || refused.Reason != "1 call of others comes first" || refused.RetryAfter <= 0 || refused.RetryAfter > time.Minute {
			t.Errorf("%v: %+v", err, refused)
		}
		if _, err := l.Wait(t.Context(), quota.Call{Job: "light", Method: "get"}, time.Second); !errors.As(err, &refused) || refused.Reason != "1 call of others comes first" {
			t.Errorf("after waiting for a second: %v", err)
		}
		time.Sleep(time.Second) // it is written a moment later that a call waits no longer
		all, err := l.View().Usage(t.Context(), "api", "")
		if err != nil || len(all) != 1 || len(all[0].Waiting) != 1 || all[0].Waiting[0].Flow != "heavy" || all[0].Waiting[0].Units != 6000 {
			t.Errorf("%+v %v", all, err)
		}
		if err := <-waits; err != nil {
			t.Error(err)
		}
		if _, err := l.Reserve(t.Context(), quota.Call{Job: "light", Method: "get"}); err != nil {
			t.Error("nobody waits any more:", err)
		}
	})
}

// newFair returns a ledger of the price book of these tests, with a call taken of it.
func newFair(t *testing.T, store quota.Store) *quota.Ledger {
	t.Helper()
	b, err := book.Parse("costs.yaml", []byte(fairBook), nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := quota.New(b, store, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"first", ""} {
		if _, err := l.Reserve(t.Context(), quota.Call{ID: id, Job: "light", Method: "get"}); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// waitHeavily lets ten heavy calls come, of which the last one waits for a minute.
func waitHeavily(t *testing.T, l *quota.Ledger) (done func()) {
	t.Helper()
	ended := make(chan error)
	for range 10 {
		go func() {
			_, err := l.Wait(t.Context(), quota.Call{Job: "heavy", Method: "heavy"}, time.Hour)
			ended <- err
		}()
	}
	wait := func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	for range 9 {
		wait()
	}
	synctest.Wait()
	return wait
}

// A call whose id was granted before gets that grant, also while others wait.
func TestARepeatIsNotHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFair(t, memstore.New(nil))
		done := waitHeavily(t, l)
		var err error
		for range 21 {
			if _, err = l.Reserve(t.Context(), quota.Call{Job: "light", Method: "get"}); err != nil {
				break
			}
		}
		if !errors.Is(err, quota.ErrRefused) {
			t.Fatal("the job is never held back:", err)
		}
		r, err := l.Reserve(t.Context(), quota.Call{ID: "first", Job: "light", Method: "get"})
		if err != nil || !r.Repeat {
			t.Errorf("a repeat: %v", err)
		}
		done()
	})
}

// A store whose notes hang costs each call a moment at most, and the order.
func TestALineThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &noted{Store: memstore.New(nil)}
		l := newFair(t, store)
		done := waitHeavily(t, l)
		store.hangs.Store(true)
		time.Sleep(30 * time.Millisecond) // what is known of the line is old then
		began := time.Now()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if _, err := l.Reserve(t.Context(), quota.Call{Job: "light", Method: "get"}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for range 8 { // and those that come later do without
			if _, err := l.Reserve(t.Context(), quota.Call{Job: "light", Method: "get"}); err != nil {
				t.Error(err)
			}
		}
		if time.Since(began) > 300*time.Millisecond { // on the clock of the bubble
			t.Errorf("eighteen calls took %s", time.Since(began))
		}
		if done(); time.Since(began) > 70*time.Second {
			t.Errorf("a call whose units came back after a minute got them after %s", time.Since(began))
		}
	})
}

// A call that waits for long keeps its place, whatever other calls of its process find.
func TestALongWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := book.Parse("costs.yaml", []byte(`
revision: 1
upstreams:
  api:
    pools: {units: {quota: 100, windows: [{per: 24h}]}}
    methods: {get: {pool: units, cost: 1}, list: {pool: units, cost: 60}}
`), nil)
		if err != nil {
			t.Fatal(err)
		}
		l, err := quota.New(b, memstore.New(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		for range 2 {
			go func() {
				_, err := l.Wait(t.Context(), quota.Call{Job: "heavy", Method: "list"}, 100*time.Hour)
				ended <- err
			}()
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		for hour := range 20 {
			time.Sleep(67 * time.Minute)
			if _, err := l.Reserve(t.Context(), quota.Call{Job: "light", Method: "get"}); err != nil && !errors.Is(err, quota.ErrRefused) {
				t.Fatal(err)
			}
			if all, err := l.View().Usage(t.Context(), "", ""); err != nil || len(all[0].Waiting) != 1 {
				t.Errorf("after %d times 67 minutes: %+v %v, want one that waits", hour+1, all, err)
			}
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// However many wait, under whatever names, their line fits into a note.
func TestALineFitsIntoANote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFair(t, memstore.New(nil))
		ctx, stop := context.WithCancel(t.Context())
		for range 9 {
			if _, err := l.Reserve(ctx, quota.Call{Method: "heavy"}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 200 {
			go func() {
				job := fmt.Sprintf("%03d-%s", i, strings.Repeat("x", 120))
				if _, err := l.Wait(ctx, quota.Call{Job: job, Method: "heavy"}, time.Hour); !errors.Is(err, context.Canceled) && err != nil {
					t.Error(err)
				}
			}()
		}
		time.Sleep(30 * time.Second)
		all, err := l.View().Usage(ctx, "", "")
		if err != nil || len(all[0].Waiting) < 30 {
			t.Errorf("%d wait in the line, %v", len(all[0].Waiting), err)
		}
		stop()
	})
}

// A call that waits is measured by the limits of the time when it asks.
func TestLimitsThatChangeWhileACallWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		prices := func(a, b int) *quota.Book {
			return mustParse(t, fmt.Sprintf(`
revision: 1
upstreams:
  api:
    pools: {a: {quota: %d, windows: [{per: 1h, algorithm: log}]}, b: {quota: %d, windows: [{per: 1h, algorithm: log}]}}
    methods: {get: {pool: a, cost: 1}}
`, a, b))
		}
		l, err := quota.New(prices(10, 1000), memstore.New(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		waits := func(what string, units int64) {
			t.Helper()
			all, err := l.View().Usage(t.Context(), "", "")
			if err != nil || len(all[0].Waiting) != 1 || all[0].Waiting[0].Units != units {
				t.Errorf("%s: %+v %v, want one call that waits for %d units", what, all, err, units)
			}
		}
		must(t, l, quota.Call{Charges: quota.Units{"a": 5}})
		time.Sleep(30 * time.Minute)
		must(t, l, quota.Call{Charges: quota.Units{"a": 5}})
		done := make(chan error)
		go func() {
			_, err := l.Wait(t.Context(), quota.Call{Charges: quota.Units{"a": 5, "b": 4}}, 10*time.Hour)
			done <- err
		}()
		synctest.Wait()
		waits("of 10 and 1000", 5)
		if err := l.SetBook(prices(6, 4)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Minute) // it asks when the first units are back, and then lacks more
		waits("of 6 and 4", 4)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// What a class keeps free is there for others while its own calls wait for an hour, unless it has a share as well.
func TestOthersUseWhatAClassKeepsFree(t *testing.T) {
	for _, classes := range []string{"{hi: {}, lo: {keep_free: 30%}}", "{hi: {priority: 5, share: 70%}, lo: {keep_free: 30%}}"} {
		synctest.Test(t, func(t *testing.T) {
			l, err := quota.New(mustParse(t, `
revision: 1
upstreams:
  api:
    classes: `+classes+`
    pools: {units: {quota: 1000, windows: [{per: 1h}]}}
    methods: {get: 1}
`), memstore.New(nil), nil)
			if err != nil {
				t.Fatal(err)
			}
			lo := quota.Call{Method: "get", Class: "lo"}
			for range 700 {
				must(t, l, lo)
			}
			waited := make(chan error)
			go func() {
				_, err := l.Wait(t.Context(), lo, 2*time.Hour)
				waited <- err
			}()
			time.Sleep(time.Second)
			for range 300 {
				must(t, l, quota.Call{Method: "get", Class: "hi"})
				time.Sleep(time.Second)
			}
			if err := <-waited; err != nil {
				t.Error(err)
			}
		})
	}
}
