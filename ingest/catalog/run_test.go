package catalog

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRuns(t *testing.T) {
	c, clock := fresh(t)
	r, err := c.Begin(ctx, Start{Job: "trending", Scheduled: noon.Add(-time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	save(t, r, "DE", Page{Next: "2", Region: "DE", Units: 1, Videos: named("a", "b"), Statistics: []Statistics{{VideoID: "a"}}})
	save(t, r, "DE", Page{Region: "DE", Units: 2, Videos: named("b", "c"), Gone: []string{"a"}})
	resume := noon.Add(20 * time.Hour)
	for _, end := range []error{
		r.EndWork(ctx, "DE", "DE", Outcome{State: Done}),
		r.EndWork(ctx, "FR", "FR", Outcome{State: Deferred, ResumeAt: resume, Error: "quota"}),
	} {
		if end != nil {
			t.Fatal(end)
		}
	}
	clock.Advance(time.Hour)
	if err := r.End(ctx, Outcome{State: Deferred, ResumeAt: resume}); err != nil {
		t.Fatal(err)
	}
	killed := begin(t, c)
	save(t, killed, "US", Page{Next: "2"})
	clock.Advance(time.Hour)
	if _, err := c.Begin(ctx, Start{Job: "search"}); err != nil { // another job may still be running
		t.Fatal(err)
	}
	if got := recorded(t, c)[1].State; got != Running {
		t.Errorf("the run is %s, want it running", got)
	}
	begin(t, c)
	const gone = "its process ended before it did"
	later := noon.Add(2 * time.Hour)
	want := []RunRecord{
		{ID: 4, Job: "trending", StartedAt: later, State: Running},
		{ID: 3, Job: "search", StartedAt: later, State: Running},
		{
			ID: 2, Job: "trending", StartedAt: noon.Add(time.Hour), EndedAt: later, State: Failed, Error: gone,
			Work: []WorkRecord{{Work: "US", Pages: 1, State: Failed, EndedAt: later, Error: gone}},
		},
		{
			ID: 1, Job: "trending", Scheduled: noon.Add(-time.Minute), StartedAt: noon, EndedAt: noon.Add(time.Hour),
			State: Deferred, ResumeAt: resume,
			Work: []WorkRecord{
				{Work: "DE", Region: "DE", Pages: 2, Units: 3, New: 3, Unchanged: 1, Statistics: 1, Gone: 1, State: Done, EndedAt: noon},
				{Work: "FR", Region: "FR", State: Deferred, EndedAt: noon, ResumeAt: resume, Error: "quota"},
			},
		},
	}
	if diff := cmp.Diff(want, recorded(t, c)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	older, err := c.Runs(ctx, RunsQuery{Job: "trending", Before: 4, Limit: 1})
	if diff := cmp.Diff(want[2:3], older); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if err := c.ForgetRuns(ctx, noon.Add(90*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want[:3], recorded(t, c)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFence(t *testing.T) {
	c, _ := fresh(t)
	first, err := c.NewFence(ctx, "default/trending")
	if err != nil || first.Token < noon.UnixMicro() {
		t.Fatal(first, err)
	}
	old, err := c.Begin(ctx, Start{Job: "trending", Fence: first})
	if err != nil {
		t.Fatal(err)
	}
	save(t, old, "DE", Page{Next: "2", Region: "DE", Chart: true, Videos: named("a")})
	other, err := c.NewFence(ctx, "default/search")
	if err != nil || other.Token < noon.UnixMicro() {
		t.Fatal(other, err)
	}
	save(t, old, "FR", Page{Videos: named("b")}) // the fence of another job does not matter
	second, err := c.NewFence(ctx, "default/trending")
	if err != nil || second.Token <= first.Token {
		t.Fatalf("%+v after %+v, %v", second, first, err)
	}
	before := dumped(t, c, &DumpOptions{Times: true})
	cur, _ := c.Cursor(ctx, "trending", "DE")
	_, save := old.Save(ctx, &Page{Cursor: cur, Done: true, Region: "DE", Chart: true, Videos: named("c")})
	_, restart := old.Restart(ctx, "DE")
	_, begin := c.Begin(ctx, Start{Job: "trending", Fence: first})
	for op, err := range map[string]error{
		"save": save, "restart": restart, "begin": begin,
		"end the work": old.EndWork(ctx, "DE", "DE", Outcome{State: Deferred, ResumeAt: noon}),
		"end":          old.End(ctx, Outcome{State: Done}),
	} {
		if !errors.Is(err, ErrFenced) {
			t.Errorf("%s: %v, want %v", op, err, ErrFenced)
		}
	}
	if diff := cmp.Diff(before, dumped(t, c, &DumpOptions{Times: true})); diff != "" {
		t.Errorf("it wrote all the same (-before +after):\n%s", diff)
	}
	// A token from another source, such as a lease on Redis, must be higher.
	if _, err := c.Begin(ctx, Start{Job: "trending", Fence: Fence{"default/trending", second.Token + 5}}); err != nil {
		t.Error(err)
	}
	if _, err := c.Begin(ctx, Start{Job: "trending", Fence: second}); !errors.Is(err, ErrFenced) {
		t.Errorf("%v, want %v", err, ErrFenced)
	}
}
