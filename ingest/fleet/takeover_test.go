package fleet_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest/youtube/youtubetest"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
	"github.com/headroom-quota/headroom/internal/testing/childtest"
)

// The tests mostly wait: for the next beat of a daemon, or the next minute. So more of them run at
// once than there are processors, unless -parallel says how many.
func TestMain(m *testing.M) {
	childtest.AtOnce(6)
	childtest.Main(m, map[string]childtest.Task{"daemon": daemon, "programs": programs})
}

const manyPages = 30

// oneChart is a job with one long unit of work.
func oneChart() map[string]ingest.Job {
	return map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: []string{"US"}, Pages: manyPages}}
}

// quick are timings with which lost work is soon taken over. River would take an hour.
var quick = fleet.Options{CallTimeout: 2 * time.Second, Timing: fleet.Timing{Slice: 2 * time.Second, Rescue: time.Hour, Gone: 4 * time.Second, Mend: time.Second, Beat: 500 * time.Millisecond}}

// daemon is a daemon in a process of its own. Its path is the address of the upstream and the
// URL of the database.
func daemon(path string, begin func() bool, out io.Writer) error {
	address, url, _ := strings.Cut(path, " ")
	ctx := context.Background()
	r, c, clock, err := process(ctx, url, oneChart())
	if err != nil {
		return err
	}
	client, err := youtubetest.Client(r.ledger, address, slog.Default())
	if err != nil {
		return err
	}
	o := quick
	o.Log = slog.New(slog.DiscardHandler)
	if os.Getenv("VERBOSE") != "" {
		o.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	f, err := fleet.New(c, clock, ingest.NewRunner(r.config, r.ledger, c, client, nil, &ingest.Options{Clock: clock, Log: o.Log}), []*ingest.Job{r.job("charts")}, &o)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, f.ID())
	go func() { begin(); os.Exit(0) }() // the parent is gone
	return f.Run(ctx)
}

