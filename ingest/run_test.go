package ingest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

func charts(change func(*ingest.Job)) map[string]ingest.Job {
	j := ingest.Job{Kind: ingest.Trending, Cron: "0 */6 * * *", Pages: 2, Regions: []string{"US", "DE", "FR"}}
	if change != nil {
		change(&j)
	}
	return map[string]ingest.Job{"charts": j}
}

func TestRunIsDone(t *testing.T) {
	r := newRig(t, 100, charts(nil))
	rep := r.run("charts", ingest.Occasion{})
	if rep.State != catalog.Done || rep.Units != 6 {
		t.Fatalf("%s after %d units: %v", rep.State, rep.Units, rep.Err)
	}
	if diff := cmp.Diff([]string{"US done 2", "DE done 2", "FR done 2"}, states(rep)); diff != "" {
		t.Error(diff)
	}
	for _, region := range []string{"US", "DE", "FR"} {
		chart, err := r.catalog.Chart(t.Context(), region, "")
		r.must(err)
		if len(chart.Entries) != 100 {
			t.Errorf("the chart of %s has %d entries, want two pages", region, len(chart.Entries))
		}
	}
}

func TestRunStopsAndResumes(t *testing.T) {
	r := newRig(t, 3, charts(nil))
	rep := r.run("charts", ingest.Occasion{})
	var refused *quota.RefusedError
	if rep.State != catalog.Deferred || !errors.As(rep.Err, &refused) || !rep.ResumeAt.Equal(refused.RetryAt) {
		t.Fatalf("%s until %s: %v", rep.State, rep.ResumeAt, rep.Err)
	}
	if diff := cmp.Diff([]string{"US done 2", "DE deferred 1", "FR deferred 0"}, states(rep)); diff != "" {
		t.Error(diff)
	}
	if _, err := r.catalog.Chart(t.Context(), "DE", ""); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("half a chart is shown: %v", err)
	}
	before := r.sim.Counts().Total().Calls
	if rep := r.run("charts", ingest.Occasion{Deferred: true}); len(rep.Work) != 0 {
		t.Errorf("went on before the time: %v", states(rep))
	}
	if rep := r.run("charts", ingest.Occasion{}); rep.State != catalog.Deferred || r.sim.Counts().Total().Calls != before {
		t.Errorf("called the upstream with nothing to spend: %v", states(rep))
	}

	r.clock.Set(rep.ResumeAt)
	rep = r.run("charts", ingest.Occasion{Deferred: true})
	if diff := cmp.Diff([]string{"DE done 1", "FR done 2", "US deferred 0"}, states(rep)); diff != "" {
		t.Errorf("goes on where it stopped: %s", diff)
	}
	if r.refused() != 0 {
		t.Errorf("the upstream refused %d", r.refused())
	}
}

func TestRunWaitsForUnitsThatComeSoon(t *testing.T) {
	r := newRig(t, 3, charts(func(j *ingest.Job) { j.Regions = []string{"US"} }))
	r.must(r.ledger.BlockFor(t.Context(), quota.Pool{Upstream: "youtube", Name: "units"}, time.Minute, "slow down"))
	rep := r.run("charts", ingest.Occasion{})
	if rep.State != catalog.Done || r.clock.Now().Before(noon.Add(time.Minute)) {
		t.Errorf("%s at %s: %v", rep.State, r.clock.Now(), rep.Err)
	}
}

// TestRunWaitsAsLongAsItMay: what comes back within max_wait is waited for, also if the
// jitter is longer than that.
func TestRunWaitsAsLongAsItMay(t *testing.T) {
	r := newRig(t, 3, charts(func(j *ingest.Job) { j.Regions = []string{"US"} }))
	r.options.Jitter = func(most time.Duration) time.Duration { return most }
	r.remake()
	r.must(r.ledger.BlockFor(t.Context(), unitsPool, ingest.DefaultMaxWait, "slow down"))
	if rep := r.run("charts", ingest.Occasion{}); rep.State != catalog.Done {
		t.Errorf("%s: %v", rep.State, rep.Err)
	}
}

// TestRunIsFair: of eight regions the quota is gone in the fifth, every day of a
// week.
func TestRunIsFair(t *testing.T) {
	r := newRig(t, 9, charts(func(j *ingest.Job) { j.Regions = ingest.DefaultRegions }))
	for day := range 7 {
		r.clock.Set(noon.Add(time.Duration(day) * (24*time.Hour + time.Minute))) // past what is left of the last
		rep := r.run("charts", ingest.Occasion{})
		done := 0
		for _, w := range rep.Work {
			if w.State == catalog.Done {
				done++
			}
		}
		if rep.State != catalog.Deferred || done < 4 || done > 5 {
			t.Fatalf("day %d: %v", day, states(rep))
		}
	}
	cursors, err := r.catalog.Cursors(t.Context(), "charts")
	r.must(err)
	stalest, freshest := cursors[0].CompletedAt, cursors[len(cursors)-1].CompletedAt
	if stalest.IsZero() || freshest.Sub(stalest) > 25*time.Hour || len(cursors) != 8 {
		t.Errorf("of %d regions the stalest was fetched %s, the freshest %s", len(cursors), stalest, freshest)
	}
}

