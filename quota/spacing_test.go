package quota_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// bursty is an upstream that tells one limit, and has another one of bursts that it does not tell. Both begin
// with a call.
type bursty struct {
	t     *testing.T
	store quota.Store
	of    string // the book

	mu               sync.Mutex
	quota, left      int64
	per              time.Duration
	until            time.Time
	burst, burstLeft int64 // 0: it has no such limit
	burstPer         time.Duration
	burstUntil       time.Time
	chance           int // refuses the call of this number, by chance
	calls            int
	passed, refused  int
}

const burstyBook = `
revision: 1
upstreams:
  api:
    pools: {units: {windows: [%s]}}
    feedback: [{pool: units, limit: {header: Limit}, remaining: {header: Left}, reset: {header: Reset, as: seconds}}]
    methods: {get: {pool: units, cost: 1}}
`

func newBursty(t *testing.T, windows string) *bursty {
	return &bursty{t: t, store: memstore.New(nil), of: fmt.Sprintf(burstyBook, windows), quota: 60, per: time.Minute, burst: 20, burstPer: 6 * time.Second}
}

func (u *bursty) process() *quota.Ledger {
	u.t.Helper()
	l, err := quota.New(mustParse(u.t, u.of), u.store, nil)
	if err != nil {
		u.t.Fatal(err)
	}
	return l
}

// answer answers a call: for how long it is refused, and what the limit that is told has left.
func (u *bursty) answer() (wait time.Duration, left int64, reset time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	if !now.Before(u.until) {
		u.left, u.until = u.quota, now.Add(u.per)
	}
	if !now.Before(u.burstUntil) {
		u.burstLeft, u.burstUntil = u.burst, now.Add(u.burstPer)
	}
	u.calls++
	switch {
	case u.left == 0:
		wait = u.until.Sub(now)
	case u.burst > 0 && u.burstLeft == 0:
		wait = u.burstUntil.Sub(now)
	case u.calls == u.chance:
		wait = 2 * time.Second
	default:
		u.left--
		u.burstLeft--
		u.passed++
		return 0, u.left, u.until.Sub(now)
	}
	u.refused++
	return wait, u.left, u.until.Sub(now)
}

// call makes a call as a metered client does, and reports whether it passed.
func (u *bursty) call(ctx context.Context, l *quota.Ledger) bool {
	r, err := l.Wait(ctx, quota.Call{Method: "get", TellsAnswer: true}, time.Hour)
	if err != nil {
		if ctx.Err() == nil {
			u.t.Error(err)
			time.Sleep(time.Minute)
		}
		return false
	}
	time.Sleep(60 * time.Millisecond)
	wait, left, reset := u.answer()
	time.Sleep(60 * time.Millisecond)
	units := quota.Units{"units": 1}
	if wait > 0 {
		units["units"] = 0
	}
	if _, err := r.Settle(context.WithoutCancel(ctx), units); err != nil {
		u.t.Error(err)
	}
	if _, err := l.Observe(context.WithoutCancel(ctx), quota.Observation{Pool: apiUnits, Limit: u.quota, Remaining: &left, ResetIn: reset}); err != nil {
		u.t.Error(err)
	}
	if wait > 0 {
		reason := "429"
		if left > 1 {
			reason = quota.Unexplained(reason)
		}
		if err := l.BlockFor(context.WithoutCancel(ctx), apiUnits, wait, reason); err != nil {
			u.t.Error(err)
		}
	}
	r.Answered()
	return wait == 0
}

// saturate has eight callers of each process call as often as they can. None of them knows a deadline.
func (u *bursty) saturate(ctx context.Context, d time.Duration, of ...*quota.Ledger) {
	ctx, cancel := context.WithCancel(ctx)
	defer time.AfterFunc(d, cancel).Stop()
	var callers sync.WaitGroup
	for _, l := range of {
		for range 8 {
			callers.Go(func() {
				for ctx.Err() == nil {
					u.call(ctx, l)
				}
			})
		}
	}
	callers.Wait()
}