// TestTakeover takes work away from a process that was killed, and from one that was stopped
// and wakes up later. One that is stopped for a moment keeps its work.
func TestTakeover(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"killed", "stopped", "stopped briefly"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			wakes, briefly := how != "killed", how == "stopped briefly"
			quick := quick
			if briefly {
				quick.Timing.Gone = 0 // as in a fleet
			}
			r := newRig(t, 1000, oneChart())
			r.slow = func() { time.Sleep(200 * time.Millisecond) }
			r.sim.Inject(youtubesim.Fault{Do: youtubesim.Endless})
			c := r.catalog()
			job := r.job("charts")
			leader := r.fleet(c, quick)
			r.must(leader.Reload(t.Context(), r.runner(c, leader.Clock(), nil), []*ingest.Job{r.job("retention")}, func() error { return nil }))
			r.background(leader.Run)
			r.eventually("there is a leader", func() bool { is, err := leader.Leads(t.Context()); return is && err == nil })

			child := childtest.Run(t, "daemon", r.server.Listener.Addr().String()+" "+r.url)
			id := child.Line()
			r.must(leader.Insert(t.Context(), job, time.Now().Truncate(time.Microsecond)))
			pages := func() int {
				return r.number(c, "SELECT coalesce(sum(pages), 0) FROM headroom_catalog.run_work WHERE work = 'US'")
			}
			r.eventually("some pages are saved", func() bool { return pages() > 3 })
			// Others can take only what it holds. This process may be slow between its look and its
			// signal, so it looks again at one that has stopped.
			begun := func() bool {
				return r.number(c, fmt.Sprintf(`SELECT count(*) FROM headroom_fleet.works w JOIN headroom_fleet.river_job j ON j.id = w.river_job
					WHERE w.held_by = '%s' AND j.state = 'running' AND j.attempted_at > clock_timestamp() - interval '1 second'`, id)) == 1
			}
			r.eventually("it is stopped in the middle of a step", func() bool {
				if !begun() {
					return false
				}
				r.must(child.Process.Signal(syscall.SIGSTOP))
				if begun() {
					return true
				}
				r.must(child.Process.Signal(syscall.SIGCONT))
				return false
			})
			if !wakes {
				r.must(child.Process.Kill())
			}
			had := pages()
			r.must(leader.Reload(t.Context(), r.runner(c, leader.Clock(), nil), []*ingest.Job{job}, func() error { return nil }))
			if briefly {
				time.Sleep(5 * time.Second)
			} else {
				r.eventually("another daemon goes on", func() bool { return pages() > had+1 })
			}
			if wakes {
				r.must(child.Process.Signal(syscall.SIGCONT))
			}
			r.eventually("the run ends", func() bool {
				return r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE report->>'state' = 'done'") == 1
			})
			if n, m := pages(), r.number(c, "SELECT (tally->>'pages')::int FROM headroom_fleet.units"); n != manyPages || m != manyPages {
				t.Errorf("%d and %d pages were saved, want %d", n, m, manyPages)
			}
			wasted := int(r.sim.Counts().Total().Calls) - manyPages
			if most := map[bool]int{false: 1, true: 3}[wakes]; wasted < 0 || wasted > most {
				t.Errorf("%d calls were wasted, want %d at most", wasted, most)
			}
			board, err := fleet.NewBoard(c)
			r.must(err)
			all, err := board.Units(t.Context())
			r.must(err)
			taken := false
			for _, u := range all {
				taken = taken || !u.TakenAt.IsZero() && (u.TakenFrom == id || wakes) // one that wakes up may take it back
			}
			if taken == briefly {
				t.Errorf("taken: %v; nothing shows what was taken over from %s: %+v", taken, id, all)
			}
			if n := r.number(c, "SELECT count(*) FROM headroom_fleet.river_job WHERE state IN ('cancelled', 'discarded')"); n != 0 {
				t.Errorf("%d jobs were cancelled or discarded", n)
			}
		})
	}
}

// TestOnlyWorkOfGoneDaemonsIsTakenOver: after a lock, work goes on with whoever is first. It was taken over only
// if its daemon is gone.
func TestOnlyWorkOfGoneDaemonsIsTakenOver(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1000, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: []string{"US"}, Pages: 1}})
	c := r.catalog()
	quick := quick
	quick.Timing.Poll = 200 * time.Millisecond
	alive, one := r.fleet(c, quick), r.fleet(r.catalog(), quick)
	r.background(one.Run)
	r.must(alive.Reload(t.Context(), r.runner(c, alive.Clock(), nil), []*ingest.Job{r.job("retention")}, func() error { return nil }))
	r.background(alive.Run)
	passes := 0
	pass := func(holder string) (taken string) { // work of the holder becomes available
		r.must(one.Insert(t.Context(), r.job("charts"), time.Now().Add(time.Hour).Truncate(time.Microsecond))) // no daemon works on it yet
		_, err := c.Pool().Exec(t.Context(), "UPDATE headroom_fleet.works SET held_by = $1::text, held_since = clock_timestamp(), taken_from = ''", holder)
		r.must(err)
		_, err = c.Pool().Exec(t.Context(), "UPDATE headroom_fleet.river_job SET state = 'available', scheduled_at = clock_timestamp() WHERE state = 'scheduled'")
		r.must(err)
		passes++
		r.eventually("the work is done", func() bool {
			return r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE report->>'state' = 'done'") == passes
		})
		r.must(c.Pool().QueryRow(t.Context(), "SELECT taken_from FROM headroom_fleet.works").Scan(&taken))
		return taken
	}
	r.eventually("the work of a daemon that is gone is taken over", func() bool { return pass("gone-1-1") == "gone-1-1" }) // once it knows who is gone
	if taken := pass(alive.ID()); taken != "" {
		t.Errorf("work was taken over from %s, which is alive", taken)
	}
}
