package verdict

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubetest"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// state returns the facts of a ledger and two jobs, of which one may need no call.
func state(t *testing.T) *State {
	t.Helper()
	now := time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)
	clock := quota.NewSimClock(now)
	ledger, err := youtubetest.Ledger(memstore.New(&memstore.Options{Clock: clock}), 2, 100, clock)
	if err != nil {
		t.Fatal(err)
	}
	config := &ingest.Config{Jobs: map[string]ingest.Job{
		"trending":  {Kind: ingest.Trending, Cron: "15 * * * *", Regions: []string{"US"}, Pages: 1},
		"retention": {Kind: ingest.Retention, Cron: "45 20 * * *"},
	}}
	for _, fault := range config.Prepare() {
		t.Fatal(fault)
	}
	s := &State{Now: now, Book: ledger.Book()}
	for _, j := range config.List() {
		s.Jobs = append(s.Jobs, s.newJob(j))
	}
	if s.Pools, err = ledger.View().Usage(t.Context(), "", ""); err != nil {
		t.Fatal(err)
	}
	return s
}

func outlooks(s *State) string {
	var all []string
	for _, j := range s.Jobs {
		o := s.Outlook(j)
		all = append(all, j.Name+": "+o.Says.String()+" "+o.At.Format("15:04"))
	}
	return strings.Join(all, "; ")
}

// TestACatalogThatCannotBeWrittenStopsAllRuns: the ledger may admit calls in its outage, but no run begins.
func TestACatalogThatCannotBeWrittenStopsAllRuns(t *testing.T) {
	full := errors.New("the disk is full")
	for name, c := range map[string]struct {
		of   func(*State)
		says string
	}{
		"both":                           {func(s *State) { s.Stuck, s.Unkept = full, full }, "The ledger can be read, but not written"},
		"and the ledger does not answer": {func(s *State) { s.Outage, s.Unkept = full, full }, "The catalog can be read, but not written"},
		"and it cannot be read":          {func(s *State) { s.Outage, s.Unread = full, full }, "The catalog cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			s := state(t)
			c.of(s)
			v := s.Verdict()
			if v.Level != bad || v.Word != "Stopped" || !strings.Contains(v.Said().String(), c.says) || strings.Contains(v.Said().String(), "admitted") {
				t.Errorf("%s: %s", v.Level, v.Said())
			}
			if all := outlooks(s); strings.Count(all, "does no work then") != len(s.Jobs) {
				t.Error(all)
			}
		})
	}
}

// TestAFullDiskAdmitsNoCall: the journal of a ledger's file is on the same disk.
func TestAFullDiskAdmitsNoCall(t *testing.T) {
	s := state(t)
	s.Stuck = errors.Join(quota.ErrOutage, syscall.ENOSPC)
	if v := s.Verdict(); v.Level != bad || !strings.Contains(v.Said().String(), "the calls of trending (videos.list) are refused") {
		t.Errorf("%s: %s", v.Level, v.Said())
	}
	s.Stuck = quota.ErrOutage // of a server: this machine has a journal
	if v := s.Verdict(); v.Level != warn || !strings.Contains(v.Said().String(), "are admitted within a small allowance, and charged afterwards") {
		t.Errorf("%s: %s", v.Level, v.Said())
	}
}

// TestALedgerThatWasTakenAwaySaysWhatToDo: to count what was lost does not help a program that has the old file.
func TestALedgerThatWasTakenAwaySaysWhatToDo(t *testing.T) {
	s := state(t)
	s.Outage = &quota.OutageError{Op: "look", Err: &sqlitefile.MovedError{Path: "ledger.db", How: "was deleted"}}
	s.Stuck = s.Outage
	text := s.Verdict().Said().String()
	for _, want := range []string{"The ledger's file was deleted while it was in use", "Stop all processes that use it, and start them again", "ingestor check names their units afterwards"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in %q", want, text)
		}
	}
}