func TestCallsAreSpacedUnderALimitThatNobodyTells(t *testing.T) {
	for name, processes := range map[string]int{"one process": 1, "three processes": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newBursty(t, "{per: 1m, quota: 60}")
				var all []*quota.Ledger
				for range processes {
					all = append(all, u.process())
				}
				u.saturate(u.t.Context(), 10*time.Minute, all...)
				// Each process has at most eight calls under way when it first meets the limit. Several measure their shares
				// by few calls, so they may meet it once more. Without spacing, 60 and 131 were refused.
				if most := 8 * (2*processes - 1); u.passed < 520 || u.refused > most {
					t.Errorf("%d passed, want 520 of 600; %d were refused, want at most %d", u.passed, u.refused, most)
				}
			})
		})
	}
}

// A process whose calls were not refused meets the block of another one.
func TestCallsAreSpacedAfterTheBlockOfAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newBursty(t, "{per: 1m, quota: 60}")
		a, b := u.process(), u.process()
		for range 10 {
			u.call(t.Context(), a)
			u.call(t.Context(), b)
		}
		if u.call(t.Context(), a) {
			t.Fatal("no call was refused")
		}
		u.call(t.Context(), b) // waits for the end of the block, and goes first
		u.isSpaced(b)
	})
}

// isSpaced has a process try three calls at once. One of them is too early.
func (u *bursty) isSpaced(l *quota.Ledger) {
	u.t.Helper()
	var refused *quota.RefusedError
	for range 3 {
		if _, err := l.Reserve(u.t.Context(), quota.Call{Method: "get"}); errors.As(err, &refused) {
			break
		}
	}
	if refused == nil || !strings.Contains(refused.Error(), "calls are spaced, because the upstream has refused one") {
		u.t.Errorf("three calls at once: %v", refused)
	}
}

func TestCheckKnowsThatCallsAreSpaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newBursty(t, "{per: 1m, quota: 60}")
		l := u.process()
		for u.call(t.Context(), l) {
		}
		u.call(t.Context(), l) // waits for the end of the block, and goes first
		held := 0
		for range 3 {
			if agree(t, l, quota.Call{Method: "get"}) != nil {
				held++
			}
		}
		if held == 0 {
			t.Error("three calls at once passed")
		}
	})
}

// spacing is what the usage tells.
func (u *bursty) spacing(l *quota.Ledger) *quota.Spacing {
	u.t.Helper()
	all, err := l.View().Usage(u.t.Context(), "", "")
	if err != nil {
		u.t.Fatal(err)
	}
	return all[0].Spaced
}

func TestARefusalThatIsExplainedSpacesNothing(t *testing.T) {
	tests := map[string]func(*bursty, *quota.Ledger){
		"nothing is left": func(u *bursty, l *quota.Ledger) {
			u.until, u.left, u.burst = time.Now().Add(10*time.Second), 15, 0 // others have spent the rest
			u.saturate(u.t.Context(), 9*time.Second, l)
		},
		"by hand": func(u *bursty, l *quota.Ledger) {
			u.burst = 0
			for range 10 {
				u.call(u.t.Context(), l)
			}
			if err := l.BlockFor(u.t.Context(), apiUnits, 5*time.Second, quota.ByHand("lunch")); err != nil {
				u.t.Error(err)
			}
			time.Sleep(5 * time.Second)
			u.call(u.t.Context(), l)
		},
	}
	for name, before := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newBursty(t, "{per: 1m, quota: 60}")
				l := u.process()
				before(u, l)
				u.atOnce(l, 20)
			})
		})
	}
}

// atOnce makes calls of which the ledger holds none back, after the present window.
func (u *bursty) atOnce(l *quota.Ledger, n int) {
	u.t.Helper()
	time.Sleep(2 * u.per)
	u.call(u.t.Context(), l) // the first one after a block
	for range n {
		if _, err := l.Reserve(u.t.Context(), quota.Call{Method: "get"}); err != nil {
			u.t.Errorf("a call is held back: %v", err)
		}
	}
}

