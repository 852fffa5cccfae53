package ingest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/quota"
)

// TestReload exchanges a job while a run of it is under way: that run ends as it began,
// and what comes after it goes by the new one.
func TestReload(t *testing.T) {
	none := func() error { return nil }
	refused := errors.New("the price book is broken")
	for _, tt := range []struct {
		name   string
		reload func(r *rig, d *ingest.Daemon) error // in the first page of the first run
		want   []int                                // pages of the runs
		second time.Duration                        // after noon
		err    error
	}{
		{"as it was", func(r *rig, d *ingest.Daemon) error {
			return d.Reload(r.t.Context(), r.runner, []*ingest.Job{r.job("charts")}, none)
		}, []int{6, 6}, 10 * time.Hour, nil},
		{"fewer pages", func(r *rig, d *ingest.Daemon) error {
			j := r.job("charts")
			j.Pages = 1
			return d.Reload(r.t.Context(), r.runner, []*ingest.Job{j}, none)
		}, []int{6, 3}, 10 * time.Hour, nil},
		{"another schedule", func(r *rig, d *ingest.Daemon) error {
			return d.Reload(r.t.Context(), r.runner, []*ingest.Job{r.due("charts", "30 4 * * *")}, none)
		}, []int{6, 6}, 8*time.Hour + 30*time.Minute, nil},
		{"gone, and there again", func(r *rig, d *ingest.Daemon) error {
			return errors.Join(d.Reload(r.t.Context(), r.runner, nil, none), d.Reload(r.t.Context(), r.runner, []*ingest.Job{r.job("charts")}, none))
		}, []int{6, 6}, 10 * time.Hour, nil},
		{"refused at last", func(r *rig, d *ingest.Daemon) error {
			return d.Reload(r.t.Context(), r.runner, nil, func() error { return refused })
		}, []int{6, 6}, 10 * time.Hour, refused},
		{"a storm", func(r *rig, d *ingest.Daemon) error {
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() { r.must(d.Reload(r.t.Context(), r.runner, []*ingest.Job{r.job("charts")}, none)) })
			}
			all.Wait()
			return nil
		}, []int{6, 6}, 10 * time.Hour, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 1000, charts(nil)) // due at 00, 06, 12 and 18 UTC; it is 20
			var d *ingest.Daemon
			var once sync.Once
			r.options.Progress = func(ingest.Progress) {
				once.Do(func() {
					if err := tt.reload(r, d); !errors.Is(err, tt.err) {
						t.Errorf("reload: %v, want %v", err, tt.err)
					}
				})
			}
			r.remake()
			ctx, stop := context.WithCancel(t.Context())
			var pages []int
			var second time.Duration
			d = ingest.NewDaemon(r.runner, []*ingest.Job{r.job("charts")}, func(_ *ingest.Job, rep *ingest.Report, err error) {
				r.must(err)
				n := 0
				for _, w := range rep.Work {
					n += w.Pages
				}
				if pages = append(pages, n); len(pages) == 2 {
					second = rep.Started.Sub(noon)
					stop()
				}
			})
			r.must(d.Run(ctx))
			if !slices.Equal(pages, tt.want) || second != tt.second {
				t.Errorf("runs fetched %v pages, want %v; the second after %s, want %s", pages, tt.want, second, tt.second)
			}
		})
	}
}

// hookedClock calls a function once, when somebody has slept until a time.
type hookedClock struct {
	*quota.SimClock
	at   time.Time
	hook func()
}

func (c *hookedClock) Sleep(ctx context.Context, d time.Duration) error {
	if !c.Now().Before(c.at) && c.hook != nil {
		hook := c.hook
		c.hook = nil
		hook()
	}
	return c.SimClock.Sleep(ctx, d)
}

// TestReloadKeepsATimeThatIsOwed: the job is due at midnight and starts 20 minutes later,
// by its jitter, which would be another one next time.
func TestReloadKeepsATimeThatIsOwed(t *testing.T) {
	daily := func(j *ingest.Job) { j.Cron, j.Jitter, j.Misfire = "0 0 * * *", time.Hour, ingest.Skip }
	for _, tt := range []struct {
		name string
		at   time.Duration // after noon, which is 20:00
		cron string
		want time.Duration
	}{
		{"before it is due", 3 * time.Hour, "0 0 * * *", 4*time.Hour + 20*time.Minute},
		{"while it is owed", 4*time.Hour + 10*time.Minute, "0 0 * * *", 4*time.Hour + 20*time.Minute},
		{"while it is owed, with another schedule", 4*time.Hour + 10*time.Minute, "0 6 * * *", 4*time.Hour + 20*time.Minute},
		{"another schedule", 3 * time.Hour, "0 2 * * *", 6*time.Hour + 5*time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 1000, charts(daily))
			clock := &hookedClock{SimClock: r.clock, at: noon.Add(tt.at)}
			jitters := []time.Duration{20 * time.Minute}
			r.options.Clock, r.options.Jitter = clock, func(time.Duration) time.Duration {
				if len(jitters) == 0 {
					return 5 * time.Minute
				}
				next := jitters[0]
				jitters = jitters[1:]
				return next
			}
			r.remake()
			ctx, stop := context.WithCancel(t.Context())
			var first time.Duration
			d := ingest.NewDaemon(r.runner, []*ingest.Job{r.job("charts")}, func(_ *ingest.Job, rep *ingest.Report, err error) {
				r.must(err)
				first = rep.Started.Sub(noon)
				stop()
			})
			clock.hook = func() {
				if err := d.Reload(ctx, r.runner, []*ingest.Job{r.due("charts", tt.cron)}, func() error { return nil }); err != nil {
					t.Error(err)
				}
			}
			r.must(d.Run(ctx))
			if first != tt.want {
				t.Errorf("the first run began after %s, want %s", first, tt.want)
			}
		})
	}
}

// due is a job with another schedule.
func (r *rig) due(name, cron string) *ingest.Job {
	c := *r.config
	j := c.Jobs[name]
	j.Cron = cron
	c.Jobs = map[string]ingest.Job{name: j}
	for _, fault := range c.Prepare() {
		r.t.Fatal(fault)
	}
	j = c.Jobs[name]
	return &j
}
