package ingest_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
)

// TestARegionThatRecovers: what failed in a way that may pass is tried again, long
// before a daily job is due again.
func TestARegionThatRecovers(t *testing.T) {
	r := newRig(t, 100, charts(func(j *ingest.Job) { j.Cron = "0 0 * * *" }))
	r.sim.Inject(youtubesim.Fault{Method: "videos.list", Region: "DE", Do: youtubesim.Answer, Status: 500, Times: 4}) // two runs
	d := ingest.NewDaemon(r.runner, []*ingest.Job{r.job("charts")}, nil)
	r.must(d.Simulate(context.Background(), r.clock, noon.Add(5*time.Hour)))
	fresh, err := r.runner.Freshness(t.Context(), r.job("charts"))
	r.must(err)
	for _, f := range fresh {
		if f.CompletedAt.IsZero() {
			t.Errorf("an hour later %s was never fetched", f.Region)
		}
	}
	if units := r.sim.Counts().Total().Units; units != 3*2+4 {
		t.Errorf("%d units were spent", units)
	}
}

// TestAnUpstreamThatStaysDown: it is called less and less often. Its error answers are
// charged.
func TestAnUpstreamThatStaysDown(t *testing.T) {
	r := newRig(t, 10_000, charts(func(j *ingest.Job) { j.Cron, j.Regions = "@weekly", ingest.DefaultRegions }))
	r.run("charts", ingest.Occasion{Scheduled: noon.AddDate(0, 0, -14)}) // so that the daemon begins at once
	before := r.sim.Counts().Total().Units
	r.sim.Inject(youtubesim.Fault{Do: youtubesim.Answer, Status: 503})
	runs, last := 0, catalog.Done
	d := ingest.NewDaemon(r.runner, []*ingest.Job{r.job("charts")}, func(_ *ingest.Job, rep *ingest.Report, err error) {
		r.must(err)
		runs, last = runs+1, rep.State
	})
	r.must(d.Simulate(context.Background(), r.clock, noon.AddDate(0, 0, 2)))
	if units := r.sim.Counts().Total().Units - before; runs < 10 || units > 20*15 {
		t.Errorf("in %d runs %d units were spent on an upstream that is down", runs, units)
	}
	r.sim.Heal()
	r.must(d.Simulate(context.Background(), r.clock, noon.Add(51*time.Hour)))
	chart, err := r.catalog.Chart(t.Context(), "US", "")
	r.must(err)
	if last != catalog.Done || chart.FetchedAt.Before(noon.Add(48*time.Hour)) {
		t.Errorf("three hours after it is up again the run is %s, and the chart of %s", last, chart.FetchedAt)
	}
}

// unsound is an upstream whose pages cannot be saved, for a while.
type unsound struct {
	ingest.Upstream
	now bool
}

func (u *unsound) Trending(_ context.Context, _, _ string, at catalog.Cursor) (*catalog.Page, error) {
	return &catalog.Page{Cursor: at, Chart: true, Done: !u.now}, nil
}

// TestARunThatCouldNotSaveIsDueAgain: it need not wait for the next time of its
// schedule, as one that fails for another reason does.
func TestARunThatCouldNotSaveIsDueAgain(t *testing.T) {
	r := newRig(t, 100, charts(nil))
	u := &unsound{now: true}
	r.runner = ingest.NewRunner(r.config, r.ledger, r.catalog, u, r.locks, &r.options)
	scheduled := noon.Add(-2 * time.Hour)
	rep := r.run("charts", ingest.Occasion{Scheduled: scheduled})
	if rep.State != catalog.Failed || rep.ResumeAt.IsZero() {
		t.Fatalf("%s until %s: %v", rep.State, rep.ResumeAt, rep.Err)
	}
	if _, due, err := r.runner.Due(t.Context(), r.job("charts")); due || err != nil {
		t.Errorf("it is due at once: %v", err)
	}
	u.now = false
	r.clock.Set(rep.ResumeAt)
	why, due, err := r.runner.Due(t.Context(), r.job("charts"))
	if !due || err != nil || !why.Scheduled.Equal(scheduled) {
		t.Fatalf("it is due: %t, %v, for %s", due, err, why.Scheduled)
	}
	if rep := r.run("charts", why); rep.State != catalog.Done || len(rep.Work) != 3 {
		t.Errorf("%s: %v", rep.State, states(rep))
	}
	if _, due, _ := r.runner.Due(t.Context(), r.job("charts")); due {
		t.Error("it is still due")
	}
}

