//go:build linux

package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
)

// The tests of this file print the figures that a fleet promises, one line each, and fail if
// it breaks a promise. HEADROOM_SOAK=1 repeats them as often as the promise says.

// times returns how often to repeat something.
func times(few, full int) int {
	if soak() {
		return full
	}
	return few
}

// prepare makes the tables before any daemon starts, and lets the jobs be due as soon as one
// does: they ran last two minutes ago.
func (r *rig) prepare(jobs map[string]ingest.Job) {
	r.t.Helper()
	c, err := pgcatalog.Open(context.Background(), r.database.URL("postgres"), nil)
	r.must(err)
	defer func() { r.must(c.Close()) }()
	r.must(fleet.Migrate(context.Background(), c))
	r.audit()
	for name := range jobs {
		r.exec(`INSERT INTO headroom_catalog.runs (job, scheduled_at, started_at, ended_at, state, resume_at, error) SELECT $1::text, t, t, t, 'done', 0, ''
			FROM (SELECT (extract(epoch FROM date_trunc('minute', clock_timestamp() - interval '2 minutes')) * 1000000)::bigint AS t) AS past`, name)
	}
}

// newFleet returns a rig that refuses nothing, with work due as soon as it starts.
func newFleet(t *testing.T, daemons, workers int, delay time.Duration, jobs map[string]ingest.Job) *rig {
	t.Helper()
	p := plenty
	p.daemons, p.workers, p.call, p.wait, p.jobs, p.held = daemons, workers, 3*time.Second, 5*time.Second, jobs, true
	p.delay = func() time.Duration { return delay }
	r := newRig(t, &p)
	r.prepare(jobs)
	return r
}

func (r *rig) startAll() {
	for _, d := range r.daemons {
		d.start()
	}
}

// charts is a job with a unit of work for each region and category.
func charts(categories ...string) map[string]ingest.Job {
	return map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "* * * * *", Regions: ingest.DefaultRegions, Categories: categories, Pages: 4}}
}

// running returns how many of River's jobs a process holds.
func (r *rig) running(pid int) int {
	return r.number("SELECT count(*) FROM headroom_fleet.river_job WHERE state = 'running' AND attempted_by[array_length(attempted_by, 1)] LIKE $1::text", fmt.Sprintf("%%-%d-%%", pid))
}

// leader returns River's leader, or nil.
func (r *rig) leader() *process {
	rows, err := r.try("SELECT leader_id FROM headroom_fleet.river_leader WHERE expires_at > clock_timestamp()")
	if err != nil || len(rows) == 0 {
		return nil
	}
	for _, d := range r.daemons {
		if strings.Contains(rows[0][0], fmt.Sprintf("-%d-", d.pid())) {
			return d
		}
	}
	return nil
}

// settle waits until all runs have ended, and checks what must hold always.
func (r *rig) settle() facts {
	r.t.Helper()
	r.until("all runs end", 3*time.Minute, func() bool {
		rows, err := r.try("SELECT count(*) FROM headroom_fleet.runs WHERE ended_at IS NULL")
		return err == nil && rows[0][0] == "0"
	})
	f := r.facts(0)
	for _, line := range slices.Concat(f.twice, f.lost, f.doubled) {
		r.t.Error(line)
	}
	if f.broken > 0 {
		r.t.Errorf("%d of River's jobs were cancelled or discarded", f.broken)
	}
	return f
}

