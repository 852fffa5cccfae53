//go:build linux

package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
)

// TestChaos injects faults into a fleet of four daemons, by the seed's schedule, while jobs
// are due every minute and want more than there is. It prints the faults, and what came of
// them. It checks that
//
//   - each tick has its run, none runs twice, and no page is lost or saved twice;
//   - the upstream, which enforces its own limits, refuses nothing;
//   - all work goes on after the last fault.
func TestChaos(t *testing.T) {
	t.Parallel()
	suffer(t, *where, false)
}

// TestChaosThroughPgBouncer is TestChaos with PgBouncer in transaction mode between the daemons
// and PostgreSQL.
func TestChaosThroughPgBouncer(t *testing.T) {
	onlyInSoak(t)
	t.Parallel()
	suffer(t, *where, true)
}

// suffer injects the faults, with the ledger there.
func suffer(t *testing.T, ledger string, bouncer bool) {
	names := kindsFor(ledger)
	all := schedule(*seed, names, 4, *faults, min(7*time.Second, *faults/time.Duration(len(names))))
	t.Logf("again: go test ./cmd/ingestor/internal/testing/chaos -run '%s$' -v -seed %d -faults %s -ledger %s", t.Name(), *seed, *faults, ledger)
	c := &chaos{}
	var err error
	if c.disk, err = newDisk(t, 2048); err != nil {
		t.Logf("no disk can be full here: %v", err)
	}
	charts := func(category string) ingest.Job {
		return ingest.Job{
			Kind: ingest.Trending, Cron: "* * * * *", Regions: ingest.DefaultRegions, Categories: []string{category},
			Pages: 4, Stagger: 6 * time.Second, Jitter: 2 * time.Second,
		}
	}
	// An upstream counts what a process sends that was stopped between its reservation and its
	// call. With windows as short as these, that is what the headroom is for: 4 jobs have 2
	// workers each in a daemon.
	real := map[string]limits{
		"units":    {10 * time.Second: 40, time.Minute: 110},
		"searches": {10 * time.Second: 12, time.Minute: 30},
	}
	random := rand.New(rand.NewPCG(*seed, 15))
	delays := make([]time.Duration, 1024)
	for i := range delays {
		delays[i] = 500*time.Millisecond + time.Duration(random.Int64N(int64(2500*time.Millisecond)))
	}
	next := make(chan time.Duration)
	go func() {
		for i := 0; ; i++ {
			next <- delays[i%len(delays)]
		}
	}()
	c.rig = newRig(t, &plan{
		daemons: 4, workers: 2, call: 5 * time.Second, wait: 5 * time.Second, limits: real,
		costs: `{units: {quota: 110, headroom: 24, windows: [{per: 1m}, {per: 10s, quota: 40, headroom: 16}]},
			searches: {quota: 30, headroom: 8, windows: [{per: 1m}, {per: 10s, quota: 12, headroom: 6}]}}`,
		jobs: map[string]ingest.Job{
			"all": charts("0"), "music": charts("10"), "games": charts("20"),
			"search": {Kind: ingest.Search, Cron: "* * * * *", Regions: []string{"US", "DE"}, Queries: []string{"news", "jazz"}, Pages: 2, Stagger: 15 * time.Second},
		},
		delay:  func() time.Duration { return <-next },
		ledger: ledger, bouncer: bouncer,
		disk: c.disk,
	})
	c.joined()
	c.rig.audit()
	began := time.Now()
	last := c.inject(all)
	works := 8*3 + 4
	fresh := func() int {
		return len(c.rows("SELECT job, work FROM headroom_catalog.cursors WHERE completed_at > $1::bigint", last.UnixMicro()))
	}
	patience := 4 * time.Minute
	for end := time.Now().Add(patience); fresh() < works && time.Now().Before(end); time.Sleep(time.Second) {
	}
	quiet := time.Now()

	c.print(began, last, quiet, works)
}