func TestOneRegionStopsNoOther(t *testing.T) {
	r := newRig(t, 100, charts(nil))
	r.sim.Inject(youtubesim.Fault{Method: "videos.list", Region: "DE", Do: youtubesim.Answer, Status: 500})
	rep := r.run("charts", ingest.Occasion{})
	if diff := cmp.Diff([]string{"US done 2", "DE failed 0", "FR done 2"}, states(rep)); diff != "" {
		t.Error(diff)
	}
	if rep.State != catalog.Failed || rep.Units != 4+3 {
		t.Errorf("%s after %d units; three attempts are metered: %v", rep.State, rep.Units, rep.Err)
	}
}

func TestWhatMayPassIsTriedAgain(t *testing.T) {
	for _, effect := range []youtubesim.Fault{
		{Do: youtubesim.Answer, Status: 503, Times: 2},
		{Do: youtubesim.Reset, Times: 2},
		{Do: youtubesim.HalfBody, Times: 1},
	} {
		t.Run(string(effect.Do), func(t *testing.T) {
			r := newRig(t, 100, charts(nil))
			effect.Region = "US"
			r.sim.Inject(effect)
			if rep := r.run("charts", ingest.Occasion{}); rep.State != catalog.Done || rep.Units < 7 {
				t.Errorf("%s after %d units: %v", rep.State, rep.Units, states(rep))
			}
		})
	}
}

func TestAnUpstreamThatIsDownIsLeftAlone(t *testing.T) {
	r := newRig(t, 1000, charts(func(j *ingest.Job) { j.Regions = ingest.DefaultRegions }))
	r.sim.Inject(youtubesim.Fault{Do: youtubesim.Answer, Status: 503})
	rep := r.run("charts", ingest.Occasion{})
	if !errors.Is(rep.Err, ingest.ErrUpstreamDown) || rep.Units != 15 || rep.ResumeAt.IsZero() {
		t.Errorf("%d units, resumes %s: %v", rep.Units, rep.ResumeAt, rep.Err)
	}
}

func TestTheUpstreamsOwnNoDefers(t *testing.T) {
	r := newRig(t, 100, charts(nil))
	r.sim.Inject(youtubesim.Fault{Do: youtubesim.Refuse, Refusal: youtubesim.QuotaExceeded, Skip: 2})
	rep := r.run("charts", ingest.Occasion{})
	if rep.State != catalog.Deferred || !errors.Is(rep.Err, quota.ErrBlocked) || r.sim.Counts().Total().Calls > 3 {
		t.Errorf("%s after %d calls: %v", rep.State, r.sim.Counts().Total().Calls, rep.Err)
	}
	if got := strings.Join(states(rep), ", "); got != "US done 2, DE deferred 0, FR deferred 0" {
		t.Error(got)
	}
}

func TestABadKeyEndsTheRun(t *testing.T) {
	r := newRig(t, 100, charts(nil))
	r.sim.Inject(youtubesim.Fault{Do: youtubesim.Refuse, Refusal: youtubesim.KeyBlocked})
	rep := r.run("charts", ingest.Occasion{})
	if !errors.Is(rep.Err, meter.ErrCredential) || r.sim.Counts().Total().Calls > 1 {
		t.Errorf("after %d calls: %v", r.sim.Counts().Total().Calls, rep.Err)
	}
}

func TestMaxUnits(t *testing.T) {
	r := newRig(t, 100, charts(func(j *ingest.Job) { j.MaxUnits = 3 }))
	rep := r.run("charts", ingest.Occasion{})
	if !errors.Is(rep.Err, meter.ErrBudget) || rep.Units != 3 || rep.State != catalog.Deferred || !rep.ResumeAt.IsZero() {
		t.Errorf("%s after %d units, resumes %s: %v", rep.State, rep.Units, rep.ResumeAt, rep.Err)
	}
}

func TestMaxRuntime(t *testing.T) {
	r := newRig(t, 100, charts(func(j *ingest.Job) { j.MaxRuntime = time.Minute }))
	r.options.Progress = func(p ingest.Progress) {
		if p.Ended == nil {
			r.clock.Advance(25 * time.Second)
		}
	}
	r.remake()
	if rep := r.run("charts", ingest.Occasion{}); rep.State != catalog.Deferred || rep.Units != 3 {
		t.Errorf("%s after %d units: %v", rep.State, rep.Units, rep.Err)
	}
}