// TestLeaderKilled kills River's leader just before ticks.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	jobs := map[string]ingest.Job{}
	for i := range 8 {
		jobs[fmt.Sprintf("job%d", i)] = ingest.Job{Kind: ingest.Trending, Cron: "* * * * *", Regions: []string{"US"}, Categories: []string{fmt.Sprint(10 + i)}, Pages: 1}
	}
	r := newFleet(t, 4, 2, 10*time.Millisecond, jobs)
	r.startAll()
	r.joined()
	kills, want := times(1, 20), 0
	var first time.Time
	for range kills {
		r.until("there is a leader", time.Minute, func() bool { return r.leader() != nil })
		tick := time.Now().Truncate(time.Minute).Add(time.Minute)
		if time.Until(tick) < time.Second {
			tick = tick.Add(time.Minute)
		}
		if first.IsZero() {
			first = tick
		}
		time.Sleep(time.Until(tick.Add(-200 * time.Millisecond)))
		d := r.leader()
		if d == nil {
			t.Error("there is no leader before the tick")
			continue
		}
		d.kill()
		time.Sleep(time.Until(tick.Add(3 * time.Second)))
		d.start()
		want += len(jobs)
	}
	runs := func() [][]string {
		return r.rows("SELECT (extract(epoch FROM created_at - scheduled_at) * 1000000)::bigint FROM headroom_fleet.runs WHERE scheduled_at >= $1::timestamptz", first)
	}
	r.until("all ticks have a run", 3*time.Minute, func() bool { return len(runs()) >= want })
	var late []time.Duration
	for _, row := range runs() {
		var n int64
		_, _ = fmt.Sscan(row[0], &n)
		late = append(late, time.Duration(n)*time.Microsecond)
	}
	f := r.settle()
	t.Logf("%d kills of the leader before a tick: %d ticks, %d run twice, inserted after %s (median), %s (p99)",
		kills, want, len(f.twice), quantile(late, 0.5).Round(time.Millisecond), quantile(late, 0.99).Round(time.Millisecond))
	if quantile(late, 0.99) > busy(time.Second) {
		t.Error("ticks were late")
	}
}

// TestTakeover kills a daemon in the middle of its work.
func TestTakeover(t *testing.T) {
	onlyInSoak(t)
	t.Parallel()
	const workers = 4
	r := newFleet(t, 3, workers, 400*time.Millisecond, charts("0", "10"))
	r.startAll()
	r.joined()
	var took []time.Duration
	kills, units := times(1, 10), 0
	for n := range kills {
		d := r.daemons[n%3]
		r.until("the daemon works", 2*time.Minute, func() bool { return r.running(d.pid()) >= workers-1 })
		pid := d.pid()
		d.kill()
		held := r.running(pid)
		units += held
		took = append(took, r.until("its work is taken over", brief.Rescue+60*time.Second, func() bool { return r.running(pid) == 0 }))
		d.start()
	}
	for _, d := range r.daemons {
		d.end(syscall.SIGTERM) // a call that is open at the end is not wasted
	}
	f := r.facts(0)
	wasted := r.upstream.total() - f.pages
	t.Logf("%d times kill -9, with %d units of work running: taken over after %s (median), %s (worst); rescue is %s; %d calls wasted; %d pages double, %d lost",
		kills, units, quantile(took, 0.5).Round(100*time.Millisecond), slices.Max(took).Round(100*time.Millisecond), brief.Rescue, wasted, len(f.doubled), len(f.lost))
	for _, line := range slices.Concat(f.lost, f.doubled) {
		t.Error(line)
	}
	if slices.Max(took) > brief.Rescue+40*time.Second || wasted > units {
		t.Error("the takeover was late, or wasted more than a call per unit of work")
	}
}

// place is where a process is stopped.
type place struct {
	name string
	// catch calls stop when the daemon has so many units of work at the place.
	catch func(r *rig, d *process, many int, stop func())
}

// inStatement stops at a statement of a transaction, which the server still gets.
func inStatement(part string) func(*rig, *process, int, func()) {
	return func(_ *rig, d *process, many int, stop func()) {
		var mu sync.Mutex
		caught, gone := 0, make(chan struct{})
		watch := func(sql string) {
			if !strings.Contains(sql, part) {
				return
			}
			mu.Lock()
			caught++
			if caught == many {
				stop()
				close(gone)
			}
			mu.Unlock()
			select {
			case <-gone:
			case <-time.After(2 * time.Second): // it does not have so many
			}
		}
		d.sql.watch.Store(&watch)
	}
}

