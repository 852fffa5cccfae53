package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
)

// TestStatus reads what a fleet does while a daemon works, after it was killed, and while a
// replica is not connected.
func TestStatus(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, oneChart())
	server := pgtest.Start(t, pgtest.Fast...)
	r.url = server.Database(t) // a slot belongs to the whole server
	c := r.catalog()
	board, err := fleet.NewBoard(c)
	r.must(err)
	status := func() fleet.Status {
		s, err := board.Status(t.Context())
		r.must(err)
		return s
	}
	if s := status(); s.Behind != nil || len(s.Daemons) != 0 || len(s.Units) != 0 {
		t.Errorf("an empty fleet has %+v", s)
	}

	open := make(chan struct{})
	r.slow = func() { <-open }
	f := r.fleet(c, quick)
	stop := r.background(f.Run)
	r.must(f.Insert(t.Context(), r.job("charts"), time.Now().Truncate(time.Microsecond)))
	r.eventually("the daemon holds the work and leads", func() bool {
		s := status()
		n, leads, _ := s.Alive()
		held := s.Held(f.ID())
		return n == 1 && leads && len(held) == 1 && held[0].Work == "US"
	})
	r.must(board.Pause(t.Context(), "", "charts"))
	if s := status(); !s.Units[0].Paused {
		t.Errorf("the paused work is %+v", s.Units[0])
	}
	close(open)
	stop()
	if s := status(); s.Daemon(f.ID()) != nil {
		t.Errorf("a daemon that ended is %+v", s.Daemons)
	}
	_, err = c.Pool().Exec(t.Context(), `INSERT INTO headroom_fleet.daemons (id, host, pid, version, revision, state, units, skew, started_at, seen_at, jobs)
		SELECT name, '', 1, '', 1, 'running', 0, skew, now(), now() - seen, '{}' FROM (VALUES
			('silent', 9000000, interval '1 minute'), ('behind', -5000000, interval '0'), ('ahead', 3000000, interval '0')) AS d (name, skew, seen)`)
	r.must(err)
	s := status()
	if n, leads, skew := s.Alive(); n != 2 || leads || skew != 5*time.Second {
		t.Errorf("%d daemons are alive, with a leader: %t, and a skew of %s", n, leads, skew)
	}

	_, err = c.Pool().Exec(t.Context(), "SELECT pg_create_physical_replication_slot('replica', true)")
	r.must(err)
	_, err = c.Pool().Exec(t.Context(), "CREATE TABLE written AS SELECT repeat('x', 1000) FROM generate_series(1, 1000)")
	r.must(err)
	if s := status(); s.Behind == nil || *s.Behind < 1_000_000 {
		t.Errorf("a replica that is not connected is behind by %v", s.Behind)
	}
}

