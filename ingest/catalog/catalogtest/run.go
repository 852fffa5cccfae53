package catalogtest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

func (h *Harness) testRuns(t *testing.T) {
	c, clock := h.fresh(t)
	r := start(t, c, catalog.Start{Job: "trending", Scheduled: noon.Add(-time.Minute)})
	save(t, r, "DE", catalog.Page{Next: "2", Region: "DE", Units: 1, Charges: catalog.Charges{"youtube/units": 1}, Videos: named("a", "b"), Statistics: []catalog.Statistics{{VideoID: "a"}}})
	save(t, r, "DE", catalog.Page{Next: "3", Region: "DE", Units: 5}) // by an earlier version, which knows no pools
	save(t, r, "DE", catalog.Page{Region: "DE", Units: 2, Charges: catalog.Charges{"youtube/units": 1, "youtube/searches": 1}, Videos: named("b", "c"), Gone: []string{"a"}})
	resume := noon.Add(20 * time.Hour)
	for _, end := range []error{
		r.EndWork(ctx, "DE", "DE", catalog.Outcome{State: catalog.Done, Units: 4, Charges: catalog.Charges{"youtube/units": 4}}),
		r.EndWork(ctx, "FR", "FR", catalog.Outcome{State: catalog.Deferred, ResumeAt: resume, Error: "quota", Cause: "refused", Pool: "youtube/units", Refused: 3}),
	} {
		if end != nil {
			t.Fatal(end)
		}
	}
	clock.Advance(time.Hour)
	if err := r.End(ctx, catalog.Outcome{State: catalog.Deferred, ResumeAt: resume}); err != nil {
		t.Fatal(err)
	}
	killed := begin(t, c)
	save(t, killed, "US", catalog.Page{Next: "2", Units: 1, Charges: catalog.Charges{"youtube/units": 1}})
	clock.Advance(time.Hour)
	if _, err := c.Begin(ctx, catalog.Start{Job: "search"}); err != nil { // another job may still be running
		t.Fatal(err)
	}
	if got := recorded(t, c)[1].State; got != catalog.Running {
		t.Errorf("the run is %s, want it running", got)
	}
	begin(t, c)
	const gone = "its process ended before it did"
	later := noon.Add(2 * time.Hour)
	want := []catalog.RunRecord{
		{ID: 4, Job: "trending", StartedAt: later, State: catalog.Running},
		{ID: 3, Job: "search", StartedAt: later, State: catalog.Running},
		{
			ID: 2, Job: "trending", StartedAt: noon.Add(time.Hour), EndedAt: later, State: catalog.Failed, Error: gone,
			Work: []catalog.WorkRecord{{Work: "US", Pages: 1, Units: 1, Charges: catalog.Charges{"youtube/units": 1}, State: catalog.Failed, EndedAt: later, Error: gone, Cause: "ended"}},
		},
		{
			ID: 1, Job: "trending", Scheduled: noon.Add(-time.Minute), StartedAt: noon, EndedAt: noon.Add(time.Hour),
			State: catalog.Deferred, ResumeAt: resume,
			Work: []catalog.WorkRecord{
				{Work: "DE", Region: "DE", Pages: 3, Units: 12, Charges: catalog.Charges{"youtube/units": 6, "youtube/searches": 1}, New: 3, Unchanged: 1, Statistics: 1, Gone: 1, State: catalog.Done, EndedAt: noon},
				{Work: "FR", Region: "FR", State: catalog.Deferred, EndedAt: noon, ResumeAt: resume, Error: "quota", Cause: "refused", Pool: "youtube/units", Refused: 3},
			},
		},
	}
	if diff := cmp.Diff(want, recorded(t, c)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	older, err := c.Runs(ctx, catalog.RunsQuery{Job: "trending", Before: 4, Limit: 1})
	if diff := cmp.Diff(want[2:3], older); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for since, want := range map[time.Time][]catalog.Refusal{
		noon: {{Pool: "youtube/units", Cause: "refused", Hour: noon, Works: 1, Calls: 3}}, noon.Add(time.Second): nil,
	} {
		refusals, err := c.Refusals(ctx, since)
		if diff := cmp.Diff(want, refusals); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	if err := c.ForgetRuns(ctx, noon.Add(90*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want[:3], recorded(t, c)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func (h *Harness) testFence(t *testing.T) {
	c, _ := h.fresh(t)
	first, err := c.NewFence(ctx, "default/trending")
	if err != nil || first.Token < noon.UnixMicro() {
		t.Fatal(first, err)
	}
	old := start(t, c, catalog.Start{Job: "trending", Fence: first})
	save(t, old, "DE", catalog.Page{Next: "2", Region: "DE", Chart: true, Videos: named("a")})
	other, err := c.NewFence(ctx, "default/search")
	if err != nil || other.Token < noon.UnixMicro() {
		t.Fatal(other, err)
	}
	save(t, old, "FR", catalog.Page{Videos: named("b")}) // the fence of another job does not matter
	second, err := c.NewFence(ctx, "default/trending")
	if err != nil || second.Token <= first.Token {
		t.Fatalf("%+v after %+v, %v", second, first, err)
	}
	before := dumped(t, c, true)
	cur, _ := c.Cursor(ctx, "trending", "DE")
	_, save := old.Save(ctx, &catalog.Page{Cursor: cur, Done: true, Region: "DE", Chart: true, Videos: named("c")})
	_, restart := old.Restart(ctx, "DE")
	_, begin := c.Begin(ctx, catalog.Start{Job: "trending", Fence: first})
	for op, err := range map[string]error{
		"save": save, "restart": restart, "begin": begin,
		"end the work": old.EndWork(ctx, "DE", "DE", catalog.Outcome{State: catalog.Deferred, ResumeAt: noon}),
		"end":          old.End(ctx, catalog.Outcome{State: catalog.Done}),
	} {
		if !errors.Is(err, catalog.ErrFenced) {
			t.Errorf("%s: %v, want %v", op, err, catalog.ErrFenced)
		}
	}
	if diff := cmp.Diff(before, dumped(t, c, true)); diff != "" {
		t.Errorf("it wrote all the same (-before +after):\n%s", diff)
	}
	// A token from another source, such as a lease on Redis, must be higher.
	if _, err := c.Begin(ctx, catalog.Start{Job: "trending", Fence: catalog.Fence{Name: "default/trending", Token: second.Token + 5}}); err != nil {
		t.Error(err)
	}
	if _, err := c.Begin(ctx, catalog.Start{Job: "trending", Fence: second}); !errors.Is(err, catalog.ErrFenced) {
		t.Errorf("%v, want %v", err, catalog.ErrFenced)
	}
}

// testJoinedRun: processes that work on one run abandon no other, and all that they do counts.
func (h *Harness) testJoinedRun(t *testing.T) {
	c, _ := h.fresh(t)
	first := begin(t, c)
	id, err := c.Add(ctx, "trending", noon)
	if err != nil {
		t.Fatal(err)
	}
	for _, work := range []string{"DE", "FR", "FR"} {
		save(t, &run{c.Join(id, "trending", catalog.Fence{}), c}, work, catalog.Page{Region: work, Units: 1, Videos: named(work)})
	}
	save(t, first, "US", catalog.Page{Region: "US"})
	if err := c.Join(id, "trending", catalog.Fence{}).End(ctx, catalog.Outcome{State: catalog.Done}); err != nil {
		t.Fatal(err)
	}
	all, err := c.Runs(ctx, catalog.RunsQuery{Job: "trending"})
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	joined, other := all[0], all[1]
	if joined.ID != id || joined.State != catalog.Done || !joined.Scheduled.Equal(noon) || len(joined.Work) != 2 || joined.Work[1].Pages != 2 || joined.Work[1].Unchanged != 1 {
		t.Errorf("the joined run is %+v", joined)
	}
	if other.State != catalog.Running || len(other.Work) != 1 {
		t.Errorf("the other run is %+v", other)
	}
}