// videosLock is in the first of the two round trips of a page, behind the fence.
const videosLock = "SELECT video_id, brief, digest FROM headroom_catalog.videos"

var places = []place{
	{"in a call", func(r *rig, d *process, many int, stop func()) {
		r.upstream.mu.Lock()
		defer r.upstream.mu.Unlock()
		r.upstream.called = func(n, open int) {
			if n == d.n && open == many {
				stop()
			}
		}
	}},
	{"in a transaction", inStatement(videosLock)},
	{"before the first page", inStatement("work_hold notes")},
}

// TestStopped stops a daemon at the worst places, until others have its work, and lets it go on.
func TestStopped(t *testing.T) {
	onlyInSoak(t)
	for _, at := range places {
		t.Run(at.name, func(t *testing.T) {
			t.Parallel()
			const many = 5
			r := newFleet(t, 3, many, 200*time.Millisecond, charts("0", "10", "20"))
			r.startAll()
			stops, caught := times(5, 50), 0
			var took []time.Duration
			for n := 0; caught < stops; n++ {
				d := r.daemons[n%3]
				stopped := make(chan struct{})
				var once sync.Once
				at.catch(r, d, many, func() {
					once.Do(func() {
						d.signal(syscall.SIGSTOP)
						close(stopped)
					})
				})
				select {
				case <-stopped:
				case <-time.After(3 * time.Minute):
					t.Fatal("no daemon came there")
				}
				d.sql.watch.Store(nil)
				r.upstream.mu.Lock()
				r.upstream.called = nil
				r.upstream.mu.Unlock()
				pid := d.pid()
				held := r.running(pid)
				caught += min(held, many)
				took = append(took, r.until("its work is taken over", brief.Rescue+60*time.Second, func() bool { return r.running(pid) == 0 }))
				d.signal(syscall.SIGCONT)
			}
			f := r.settle()
			for _, d := range r.daemons {
				d.end(syscall.SIGTERM)
			}
			wasted := r.upstream.total() - r.facts(0).pages
			t.Logf("SIGSTOP %s: %d units of work caught, taken over after %s (worst); %d pages double, %d lost, %d jobs cancelled, %d calls wasted",
				at.name, caught, slices.Max(took).Round(100*time.Millisecond), len(f.doubled), len(f.lost), f.broken, wasted)
			if wasted > 3*caught {
				t.Errorf("%d calls were wasted for %d stops", wasted, caught)
			}
		})
	}
}

// TestRowLock stops a daemon that has a row locked, while another one is killed.
func TestRowLock(t *testing.T) {
	onlyInSoak(t)
	t.Parallel()
	const workers = 3
	r := newFleet(t, 3, workers, 500*time.Millisecond, charts("0", "10"))
	r.startAll()
	r.joined()
	locker, victim := r.daemons[0], r.daemons[1]
	r.until("both work", 2*time.Minute, func() bool { return r.running(locker.pid()) >= 1 && r.running(victim.pid()) >= workers-1 })
	locked := make(chan struct{})
	places[1].catch(r, locker, 1, func() { locker.signal(syscall.SIGSTOP); close(locked) })
	<-locked
	began := time.Now()
	locker.sql.watch.Store(nil)
	pid := victim.pid()
	victim.kill()
	took := r.until("the other work is taken over", brief.Rescue+90*time.Second, func() bool { return r.running(pid) == 0 })
	victim.start()
	time.Sleep(time.Until(began.Add(time.Minute)))
	locker.signal(syscall.SIGCONT)
	r.settle()
	t.Logf("a row lock of a process that is stopped for 60s: other work was taken over after %s; rescue is %s + 30s at most", took.Round(100*time.Millisecond), brief.Rescue)
	if took > brief.Rescue+30*time.Second+10*time.Second+15*time.Second {
		t.Error("the lock delayed it by more than 15s")
	}
}

