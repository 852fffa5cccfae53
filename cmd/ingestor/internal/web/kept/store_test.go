package kept_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/kept"
)

// rig is a store with a clock that the test moves, and counts what is made.
type rig struct {
	*testing.T
	*kept.Store
	now  time.Time
	made int
}

func newRig(t *testing.T, o kept.Options) *rig {
	r := &rig{T: t, now: time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)}
	if o.Most == 0 {
		o.Most, o.Each = 1<<20, 1<<20
	}
	o.Now = func() time.Time { return r.now }
	r.Store = kept.NewStore(o)
	return r
}

// ask asks for an answer that is true for an hour, and reports whether it was made.
func (r *rig) ask(v kept.Version, key string, size int) bool {
	r.Helper()
	before := r.made
	_, err := r.Do(r.Context(), v, key, func(context.Context) (*kept.Answer, error) {
		r.made++
		a := kept.New(http.Header{}, make([]byte, size))
		a.Until = r.now.Add(time.Hour)
		return a, nil
	})
	if err != nil {
		r.Error(err)
	}
	return r.made > before
}

func (r *rig) expect(made bool, v kept.Version, key string, size int, why string) {
	r.Helper()
	if r.ask(v, key, size) != made {
		r.Errorf("%s: made is %v", why, !made)
	}
}

func TestKeptWhileTrue(t *testing.T) {
	r := newRig(t, kept.Options{})
	one, two := kept.Version{0, 1}, kept.Version{0, 2}
	r.expect(true, one, "a", 9, "the first")
	r.expect(false, one, "a", 9, "again")
	r.expect(true, one, "b", 9, "another key")
	r.expect(true, two, "a", 9, "another version")
	r.expect(true, one, "a", 9, "the first version is gone")
	r.expect(true, kept.Version{1, 1}, "a", 9, "the other half of the version")
	r.now = r.now.Add(time.Hour - time.Nanosecond)
	r.expect(false, kept.Version{1, 1}, "a", 9, "just before its end")
	r.now = r.now.Add(time.Nanosecond)
	r.expect(true, kept.Version{1, 1}, "a", 9, "at its end")
	r.now = r.now.Add(-time.Nanosecond)
	r.expect(true, kept.Version{1, 1}, "a", 9, "the clock was set back before it was made")
	r.expect(false, kept.Version{1, 1}, "a", 9, "and stands")
	if r.Get(kept.Version{1, 1}, "a") == nil || r.Get(kept.Version{1, 1}, "c") != nil || r.Get(two, "a") != nil {
		t.Error("get differs")
	}
}

func TestBounded(t *testing.T) {
	r := newRig(t, kept.Options{Most: 1 << 20, Each: 100 << 10})
	v := kept.Version{}
	r.expect(true, v, "large", 60<<10, "two forms of it pass the bound of one")
	r.expect(true, v, "large", 60<<10, "it is not kept")
	for i := range 1000 {
		r.ask(v, fmt.Sprint(i), 30<<10)
		r.expect(false, v, "0", 30<<10, "it is asked for all the time")
		if i > 0 {
			r.expect(false, v, fmt.Sprint(i), 30<<10, "the last one stays")
		}
	}
	kept := 0
	for i := range 1000 {
		if r.Get(v, fmt.Sprint(i)) != nil {
			kept++
		}
	}
	if kept < 10 || kept > 17 { // of 60 kB each, both forms
		t.Errorf("%d are kept in a megabyte", kept)
	}
}

// TestForgotten: what nobody asks for leaves the memory, too.
func TestForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, kept.Options{})
		for range 3 {
			r.expect(true, kept.Version{}, "a", 9, "it is forgotten")
			time.Sleep(time.Minute - time.Second)
			r.expect(false, kept.Version{}, "a", 9, "it is kept")
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
	})
}

// TestOneMakesItForAll: however many ask at once, and whoever of them hangs up.
func TestOneMakesItForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, kept.Options{})
		ready, ended := make(chan struct{}), false
		made := 0
		ask := func(ctx context.Context, v kept.Version) error {
			_, err := r.Do(ctx, v, "a", func(ctx context.Context) (*kept.Answer, error) {
				made++
				select {
				case <-ready:
					return kept.New(http.Header{}, nil), nil
				case <-ctx.Done():
					ended = true
					return nil, ctx.Err()
				}
			})
			return err
		}
		first, hangUp := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if err := ask(first, kept.Version{}); err != nil {
				t.Errorf("it was made nevertheless: %v", err)
			}
		})
		synctest.Wait()
		for range 20 {
			all.Go(func() {
				if err := ask(t.Context(), kept.Version{}); err != nil {
					t.Error(err)
				}
			})
		}
		second, hangUpToo := context.WithCancel(t.Context())
		all.Go(func() {
			if err := ask(second, kept.Version{}); !errors.Is(err, context.Canceled) {
				t.Errorf("who hung up waits: %v", err)
			}
		})
		synctest.Wait()
		hangUp()
		hangUpToo()
		synctest.Wait()
		if made != 1 || ended {
			t.Errorf("made %d times, ended %v", made, ended)
		}
		all.Go(func() { _ = ask(t.Context(), kept.Version{1}) })
		synctest.Wait()
		if made != 2 {
			t.Error("a request waits for an answer of an older version")
		}
		close(ready)
		all.Wait()

		ready = make(chan struct{})
		gone, leave := context.WithCancel(t.Context())
		for range 3 {
			all.Go(func() { _ = ask(gone, kept.Version{}) })
		}
		synctest.Wait()
		leave()
		all.Wait()
		if made != 3 || !ended {
			t.Errorf("nobody waits any more: made %d times, ended %v", made, ended)
		}
	})
}

// TestErrorsAreOfOne: each of the others tries by itself, and no error is kept.
func TestErrorsAreOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, kept.Options{})
		for name, fail := range map[string]func() error{"an error": func() error { return errors.New("no turn") }, "a panic": func() error { panic("no turn") }} {
			tried := 0
			maker := func(context.Context) (*kept.Answer, error) {
				if tried++; tried > 1 {
					return kept.New(http.Header{}, nil), nil
				}
				time.Sleep(time.Second)
				return nil, fail()
			}
			var all sync.WaitGroup
			all.Go(func() {
				defer func() { _ = recover() }()
				if _, err := r.Do(t.Context(), kept.Version{}, "a", maker); err == nil {
					t.Errorf("%s is lost", name)
				}
			})
			synctest.Wait()
			for range 3 {
				all.Go(func() {
					if a, err := r.Do(t.Context(), kept.Version{}, "a", maker); a == nil || err != nil {
						t.Errorf("%s is that of others: %v", name, err)
					}
				})
			}
			all.Wait()
			if tried != 4 {
				t.Errorf("%s: tried %d times", name, tried)
			}
		}
	})
}

// TestOldAnswersReplaceNone: an answer that took long is not kept for a version that came
// meanwhile.
func TestOldAnswersReplaceNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, kept.Options{})
		var all sync.WaitGroup
		all.Go(func() {
			_, _ = r.Do(t.Context(), kept.Version{0, 1}, "a", func(context.Context) (*kept.Answer, error) {
				time.Sleep(time.Second)
				a := kept.New(http.Header{}, nil)
				a.Until = r.now.Add(time.Hour)
				return a, nil
			})
		})
		synctest.Wait()
		r.expect(true, kept.Version{0, 2}, "b", 9, "the file has changed")
		all.Wait()
		r.expect(true, kept.Version{0, 2}, "a", 9, "what is kept is of the version before")
	})
}