// TestALockIsNamed: what a lock on a table stops says who has the lock, at once.
func TestALockIsNamed(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, oneChart())
	c := r.catalog()
	board, err := fleet.NewBoard(c)
	r.must(err)
	r.must(board.CheckQueue(t.Context()))
	lock, err := r.catalog().Pool().Begin(t.Context())
	r.must(err)
	names := func(do func() error) {
		t.Helper()
		var err error
		r.eventually("the lock is named", func() bool { // a machine that is busy may take longer to wait for it
			err = do()
			return err != nil && errors.As(err, new(*fleet.LockedError))
		})
		locked, is := errors.AsType[*fleet.LockedError](err)
		if !is || len(locked.Locks) != 1 || locked.Locks[0].Table != "headroom_fleet.river_job" || !strings.Contains(locked.Locks[0].Query, "LOCK TABLE") || !strings.Contains(err.Error(), "pg_terminate_backend(") {
			t.Errorf("the error does not name the lock: %v", err)
		}
	}
	// This one lets others read.
	_, err = lock.Exec(t.Context(), "LOCK TABLE headroom_fleet.river_job IN EXCLUSIVE MODE")
	r.must(err)
	names(func() error { return board.CheckQueue(t.Context()) })
	is, err := board.Status(t.Context())
	r.must(err)
	if len(is.Locks) != 1 || len(is.Findings) == 0 || !is.Findings[0].Bad || !strings.Contains(is.Findings[0].Text, "has been locked for") {
		t.Errorf("the lock is %+v, and the findings %+v", is.Locks, is.Findings)
	}
	_, err = lock.Exec(t.Context(), "LOCK TABLE headroom_fleet.river_job")
	r.must(err)
	names(func() error {
		_, err := board.Status(t.Context())
		return err
	})
	_, err = board.Retry(t.Context(), "", "charts")
	r.must(err) // it has no work, so it needs no lock
	r.must(lock.Rollback(t.Context()))
	r.must(board.CheckQueue(t.Context()))

	// One that waits behind a reader keeps others from writing, too.
	reader, err := r.catalog().Pool().Begin(t.Context())
	r.must(err)
	_, err = reader.Exec(t.Context(), "LOCK TABLE headroom_fleet.river_job IN ACCESS SHARE MODE")
	r.must(err)
	waits, err := r.catalog().Pool().Begin(t.Context())
	r.must(err)
	waited := make(chan error)
	go func() {
		_, err := waits.Exec(context.Background(), "LOCK TABLE headroom_fleet.river_job")
		waited <- errors.Join(err, waits.Rollback(context.Background()))
	}()
	r.eventually("it waits", func() bool {
		return r.number(c, "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") > 0
	})
	if err := board.CheckQueue(t.Context()); err == nil || !strings.Contains(err.Error(), "ACCESS SHARE MODE") {
		t.Errorf("the error does not name the reader: %v", err)
	}
	r.must(reader.Rollback(t.Context()))
	r.must(<-waited)

	// One that has changed a row keeps those waiting who need it.
	_, err = c.Pool().Exec(t.Context(), "INSERT INTO headroom_fleet.pauses (account, job) VALUES ('default', 'charts')")
	r.must(err)
	const change = "UPDATE headroom_fleet.pauses SET paused_at = now()"
	forgot, err := r.catalog().Pool().Begin(t.Context())
	r.must(err)
	_, err = forgot.Exec(t.Context(), change+" -- forgotten")
	r.must(err)
	needs, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _, _ = c.Pool().Exec(needs, change) }()
	r.eventually("the row is named", func() bool {
		locks, err := board.Locks(t.Context())
		r.must(err)
		return len(locks) == 1 && locks[0].Table == "" && strings.Contains(locks[0].Query, "forgotten") && strings.HasPrefix(locks[0].String(), "Rows that daemons need have been locked for ")
	})
	r.must(forgot.Rollback(t.Context()))

	// One of ours that waits, and has locked a row, is not named: to end it would not help.
	lock, err = r.catalog().Pool().Begin(t.Context())
	r.must(err)
	_, err = lock.Exec(t.Context(), "LOCK TABLE headroom_fleet.river_job")
	r.must(err)
	waits, err = r.catalog().Pool().Begin(t.Context())
	r.must(err)
	_, err = waits.Exec(t.Context(), change)
	r.must(err)
	go func() {
		_, err := waits.Exec(context.Background(), "SELECT count(*) FROM headroom_fleet.river_job")
		waited <- errors.Join(err, waits.Rollback(context.Background()))
	}()
	go func() { _, _ = c.Pool().Exec(needs, change) }()
	r.eventually("two wait", func() bool {
		return r.number(c, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query_start < clock_timestamp() - interval '1 s'") == 2
	})
	locks, err := board.Locks(t.Context())
	r.must(err)
	if len(locks) != 1 || locks[0].Table != "headroom_fleet.river_job" || !strings.HasPrefix(locks[0].Query, "LOCK TABLE") {
		t.Errorf("the locks are %+v", locks)
	}
	r.must(lock.Rollback(t.Context()))
	r.must(<-waited)
}

// TestAFullDiskIsSaid: beats still find room in the database, and no run does, or no page.
func TestAFullDiskIsSaid(t *testing.T) {
	t.Parallel()
	for table, text := range map[string]string{"headroom_fleet.runs": "cannot insert the run of charts", "headroom_catalog.cursors": "cannot save a page of charts"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			aFullDiskIsSaid(t, table, text)
		})
	}
}

func aFullDiskIsSaid(t *testing.T, table, text string) {
	r := newRig(t, 100, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: []string{"US"}, Pages: 1}})
	c := r.catalog()
	for _, statement := range []string{
		"CREATE FUNCTION headroom_fleet.full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'No space left on device' USING ERRCODE = 'disk_full'; END $$",
		"CREATE TRIGGER full_disk BEFORE INSERT ON " + table + " EXECUTE FUNCTION headroom_fleet.full_disk()",
	} {
		_, err := c.Pool().Exec(t.Context(), statement)
		r.must(err)
	}
	f := r.fleet(c, fleet.Options{Timing: fleet.Timing{Beat: 500 * time.Millisecond}})
	r.background(f.Run)
	board, err := fleet.NewBoard(c)
	r.must(err)
	r.background(func(ctx context.Context) error { f.Tick(ctx, r.job("charts"), time.Now()); return nil })
	said := func() (bad bool) {
		s, err := board.Status(t.Context())
		for _, found := range s.Findings {
			bad = bad || found.Bad && strings.Contains(found.Text, "does no work: "+text) && strings.Contains(found.Text, "No space left on device")
		}
		return err == nil && bad
	}
	r.eventually("the status says it", said)
	_, err = c.Pool().Exec(t.Context(), "DROP TRIGGER full_disk ON "+table)
	r.must(err)
	r.eventually("it is over", func() bool { return !said() })
}

// TestNobodyLeadsWhoDoesNoWork: no other daemon leads soon if the clocks of all are wrong.
func TestNobodyLeadsWhoDoesNoWork(t *testing.T) {
	for state, want := range map[string]bool{fleet.Running: true, "its clock is wrong": false} {
		s := fleet.Status{Daemons: []fleet.Daemon{{ID: "berlin-1", State: state}}}
		s.Judge()
		if got := strings.Contains(fmt.Sprint(s.Findings), "Another one leads within"); got != want {
			t.Errorf("%s: %v", state, s.Findings)
		}
	}
}
