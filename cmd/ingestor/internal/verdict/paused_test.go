package verdict_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
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

// TestAPausedJobIsNoNextRun: a job that a person paused is not the next run, is not missed, and
// does not wait for units.
func TestAPausedJobIsNoNextRun(t *testing.T) {
	l := newWitness(t, 0)
	l.Alive = false
	src := l.Sources()
	unit := func(job string) fleet.Pause { return fleet.Pause{Account: quota.DefaultAccount, Job: job} }
	read := func(jobs ...fleet.Pause) *verdict.Verdict {
		src.Fleet = paused(jobs)
		return verdict.NewReader(&verdict.Options{Clock: l.Clock}).Read(t.Context(), &src).Verdict()
	}
	all := func(v *verdict.Verdict) string { return v.Said().String() + " " + strings.Join(notesOf(v), " ") }
	if v := read(unit("trending")); !strings.HasPrefix(v.Says.String(), "The next run, often at 20:30") {
		t.Errorf("%s", all(v))
	}
	if v := read(unit("often")); !strings.HasPrefix(v.Says.String(), "The next run, trending at 20:15") {
		t.Errorf("%s", all(v))
	}
	if v := read(unit("often"), unit("trending"), unit("strict"), unit("retention")); v.Level != view.Warn || v.Word != "Paused" || !strings.Contains(all(v), "ingestor fleet resume trending") {
		t.Errorf("%s", all(v))
	}
	l.Pass(3 * 10 * time.Second)
	l.Alive = true
	l.Pass(time.Hour) // both have run
	l.Alive = false
	l.Pass(4 * time.Hour)
	if v := read(unit("trending")); !strings.Contains(all(v), "8 times") || strings.Contains(all(v), "trending was due") {
		t.Errorf("%s", all(v))
	}
	if err := l.Ledger.BlockUntilReset(t.Context(), quota.Pool{Upstream: "youtube", Account: quota.DefaultAccount, Name: "units"}, "maintenance"); err != nil {
		t.Fatal(err)
	}
	if v := read(unit("trending")); strings.Contains(all(v), "trending cannot") || strings.Contains(all(v), "trending resumes") {
		t.Errorf("%s", all(v))
	}
}