func TestARefusalByChanceIsForgotten(t *testing.T) {
	for name, pass := range map[string]func(*bursty, *quota.Ledger){
		"after many calls": func(u *bursty, l *quota.Ledger) { u.saturate(u.t.Context(), 3*time.Minute, l) },
		"after a day":      func(*bursty, *quota.Ledger) { time.Sleep(25 * time.Hour) },
		"opened by hand": func(u *bursty, l *quota.Ledger) {
			if err := l.Admin().Unblock(u.t.Context(), apiUnits); err != nil {
				u.t.Error(err)
			}
		},
		"with another price book": func(u *bursty, l *quota.Ledger) {
			if err := l.SetBook(mustParse(u.t, u.of)); err != nil {
				u.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newBursty(t, "{per: 1m, quota: 6000}")
				u.quota, u.burst, u.chance = 6000, 0, 100
				l := u.process()
				u.saturate(u.t.Context(), 3*time.Second, l)
				if u.refused == 0 {
					t.Fatal("no call was refused")
				}
				u.call(t.Context(), l)
				u.isSpaced(l)
				if s := u.spacing(l); s == nil || s.Rate <= 0 || time.Since(s.Since) < 0 || time.Since(s.Since) > time.Minute {
					t.Errorf("the usage tells %+v", s)
				}
				pass(u, l)
				if s := u.spacing(l); s != nil {
					t.Errorf("the usage still tells %+v", s)
				}
				u.atOnce(l, 20)
			})
		})
	}
}

// A rate that was measured too low costs bursts, and never more than the windows allow in the long run.
func TestSpacedCallsGetWhatTheWindowsAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newBursty(t, "{per: 1m, quota: 600}")
		u.quota, u.burst = 600, 0
		l := u.process()
		for range 10 {
			u.call(t.Context(), l)
		}
		if err := l.BlockFor(t.Context(), apiUnits, time.Hour, quota.Unexplained("503")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		u.passed = 0
		u.saturate(t.Context(), 10*time.Minute, l)
		if u.passed < 5400 {
			t.Errorf("%d calls passed, want nearly all of 6000", u.passed)
		}
	})
}

func TestFewCallsMeasureNoRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newBursty(t, "{per: 1m, quota: 60}")
		u.burst, u.chance = 0, 3
		l := u.process()
		for range 3 {
			u.call(t.Context(), l)
		}
		u.atOnce(l, 20)
	})
}

// Under the context of a hold that is used up, calls are reserved anew. They take one place, not two.
func TestCallsBesideAHoldThatIsUsedUpAreSpacedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newBursty(t, "{per: 1m, quota: 60}")
		l := u.process()
		h, err := l.Hold(t.Context(), quota.Call{Method: "get"}, 3)
		if err != nil {
			t.Fatal(err)
		}
		u.saturate(h.Context(t.Context()), 5*time.Minute, l)
		if u.passed < 260 {
			t.Errorf("%d calls passed, want nearly 300", u.passed)
		}
	})
}

// What one call is settled to says nothing about the places of others.
func TestACallThatCostsFarMoreHoldsNobodyBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newBursty(t, "{per: 1m, quota: 6000}")
		u.quota = 6000
		l := u.process()
		dear, err := l.Reserve(t.Context(), quota.Call{Method: "get"})
		if err != nil {
			t.Fatal(err)
		}
		u.saturate(t.Context(), 10*time.Second, l)
		if _, err := dear.Settle(t.Context(), quota.Units{"units": 400}); err != nil {
			t.Fatal(err)
		}
		u.passed = 0
		u.saturate(t.Context(), time.Minute, l)
		if u.passed < 100 {
			t.Errorf("%d calls passed, want 100 of 200", u.passed)
		}
	})
}

// A process that is spaced has no ticket that others wait for.
func TestSpacedCallsHoldNoOthersUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newBursty(t, "{per: 1m, quota: 600}")
		u.quota, u.burst = 600, 0
		a, b := u.process(), u.process()
		for range 10 {
			u.call(t.Context(), a)
		}
		if err := a.BlockFor(t.Context(), apiUnits, 20*time.Second, quota.Unexplained("429")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		u.passed = 0
		u.saturate(t.Context(), 10*time.Minute, a, b)
		if u.passed < 5400 {
			t.Errorf("%d calls passed, want nearly all of 6000", u.passed)
		}
	})
}

// The units of a hold are taken at once, and its calls are sent one by one.
func TestCallsOfAHoldAreSpaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newBursty(t, "{per: 1m, quota: 600}")
		u.quota = 600
		l := u.process()
		h, err := l.Hold(t.Context(), quota.Call{Method: "get"}, 200)
		if err != nil {
			t.Fatal(err)
		}
		u.saturate(h.Context(t.Context()), 30*time.Second, l)
		if u.passed < 60 || u.refused > 16 {
			t.Errorf("%d passed, want 60 of 100; %d were refused, want at most 16", u.passed, u.refused)
		}
	})
}
