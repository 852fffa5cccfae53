package verdict

import (
	"context"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/quota"
)

// paused is a fleet whose jobs a person paused.
type paused []fleet.Pause

func (p paused) Status(context.Context) (fleet.Status, error) {
	s := fleet.Status{Daemons: []fleet.Daemon{{ID: "berlin-1", State: fleet.Running, Leader: true}}, Pauses: p}
	s.Judge()
	return s, nil
}

func (p paused) Daemons(context.Context) ([]fleet.Daemon, error) { return nil, nil }
func (p paused) Locks(context.Context) ([]fleet.Lock, error)     { return nil, nil }

// TestAPausedJobIsNoNextRun: a job that a person paused is not the next run, is not missed, and
// does not wait for units.
func TestAPausedJobIsNoNextRun(t *testing.T) {
	l := newLife(t, 1)
	l.alive = false
	src := view.Sources{Ledger: l.ledger, Catalog: l.shelf, Runner: l.runner, Jobs: l.jobs}
	unit := func(job string) fleet.Pause { return fleet.Pause{Account: quota.DefaultAccount, Job: job} }
	read := func(jobs ...fleet.Pause) *Verdict {
		src.Fleet = paused(jobs)
		return NewReader(&Options{Clock: l.clock}).Read(t.Context(), &src).Verdict()
	}
	all := func(v *Verdict) string { return v.Said().String() + " " + strings.Join(notesOf(v), " ") }
	if v := read(unit("trending")); !strings.HasPrefix(v.Says.String(), "The next run, often at 20:20") {
		t.Errorf("%s", all(v))
	}
	if v := read(unit("often")); !strings.HasPrefix(v.Says.String(), "The next run, trending at 20:15") {
		t.Errorf("%s", all(v))
	}
	if v := read(unit("often"), unit("trending"), unit("retention")); v.Level != warn || v.Word != "Paused" || !strings.Contains(all(v), "ingestor fleet resume trending") {
		t.Errorf("%s", all(v))
	}
	l.pass(3 * beatEvery)
	l.alive = true
	l.pass(3600 * 1e9) // both have run
	l.alive = false
	l.pass(4 * 3600 * 1e9)
	if v := read(unit("trending")); !strings.Contains(all(v), "12 times") || strings.Contains(all(v), "trending was due") {
		t.Errorf("%s", all(v))
	}
	if err := l.ledger.BlockUntilReset(t.Context(), quota.Pool{Upstream: "youtube", Account: quota.DefaultAccount, Name: "units"}, "maintenance"); err != nil {
		t.Fatal(err)
	}
	if v := read(unit("trending")); strings.Contains(all(v), "trending cannot") || strings.Contains(all(v), "trending resumes") {
		t.Errorf("%s", all(v))
	}
}

func notesOf(v *Verdict) (all []string) {
	for _, n := range v.Notes {
		all = append(all, n.Says.String())
	}
	return all
}