// TestACatalogThatRecovers: a daemon makes a run again that could not save its pages.
func TestACatalogThatRecovers(t *testing.T) {
	r := newRig(t, 100, charts(func(j *ingest.Job) { j.Cron = "0 0 * * *" }))
	u := &unsound{now: true}
	r.runner = ingest.NewRunner(r.config, r.ledger, r.catalog, u, r.locks, &r.options)
	var done []catalog.State
	d := ingest.NewDaemon(r.runner, []*ingest.Job{r.job("charts")}, func(_ *ingest.Job, rep *ingest.Report, err error) {
		r.must(err)
		u.now = false
		done = append(done, rep.State)
	})
	r.must(d.Simulate(context.Background(), r.clock, noon.Add(6*time.Hour)))
	if len(done) != 2 || done[0] != catalog.Failed || done[1] != catalog.Done {
		t.Errorf("runs ended %v", done)
	}
}

// TestAnUpstreamThatStaysDownUnderCron: who is started every ten minutes, and does what
// was deferred first and then what is due, asks it no more often than a daemon.
func TestAnUpstreamThatStaysDownUnderCron(t *testing.T) {
	r := newRig(t, 10_000, charts(func(j *ingest.Job) { j.Cron, j.Regions = "@weekly", ingest.DefaultRegions }))
	r.sim.Inject(youtubesim.Fault{Do: youtubesim.Answer, Status: 503})
	runs := 0
	for range 2 * 24 * 6 {
		why, due, err := r.runner.Due(t.Context(), r.job("charts"))
		r.must(err)
		at, err := r.runner.ResumeAt(t.Context(), r.job("charts"), nil)
		r.must(err)
		if !at.IsZero() && !at.After(r.clock.Now()) {
			for _, w := range r.run("charts", ingest.Occasion{Deferred: true}).Work {
				why.Without = append(why.Without, w.Work)
			}
			runs++
		}
		if due {
			r.run("charts", why)
			runs++
		}
		r.clock.Advance(10 * time.Minute)
	}
	if units := r.sim.Counts().Total().Units; runs < 10 || runs > 25 || units > 25*15 {
		t.Errorf("%d runs spent %d units on an upstream that is down", runs, units)
	}
}

// TestEachSetbackDoublesTheRecovery: a run that has saved a page before it fails counts the
// failed runs before it, and not itself.
func TestEachSetbackDoublesTheRecovery(t *testing.T) {
	r := newRig(t, 1000, charts(func(j *ingest.Job) { j.Regions, j.Pages = []string{"US"}, 2 }))
	r.sim.Inject(youtubesim.Fault{
		Match: func(req *http.Request) bool { return req.URL.Query().Get("pageToken") != "" },
		Do:    youtubesim.Answer, Status: 503,
	})
	for _, want := range []time.Duration{5 * time.Minute, 10 * time.Minute, 20 * time.Minute} {
		rep := r.run("charts", ingest.Occasion{})
		if got := rep.ResumeAt.Sub(rep.Ended); rep.State != catalog.Failed || rep.Work[0].Pages != 1 || got.Round(time.Minute) != want {
			t.Errorf("after %d pages the run is %s, and goes on in %s, want %s", rep.Work[0].Pages, rep.State, got, want)
		}
		r.must(r.catalog.Reset(t.Context(), "charts", "US")) // the next run saves the first page, too
		r.clock.Advance(time.Hour)
	}
}