// TestALossNamesThePoolsOfTheJob: usage that is put back in another pool would not let the job run.
func TestALossNamesThePoolsOfTheJob(t *testing.T) {
	s := state(t)
	s.Typed = " --config it.yaml"
	s.Jobs[slices.IndexFunc(s.Jobs, func(j *Job) bool { return j.Name == "trending" })].Share["youtube/searches"] = 1
	for _, name := range []string{"batch_stats", "searches", "units"} {
		pool := quota.Pool{Upstream: "youtube", Account: quota.DefaultAccount, Name: name}
		s.Lost = append(s.Lost, &quota.ForgottenError{Pool: pool, Born: s.Now.Add(-time.Hour)})
		s.Pool(pool.String()).Now = time.Time{}
	}
	s.Outage = s.Lost[0]
	v := s.Verdict()
	text := v.Said().String()
	for _, want := range []string{
		"what was spent of youtube/searches since 19:00 UTC and of youtube/units since 19:00 UTC",
		"then run: ingestor quota adjust youtube/searches UNITS --reason TEXT --config it.yaml; and: ingestor quota adjust youtube/units UNITS --reason TEXT --config it.yaml",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in %q", want, text)
		}
	}
	if strings.Contains(text, "batch_stats") || len(v.Notes) > 0 || strings.Count(text, "--config") != 2 {
		t.Errorf("%s; %v", text, v.Notes)
	}
}

// TestAJobWithoutCallsRunsWhileItsPoolIsBlocked: the page says so, as the verdict does.
func TestAJobWithoutCallsRunsWhileItsPoolIsBlocked(t *testing.T) {
	s := state(t)
	for i := range s.Pools {
		s.Pools[i].Blocked, s.Pools[i].BlockedBy = s.Now.Add(2*time.Hour), quota.BlockedByPerson
	}
	if all := outlooks(s); !strings.Contains(all, "retention: yes, without a call 20:45") || !strings.Contains(all, "trending: waits for the end of a block 22:00") {
		t.Error(all)
	}
}

// TestACommandThatOnlyReadsSaysThatTheDiskIsFull: it reads a copy, and so cannot try to write. That it lacks a right, or
// a disk for writing, says nothing of a daemon that is alive.
func TestACommandThatOnlyReadsSaysThatTheDiskIsFull(t *testing.T) {
	denied, never := fs.ErrPermission, time.Duration(-1)
	for name, c := range map[string]struct {
		silent time.Duration // since the last beat
		timed  time.Duration // since a timer made a run; 0: none did
		fault  error
		word   string
	}{
		"read-only, and a timer makes runs":   {never, 10 * time.Minute, syscall.EROFS, "Available"},
		"read-only, and the timer is silent":  {never, 3 * time.Hour, syscall.EROFS, "Stopped"},
		"full":                                {0, 0, syscall.ENOSPC, "Stopped"},
		"denied, and a daemon is alive":       {10 * time.Second, 0, denied, "Available"},
		"denied, and the daemon is silent":    {time.Minute, 0, denied, "Stopped"},
		"denied, and there is no daemon":      {never, 0, denied, "Not started"},
		"read-only, and a daemon is alive":    {10 * time.Second, 0, syscall.EROFS, "Available"}, // it may have mounted the disk for writing
		"read-only, and the daemon is silent": {time.Minute, 0, syscall.EROFS, "Stopped"},
		"read-only, and there is no daemon":   {never, 0, syscall.EROFS, "Stopped"},
		"no room for a copy, and a daemon":    {10 * time.Second, 0, sqlitefile.ErrNoRoom, "Available"}, // it is older than this program
		"no room for a copy, and no daemon":   {never, 0, sqlitefile.ErrNoRoom, "Stopped"},
		"nothing":                             {0, 0, nil, "Available"},
	} {
		t.Run(name, func(t *testing.T) {
			s := state(t)
			if c.silent != never {
				s.Daemons = []Beat{{Host: "a", At: s.Now.Add(-c.silent)}}
			}
			for _, j := range s.Jobs {
				if c.timed > 0 {
					j.Timed = s.Now.Add(-c.timed)
				}
			}
			s.Believe(c.fault, c.fault)
			v := s.Verdict()
			if v.Word != c.word {
				t.Error(v.Said())
			}
			if errors.Is(c.fault, syscall.EROFS) && v.Word == "Stopped" && !strings.Contains(v.Said().String(), "Its disk is mounted for reading only") {
				t.Error(v.Said())
			}
		})
	}
}

