//go:build linux

package chaos

import (
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
)

// TestStart takes the link to the database from a daemon that starts, at a statement behind
// which it had found the database in order. The daemon waits, says so, and works when the link
// is back.
func TestStart(t *testing.T) {
	for _, at := range []struct {
		name, statement string
		take            func(*link)
		brief           bool
	}{
		{"the tables", "river_migration", (*link).cut, false},
		{"the clock", "SELECT clock_timestamp()", (*link).cut, true},
		{"the clock, in silence", "SELECT clock_timestamp()", (*link).mute, false},
	} {
		t.Run(at.name, func(t *testing.T) {
			if !at.brief {
				onlyInSoak(t)
			}
			t.Parallel()
			r := newFleet(t, 1, 1, time.Millisecond, charts("0"))
			d := r.daemons[0]
			var once sync.Once
			watch := func(sql string) {
				if strings.Contains(sql, at.statement) {
					once.Do(func() { at.take(d.sql) })
				}
			}
			d.sql.watch.Store(&watch)
			r.startAll()
			r.until("the daemon says what it waits for", 3*time.Minute, func() bool {
				return len(d.said("the database does not answer; trying again")) > 0 || len(d.early()) > 0
			})
			d.sql.heal()
			r.joined()
			d.end(syscall.SIGTERM)
			for _, line := range d.early() {
				t.Error(line)
			}
		})
	}
}

// early returns how the process ended by itself.
func (d *process) early() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.surplus
}

// TestRestarts restarts daemons and the database, and cuts links, while ticks come.
func TestRestarts(t *testing.T) {
	onlyInSoak(t)
	t.Parallel()
	jobs := map[string]ingest.Job{}
	for _, region := range ingest.DefaultRegions {
		jobs[strings.ToLower(region)] = ingest.Job{Kind: ingest.Trending, Cron: "* * * * *", Regions: []string{region}, Categories: []string{"0", "10"}, Pages: 4}
	}
	r := newFleet(t, 4, 3, 200*time.Millisecond, jobs)
	r.startAll()
	r.joined()
	c := &chaos{rig: r}
	var all []fault
	add := func(what string, n int, lasts time.Duration) {
		for i := range n {
			all = append(all, fault{what: what, to: i % 4, lasts: lasts})
		}
	}
	add("rolling restart", times(2, 10), 0)
	add("restart of PostgreSQL, fast", times(1, 3), time.Second)
	add("restart of PostgreSQL, immediate", times(1, 2), time.Second)
	add("cut link to PostgreSQL", times(1, 5), 5*time.Second)
	for i := range all {
		all[i].after = time.Duration(i) * 6 * time.Second
	}
	began := time.Now()
	last := c.inject(all)
	r.ticks(began, last) // waits until all are there
	f := r.settle()
	due := r.ticks(began, last)
	t.Logf("rolling restart x%d, database restart x%d, link cut x%d: %d ticks, %d lost, %d run twice, ended as %v; %d pages, %d double, %d lost; slowest end after SIGTERM %s",
		times(2, 10), times(2, 5), times(1, 5), due.due, len(due.lost), len(f.twice), due.by, f.pages, len(f.doubled), len(f.lost), slices.Max(append(c.exits, 0)).Round(time.Millisecond))
	for _, line := range due.lost {
		t.Error(line)
	}
	if due.by["open"] > 0 || due.by["done"]+due.by["skipped"] == 0 {
		t.Error("none of them was done")
	}
}

// TestAFullDiskIsWaitedFor starts a daemon whose disk is full. The daemon waits, says so, and works when there is room:
// one that ended would come back only when somebody starts it again, with the pauses of systemd or Kubernetes.
func TestAFullDiskIsWaitedFor(t *testing.T) {
	t.Parallel()
	full, err := newDisk(t, 2048)
	if err != nil {
		t.Skipf("no disk can be full here: %v", err)
	}
	p := plenty
	p.daemons, p.workers, p.call, p.wait, p.jobs, p.held, p.disk = 1, 1, 3*time.Second, 5*time.Second, charts("0"), true, full
	p.delay = func() time.Duration { return time.Millisecond }
	r := newRig(t, &p)
	r.prepare(p.jobs)
	r.must(full.fill())
	d := r.daemons[0]
	r.startAll()
	r.until("the daemon says what it waits for", 3*time.Minute, func() bool {
		return len(d.said("a file cannot be used now; trying again")) > 0 || len(d.early()) > 0
	})
	r.must(full.empty())
	r.joined()
	d.end(syscall.SIGTERM)
	for _, line := range d.early() {
		t.Error(line)
	}
}