// print prints what happened, and fails the test for what must not happen.
func (c *chaos) print(began, last, quiet time.Time, works int) {
	t := c.t
	t.Helper()
	counts := map[string]bool{}
	for _, row := range c.printed {
		counts[row[2]] = true
	}
	for i := range c.printed {
		c.printed[i] = slices.Delete(c.printed[i], 2, 3)
	}
	t.Logf("faults\n%s", table(c.printed))
	stale := c.rows(`SELECT c.job, c.work, w.region, c.completed_at - $1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - c.completed_at
		FROM headroom_catalog.cursors c LEFT JOIN headroom_fleet.works w ON w.job = c.job AND w.work = c.work WHERE c.job <> 'retention' ORDER BY 1, 2`, last.UnixMicro())
	due := c.ticks(began, quiet)
	f := c.facts(150)
	calls := c.upstream.total()
	rows := [][]string{
		{"faults", fmt.Sprintf("%d in %s, of %d kinds", len(c.printed), last.Sub(began).Round(time.Second), len(counts))},
		{"ticks", fmt.Sprintf("%d; %v", due.due, due.by)},
		{"ticks lost", strconv.Itoa(len(due.lost))},
		{"ticks run twice", strconv.Itoa(len(f.twice))},
		{"pages saved", fmt.Sprintf("%d in %d passes; %d passes were begun again", f.pages, f.passes, f.restarts)},
		{"pages lost", strconv.Itoa(len(f.lost))},
		{"pages double", strconv.Itoa(len(f.doubled))},
		{"calls of the upstream", fmt.Sprintf("%d; %d of them brought no page", calls, calls-f.pages)},
		{"refusals by the upstream", strconv.Itoa(len(c.upstream.refused))},
	}
	for _, pool := range []string{"units", "searches"} {
		for _, per := range []time.Duration{10 * time.Second, time.Minute} {
			rows = append(rows, []string{"worst trailing " + per.String() + " of " + pool, fmt.Sprintf("%d of %d", c.upstream.worst[pool][per], c.upstream.limits[pool][per])})
		}
	}
	var surplus []string
	for _, d := range c.daemons {
		surplus = append(surplus, d.surplus...)
	}
	rows = append(rows,
		[]string{"River's jobs cancelled or discarded", strconv.Itoa(f.broken)},
		[]string{"work taken over", fmt.Sprintf("%d units of work at least once", f.rescued)},
		[]string{"daemons that ended by themselves", strconv.Itoa(len(surplus))},
		[]string{"slowest end after SIGTERM", fmt.Sprint(slices.Max(append(c.exits, 0)).Round(time.Millisecond))},
	)
	t.Logf("what came of them\n%s", table(rows))
	ages := [][]string{{"job", "work", "completed after the last fault", "age now"}}
	late := 0
	for _, row := range stale {
		after, _ := strconv.ParseInt(row[3], 10, 64)
		age, _ := strconv.ParseInt(row[4], 10, 64)
		text := "never"
		if after > 0 {
			text = "yes"
		} else {
			late++
		}
		ages = append(ages, []string{row[0], row[1], text, (time.Duration(age) * time.Microsecond).Round(100 * time.Millisecond).String()})
	}
	t.Logf("how stale each region was, %s after the last fault\n%s", quiet.Sub(last).Round(100*time.Millisecond), table(ages))
	for _, line := range slices.Concat(due.lost, f.twice, f.lost, f.doubled, surplus) {
		t.Error(line)
	}
	if len(stale) != works || late > 0 {
		t.Errorf("%d of %d units of work were not completed after the last fault", late+works-len(stale), works)
	}
	if f.broken > 0 {
		t.Errorf("%d of River's jobs were cancelled or discarded", f.broken)
	}
	// Two who run the same tick at once pay for each page twice. A fault may cost each worker of
	// a daemon its call.
	if wasted := calls - f.pages; wasted > len(c.printed)*2*len(c.jobs) {
		t.Errorf("%d calls of the upstream brought no page", wasted)
	}
	for _, at := range c.upstream.refused {
		t.Errorf("the upstream refused a call at %s", c.at(at))
	}
}
