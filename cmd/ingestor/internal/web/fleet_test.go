package web_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/quota"
)

// board is a fleet for the server.
type board struct {
	is  fleet.Status
	err error
}

func (b *board) Status(context.Context) (fleet.Status, error) {
	b.is.Judge()
	return b.is, b.err
}

// TestFleetPage: the page of a fleet shows every daemon, what each holds and spent, and the
// work that is queued, deferred or taken over.
func TestFleetPage(t *testing.T) {
	r := newRig(t, nil)
	if a := r.ask("GET", "/fleet", "", "Accept", "text/html"); a.StatusCode != http.StatusNotFound || !strings.Contains(a.body, "needs the setting database") {
		t.Errorf("without a fleet: %s\n%s", a.Status, a.body)
	}
	work := func(name string, state fleet.UnitState, change func(*fleet.Unit)) fleet.Unit {
		u := fleet.Unit{Account: quota.DefaultAccount, Job: "trending", Work: name, State: state}
		change(&u)
		return u
	}
	shown := &board{is: fleet.Status{
		Daemons: []fleet.Daemon{
			{ID: "berlin-1", State: fleet.Running, Version: "v1", StartedAt: noon, Units: 1234, Leader: true},
			{ID: "<b>oslo</b>", State: fleet.Running, Version: "v1", StartedAt: noon, Silent: time.Minute, Skew: 4 * time.Second},
		},
		Units: []fleet.Unit{
			work("US", fleet.UnitRunning, func(u *fleet.Unit) {
				u.HeldBy, u.TakenFrom, u.TakenAt = "berlin-1", "<b>oslo</b>", noon
			}),
			work("DE", fleet.UnitDeferred, func(u *fleet.Unit) { u.Why, u.NextAt = "the pool is shut", r.Clock.Now().Add(time.Hour) }),
			work("FR", fleet.UnitQueued, func(u *fleet.Unit) { u.Job, u.Paused = "search", true }),
			work("IT", fleet.UnitIdle, func(*fleet.Unit) {}),
		},
		Pauses: []fleet.Pause{{Account: quota.DefaultAccount, Job: "search"}},
	}}
	src := r.Sources()
	src.Fleet = shown
	r.Must(r.server.Update(web.Sources{Sources: src}, r.Ledger.Book()))
	reads := func(path string, wants ...string) answer {
		t.Helper()
		a := r.ask("GET", path, "")
		if a.StatusCode != http.StatusOK || !strings.Contains(a.Header.Get("Content-Security-Policy"), "default-src 'none'") || strings.Contains(a.body, "<b>oslo") {
			t.Errorf("%s: %s, %v", path, a.Status, a.Header)
		}
		for _, want := range wants {
			if !strings.Contains(a.body, want) {
				t.Errorf("%s: there is no %q in\n%s", path, want, a.body)
			}
		}
		return a
	}
	a := reads("/fleet", "berlin-1", "1,234", "trending US", "silent for 1m0s", "the pool is shut</bdi>. Resumes at", `<a href="/fleet" aria-current="true">Fleet</a>`, "&lt;b&gt;oslo&lt;/b&gt;",
		"1 daemon. Units of work: 1 running, 1 queued, 1 deferred, 1 idle", "ingestor fleet resume search", "Daemons are silent: &lt;b&gt;oslo&lt;/b&gt; for 1m0s")
	if strings.Contains(a.body, ">IT<") || strings.Contains(a.body, "No daemon") {
		t.Errorf("too much is shown:\n%s", a.body)
	}
	reads("/fleet?all=yes", ">IT<")
	shown.is.Daemons = shown.is.Daemons[1:]
	reads("/fleet", "No daemon is alive")
	shown.is.Daemons[0].Silent = 0
	reads("/fleet", "No daemon leads", "differs from the database&#39;s by 4s")
	shown.err = &fleet.LockedError{Locks: []fleet.Lock{{Table: "headroom_fleet.river_job", PID: 4711, User: "anna"}}, Err: errors.New("gone")}
	reads("/fleet", "headroom_fleet.river_job has been locked", "in psql as anna: SELECT pg_terminate_backend(4711)")
	shown.err = errors.New("gone")
	if a := reads("/fleet", "cannot be read now"); strings.Contains(a.body, "berlin") {
		t.Error("an old status is shown")
	}
}