func TestAStoppedRunFinishesItsPage(t *testing.T) {
	r := newRig(t, 100, charts(nil))
	ctx, stop := context.WithCancel(t.Context())
	r.options.Progress = func(ingest.Progress) { stop() }
	r.remake()
	rep, err := r.runner.Run(ctx, r.job("charts"), ingest.Occasion{})
	r.must(err)
	if got := strings.Join(states(rep), ", "); got != "US deferred 1, DE deferred 0, FR deferred 0" || !errors.Is(rep.Err, ingest.ErrInterrupted) {
		t.Errorf("%s: %v", got, rep.Err)
	}
	r.options.Progress = nil
	r.remake()
	if rep := r.run("charts", ingest.Occasion{Deferred: true}); rep.State != catalog.Done || rep.Units != 5 {
		t.Errorf("%s after %d units: %v", rep.State, rep.Units, rep.Err)
	}
}

func TestAJobRunsOnce(t *testing.T) {
	r := newRig(t, 100, charts(nil))
	lock, err := r.locks.Lock(t.Context(), "default/charts")
	r.must(err)
	if _, err := r.runner.Run(t.Context(), r.job("charts"), ingest.Occasion{}); !errors.Is(err, ingest.ErrHeld) {
		t.Errorf("got %v", err)
	}
	r.must(lock.Unlock())
	if rep := r.run("charts", ingest.Occasion{}); rep.State != catalog.Done {
		t.Errorf("%s: %v", rep.State, rep.Err)
	}
}

func TestSearchLeavesNoGap(t *testing.T) {
	r := newRig(t, 100, map[string]ingest.Job{"news": {
		Kind: ingest.Search, Cron: "@daily", Queries: []string{"music"}, Regions: []string{"US"}, Pages: 2,
	}})
	r.run("news", ingest.Occasion{})
	first, err := r.catalog.Cursor(t.Context(), "news", "US/music")
	r.must(err)
	if first.Mark.IsZero() {
		t.Fatal("a pass that is complete leaves a mark")
	}
	for range 20 { // more than two pages a day: the pass goes on in the next run, and nothing is left out
		r.clock.Advance(30 * time.Hour)
		rep := r.run("news", ingest.Occasion{})
		if rep.State == catalog.Failed {
			t.Fatal(states(rep), rep.Err, rep.Work[0].Err)
		}
		c, err := r.catalog.Cursor(t.Context(), "news", "US/music")
		r.must(err)
		if c.Begun() && c.Mark.After(c.Since) {
			t.Fatalf("the mark %s is past where the unfinished pass begins, %s", c.Mark, c.Since)
		}
	}
}

func TestRetention(t *testing.T) {
	r := newRig(t, 1000, charts(nil))
	r.run("charts", ingest.Occasion{})
	r.clock.Advance(26 * 24 * time.Hour)
	rep := r.run("retention", ingest.Occasion{})
	if rep.State != catalog.Done || rep.Units == 0 {
		t.Fatalf("%s after %d units: %v %v", rep.State, rep.Units, rep.Err, states(rep))
	}
	old, err := r.catalog.Ages(t.Context(), catalog.KindVideos, r.clock.Now().Add(-25*24*time.Hour), 1)
	r.must(err)
	if len(old) > 0 {
		t.Errorf("%v is still old", old)
	}
	r.clock.Advance(31 * 24 * time.Hour)
	r.must(r.ledger.Block(t.Context(), quota.Pool{Upstream: "youtube", Name: "units"}, r.clock.Now().Add(time.Hour), "shut"))
	rep = r.run("retention", ingest.Occasion{})
	left, err := r.catalog.Ages(t.Context(), catalog.KindVideos, r.clock.Now(), 1)
	r.must(err)
	if rep.State != catalog.Deferred || len(left) > 0 {
		t.Errorf("%s: what could not be fetched again must be deleted, and %v is there", rep.State, left)
	}
}

// TestNothingIsKeptFor30Days: what cannot be fetched again is gone when it is 30 days
// old, and not at the next time that the job is due after that.
func TestNothingIsKeptFor30Days(t *testing.T) {
	r := newRig(t, 1000, charts(nil))
	r.run("charts", ingest.Occasion{})
	r.must(r.ledger.Block(t.Context(), unitsPool, noon.AddDate(0, 2, 0), "shut"))
	d := ingest.NewDaemon(r.runner, []*ingest.Job{r.job("retention")}, nil)
	r.must(d.Simulate(t.Context(), r.clock, noon.Add(30*24*time.Hour)))
	for _, kind := range []catalog.Kind{catalog.KindVideos, catalog.KindStatistics, catalog.KindChannels} {
		old, err := r.catalog.Ages(t.Context(), kind, noon.Add(time.Second), 1)
		r.must(err)
		if len(old) > 0 {
			t.Errorf("%s are kept, such as %s", kind, old[0].ID)
		}
	}
	if _, err := r.catalog.Chart(t.Context(), "US", ""); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("the chart is kept: %v", err)
	}
}
