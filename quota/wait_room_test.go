package quota_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// looked counts the looks at a store.
type looked struct {
	*memstore.Store
	looks, reserves atomic.Int64
}

func (s *looked) Look(ctx context.Context, charges []quota.Charge) ([]quota.PageState, error) {
	s.looks.Add(1)
	return s.Store.Look(ctx, charges)
}

func (s *looked) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	s.reserves.Add(1)
	return s.Store.Reserve(ctx, r)
}

// A call that waits notices within seconds that a person makes room: in its process, and in another one. Those that
// wait behind it ask nothing.
func TestWaitNoticesRoom(t *testing.T) {
	costs := mustParse(t, lineBook)
	pool := quota.Pool{Upstream: "api", Account: "default", Name: "b"}
	block := func(t *testing.T, l *quota.Ledger) {
		if err := l.BlockFor(t.Context(), pool, time.Hour, "audit"); err != nil {
			t.Fatal(err)
		}
	}
	use := func(t *testing.T, l *quota.Ledger) { must(t, l, charged("b=10")) }
	for name, test := range map[string]struct {
		fill func(*testing.T, *quota.Ledger)
		room func(*quota.Ledger) error
		own  bool // the room is only for calls of this ledger
	}{
		"a block is lifted": {block, func(l *quota.Ledger) error { return l.Admin().Unblock(context.Background(), pool) }, false},
		"a correction": {use, func(l *quota.Ledger) error {
			_, err := l.Admin().Adjust(context.Background(), pool, -5, "audit")
			return err
		}, false},
		"a limit is set": {use, func(l *quota.Ledger) error {
			_, err := l.Admin().SetLimit(context.Background(), quota.KeyLimit{Family: quota.LimitsOfUpstream + "api", Key: "b", Quota: 20, By: "ops"})
			return err
		}, false},
		"another price book": {use, func(l *quota.Ledger) error {
			return l.SetBook(mustParse(t, strings.NewReplacer("revision: 1", "revision: 2", "b: {quota: 10", "b: {quota: 20").Replace(lineBook)))
		}, true},
	} {
		for _, job := range []string{"", "a"} {
			for processes := range 2 {
				if test.own && processes > 0 {
					continue
				}
				t.Run(fmt.Sprint(name, ", job ", job, ", processes ", processes+1), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						store := &looked{Store: memstore.New(nil)}
						ledger := func() *quota.Ledger {
							l, err := quota.New(costs, store, nil)
							if err != nil {
								t.Fatal(err)
							}
							return l
						}
						l := ledger()
						other := []*quota.Ledger{l, ledger()}[processes]
						test.fill(t, l)
						ctx, stop := context.WithCancel(t.Context())
						done := make(chan error, 3)
						for range 3 {
							go func() {
								c := charged("b=2")
								c.Job = job
								_, err := l.Wait(ctx, c, 2*time.Hour)
								done <- err
							}()
						}
						synctest.Wait()
						reserves := store.reserves.Load()
						time.Sleep(time.Minute)
						if n := store.looks.Load(); n < 20 || n > 31 || store.reserves.Load() != reserves {
							t.Errorf("in a minute they looked %d times, and asked %d times", n, store.reserves.Load()-reserves)
						}
						if err := test.room(other); err != nil {
							t.Fatal(err)
						}
						began := time.Now()
						if err := <-done; err != nil {
							t.Error(err)
						}
						if took, most := time.Since(began), 5*time.Second; took > most {
							t.Errorf("the first one noticed it after %s", took)
						}
						stop()
						<-done
						<-done
						time.Sleep(5 * time.Minute) // its line is closed
					})
				})
			}
		}
	}
}

// Thousands that wait in as many lines look less often.
func TestManyLinesLookLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &looked{Store: memstore.New(nil)}
		l, err := quota.New(mustParse(t, lineBook), store, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		for i := range 2000 {
			go func() {
				for range 2 {
					_, _ = l.Wait(ctx, quota.Call{Family: "client", Key: fmt.Sprint(i)}, 2*time.Hour)
				}
			}()
		}
		time.Sleep(time.Minute)
		before := store.looks.Load()
		time.Sleep(10 * time.Minute)
		if n := (store.looks.Load() - before) / 600; n < 20 || n > 50 {
			t.Errorf("they look %d times a second", n)
		}
		stop()
		synctest.Wait()
	})
}