// TestSIGTERM ends daemons whose calls and servers hang.
func TestSIGTERM(t *testing.T) {
	t.Parallel()
	const grace = 8 * time.Second // of a timeout of 3s for a call
	for _, tt := range []struct {
		name  string
		delay time.Duration
		hang  func(*process)
	}{
		{"with open calls", 500 * time.Millisecond, func(*process) {}},
		{"with calls that hang", time.Hour, func(*process) {}},
		{"with a database that hangs", 500 * time.Millisecond, func(d *process) { d.sql.mute() }},
		{"with a ledger that hangs", 500 * time.Millisecond, func(d *process) { d.ledger.mute() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newFleet(t, 1, 4, min(tt.delay, 20*time.Second), charts("0", "10"))
			r.startAll()
			d := r.daemons[0]
			r.until("the daemon works", time.Minute, func() bool { return r.running(d.pid()) >= 3 })
			time.Sleep(300 * time.Millisecond)
			tt.hang(d)
			took := d.end(syscall.SIGTERM)
			d.sql.heal()
			d.ledger.heal()
			t.Logf("SIGTERM %s: ended after %s; grace is %s", tt.name, took.Round(100*time.Millisecond), grace)
			if took > busy(grace+2*time.Second) {
				t.Error("that is too long after the grace")
			}
		})
	}
}

// TestSnooze measures how late work goes on that waited for units.
func TestSnooze(t *testing.T) {
	t.Parallel()
	p := plan{
		daemons: 3, workers: 8, call: 3 * time.Second, wait: 30 * time.Second, jobs: charts("0"), held: true,
		costs:  `{units: {quota: 12, headroom: 2, windows: [{per: 10s}]}}`,
		limits: map[string]limits{"units": {10 * time.Second: 12}},
		delay:  func() time.Duration { return 20 * time.Millisecond },
	}
	r := newRig(t, &p)
	r.prepare(p.jobs)
	r.exec(`CREATE TABLE audit.wakes (at timestamptz DEFAULT clock_timestamp(), late double precision)`)
	r.exec(`CREATE FUNCTION audit.woke() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF NEW.state = 'running' AND OLD.state <> 'running' AND OLD.attempted_at IS NOT NULL AND OLD.scheduled_at > OLD.attempted_at THEN
			INSERT INTO audit.wakes (late) VALUES (extract(epoch FROM clock_timestamp() - OLD.scheduled_at));
		END IF;
		RETURN NULL;
	END $$`)
	r.exec(`CREATE TRIGGER woke AFTER UPDATE ON headroom_fleet.river_job FOR EACH ROW EXECUTE FUNCTION audit.woke()`)
	r.startAll()
	r.joined()
	quiet := time.Now().Add(time.Duration(times(30, 120)) * time.Second)
	time.Sleep(time.Until(quiet))
	killed := 0
	for range times(1, 5) {
		if d := r.leader(); d != nil {
			d.kill()
			killed++
			time.Sleep(30 * time.Second)
			d.start()
		}
	}
	lateness := func(where string) (n int, worst time.Duration) {
		row := r.rows("SELECT count(*), coalesce(max(late) * 1000, 0)::bigint FROM audit.wakes WHERE "+where, quiet)[0]
		var ms int64
		_, _ = fmt.Sscan(row[0], &n)
		_, _ = fmt.Sscan(row[1], &ms)
		return n, time.Duration(ms) * time.Millisecond
	}
	r.until("work goes on that waited", 3*time.Minute, func() bool { n, _ := lateness("$1::timestamptz IS NOT NULL"); return n > 0 })
	n, worst := lateness("at < $1::timestamptz")
	after, afterWorst := lateness("at >= $1::timestamptz")
	t.Logf("%d snoozes were late by %s at most; %d across %d deaths of the leader by %s at most; %d refusals by the upstream", n, worst, after, killed, afterWorst, len(r.upstream.refused))
	if worst > busy(6*time.Second) || afterWorst > busy(25*time.Second) {
		t.Error("they were too late")
	}
	if len(r.upstream.refused) > 0 {
		t.Error("the upstream refused calls")
	}
}