// TestARunThatBeginsDoesNotHideThatTheLastOneFailed: each minute a run begins, and fails like the one before.
func TestARunThatBeginsDoesNotHideThatTheLastOneFailed(t *testing.T) {
	clock := quota.NewSimClock(time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC))
	ledger, err := youtubetest.Ledger(memstore.New(&memstore.Options{Clock: clock}), 2, 100, clock)
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Open(t.Context(), filepath.Join(t.TempDir(), "catalog.db"), &catalog.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	config := &ingest.Config{Jobs: map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "* * * * *", Regions: []string{"US"}, Pages: 1}}}
	for _, fault := range config.Prepare() {
		t.Fatal(fault)
	}
	src := view.Sources{Ledger: ledger, Catalog: c, Jobs: config.List(), Runner: ingest.NewRunner(config, ledger, c, nil, nil, &ingest.Options{Clock: clock})}
	begin := func() catalog.Run {
		fence, err := c.NewFence(t.Context(), "default/charts")
		if err != nil {
			t.Fatal(err)
		}
		run, err := c.Begin(t.Context(), catalog.Start{Job: "charts", Fence: fence, Scheduled: clock.Now()})
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	says := func(level view.Level, fails bool) {
		t.Helper()
		v := NewReader(&Options{Clock: clock}).Read(t.Context(), &src).Verdict()
		if failing := strings.Contains(v.Word, "failing"); failing != fails {
			t.Errorf("its word is %q", v.Word)
		}
		if text := strings.Join(told(v), " "); v.Level != level || strings.Contains(text, "failed. To see why: ingestor runs") != fails {
			t.Errorf("%s: %s", v.Level, text)
		}
	}
	run := begin()
	says(good, false)
	if err := run.End(t.Context(), catalog.Outcome{State: catalog.Failed, Error: "503"}); err != nil {
		t.Fatal(err)
	}
	says(warn, true)
	clock.Advance(time.Minute)
	run = begin()
	says(warn, true)
	if err := run.End(t.Context(), catalog.Outcome{State: catalog.Done}); err != nil {
		t.Fatal(err)
	}
	says(good, false)
}

func told(v *Verdict) (all []string) {
	for _, n := range v.Notes {
		all = append(all, n.Says.String())
	}
	return all
}

// TestAPausedJobThatFailedLast: an upstream that is down stays down for the other jobs when the job that met it is paused.
func TestAPausedJobThatFailedLast(t *testing.T) {
	s := state(t)
	paused, other := s.Jobs[1], s.Jobs[0]
	paused.Paused, paused.Ended = true, &catalog.RunRecord{StartedAt: s.Now.Add(-10 * time.Minute), State: catalog.Failed}
	for ago, failing := range map[time.Duration]bool{20 * time.Minute: true, 5 * time.Minute: false} {
		other.Ended = &catalog.RunRecord{StartedAt: s.Now.Add(-ago), State: catalog.Done, Work: []catalog.WorkRecord{{Units: 1}}}
		if s.failing(paused) != failing {
			t.Errorf("another job called %s ago: failing is %v", ago, !failing)
		}
	}
	other.Ended.StartedAt, other.Ended.State = s.Now, catalog.Failed
	if !s.failing(paused) {
		t.Error("a run that failed says that the upstream answers")
	}
	other.Ended.State = catalog.Done
	share := other.Share
	if other.Share = map[string]float64{"shop/units": 1}; !s.failing(paused) {
		t.Error("a run that called another upstream says that this one answers")
	}
	other.Share = share
	if s.failing(paused) {
		t.Error("a run that is done says nothing of its upstream")
	}
	other.Ended.Work = nil // it called nobody
	other.Ended.StartedAt = s.Now
	if !s.failing(paused) {
		t.Error("a run without a call says that the upstream answers")
	}
}

