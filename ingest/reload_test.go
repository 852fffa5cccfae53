package ingest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
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