// TestAMountThatHangsHoldsNobodyUp: who reads waits for no disk, and is told what was found last.
func TestAMountThatHangsHoldsNobodyUp(t *testing.T) {
	clock := quota.NewSimClock(time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC))
	asked, answers := make(chan struct{}, 9), make(chan struct{}, 1)
	r := NewReader(&Options{Clock: clock, Folders: []string{"/there"}, Timeout: time.Minute})
	r.room = func(string) (int64, bool) {
		asked <- struct{}{}
		<-answers
		return 1, true
	}
	if got := r.measure(t.Context()); got != nil {
		t.Errorf("%v", got)
	}
	<-asked // the attempt is under way
	r.rooms.mu.Lock()
	under := r.rooms.under
	r.rooms.mu.Unlock()
	answers <- struct{}{}
	<-under
	clock.Advance(time.Minute)
	for range 3 {
		if got := r.measure(t.Context()); len(got) != 1 {
			t.Errorf("a disk that was nearly full is forgotten: %v", got)
		}
	}
	<-asked
	if len(asked) > 0 {
		t.Errorf("%d more attempts are under way", len(asked))
	}
	close(answers)
}

// TestRunsThatAreStillToComeTakeTheirUnitsFirst: a timer makes a run that was due a moment ago before the next one, which
// then finds nothing.
func TestRunsThatAreStillToComeTakeTheirUnitsFirst(t *testing.T) {
	s := state(t)
	next := s.Jobs[1]
	other := *next
	other.Job = &ingest.Job{Name: "other"}
	other.Share = next.Share
	other.comes, other.Cost = true, Cost{Units: 99, Runs: 1}
	s.Jobs = append(s.Jobs, &other)
	s.Daemons = []Beat{{At: s.Now}}
	verdict := func() *Verdict { v := s.judge([]chance{s.chanceOf(next)}); return &v }
	if v := verdict(); v.Level != good {
		t.Errorf("a unit is left: %s", v.Says)
	}
	other.Cost.Units++
	if v := verdict(); v.Level != warn || !strings.Contains(v.More[1].String(), "come first: other") {
		t.Errorf("none is left: %s %s", v.Level, v.Says)
	}
}

// TestDeferredWorkResumesWhenTheLedgerSaid: the first units that come back may be too few.
func TestDeferredWorkResumesWhenTheLedgerSaid(t *testing.T) {
	s := state(t)
	for i := range s.Pools {
		for n := range s.Pools[i].Allowances {
			w := &s.Pools[i].Allowances[n]
			w.Used, w.Remaining, w.NextUnits, w.NextAt, w.ResetAt = 10*w.Limit, 0, 3, s.Now.Add(10*time.Minute), s.Now.Add(15*time.Minute)
		}
	}
	j := s.Jobs[slices.IndexFunc(s.Jobs, func(j *Job) bool { return j.Name == "trending" })]
	first, named := *j, *j.Job
	first.Job, first.Next, named.Name = &named, s.Now.Add(5*time.Minute), "first"
	s.Jobs, j.Resume, j.Waiting = append(s.Jobs, &first), s.Now.Add(12*time.Minute), 2
	if all := fmt.Sprint(s.Verdict().Notes); !strings.Contains(all, "trending resumes at 20:12 UTC") {
		t.Error(all)
	}
}
