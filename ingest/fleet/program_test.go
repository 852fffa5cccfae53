package fleet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/internal/testing/childtest"
	"github.com/headroom-quota/headroom/quota/lease"
)

// brief are timings with which a program soon runs longer than any other work may.
var brief = fleet.Options{CallTimeout: 100 * time.Millisecond, Grace: 10 * time.Second, Timing: fleet.Timing{Slice: 100 * time.Millisecond, Rescue: 500 * time.Millisecond, Mend: time.Second, Beat: time.Second}}

// oneProgram is a job that runs a program.
func oneProgram() map[string]ingest.Job {
	return map[string]ingest.Job{"tap": {Kind: ingest.Command, Cron: "0 0 1 1 *", Program: ingest.Program{Command: []string{"tap"}}}}
}

// programmed returns a fleet that runs a function as its program.
func (r *rig) programmed(c *pgcatalog.Catalog, locks lease.Locker, o fleet.Options, program func(ctx, abort context.Context, j *ingest.Job) error) *fleet.Fleet {
	r.t.Helper()
	clock, err := fleet.NewClock(r.t.Context(), c)
	r.must(err)
	o.Log = r.log()
	runner := ingest.NewRunner(r.config, r.ledger, c, nil, locks, &ingest.Options{Clock: clock, Log: r.log(), Program: program})
	f, err := fleet.New(c, clock, runner, []*ingest.Job{r.job("tap")}, &o)
	r.must(err)
	return f
}

// TestProgram: a fleet runs a program once, as long as it likes, and its job cannot be run
// beside it.
func TestProgram(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1000, oneProgram())
	c := r.catalog()
	locks := lease.Files(t.TempDir())
	var runs atomic.Int64
	program := func(ctx, abort context.Context, _ *ingest.Job) error {
		runs.Add(1)
		began := r.number(c, "SELECT (1000 * extract(epoch FROM attempted_at))::bigint FROM headroom_fleet.river_job WHERE state = 'running'")
		for r.number(c, "SELECT (1000 * extract(epoch FROM attempted_at))::bigint FROM headroom_fleet.river_job WHERE state = 'running'") < began+500 {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-abort.Done():
				return context.Cause(abort)
			case <-time.After(50 * time.Millisecond):
			}
		}
		if _, err := locks.Lock(ctx, "default/tap"); !errors.Is(err, ingest.ErrHeld) {
			t.Errorf("the lock of the job is free: %v", err)
		}
		return nil
	}
	for range 2 {
		r.background(r.programmed(c, locks, brief, program).Run)
	}
	r.must(r.programmed(c, locks, brief, program).Insert(t.Context(), r.job("tap"), time.Now().Truncate(time.Microsecond)))
	r.eventually("the run ends", func() bool {
		return r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE report->>'state' = 'done'") == 1
	})
	if n := runs.Load(); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

// TestProgramIsTakenAway: a program whose job another worker has taken is killed, and runs
// again.
func TestProgramIsTakenAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1000, oneProgram())
	c := r.catalog()
	var runs atomic.Int64
	program := func(_, abort context.Context, _ *ingest.Job) error {
		if runs.Add(1) > 1 {
			return nil
		}
		_, err := c.Pool().Exec(context.Background(), "UPDATE headroom_fleet.river_job SET state = 'retryable', scheduled_at = now() + interval '1 hour' WHERE state = 'running'")
		r.must(err)
		<-abort.Done()
		return context.Cause(abort)
	}
	locks := lease.Files(t.TempDir())
	f := r.programmed(c, locks, brief, program)
	r.background(f.Run)
	r.must(f.Insert(t.Context(), r.job("tap"), time.Now().Truncate(time.Microsecond)))
	// A worker that meets the lock of the one before it waits for minutes.
	r.eventually("the program is killed", func() bool {
		if runs.Load() == 0 {
			return false
		}
		lock, err := locks.Lock(t.Context(), "default/tap")
		if errors.Is(err, ingest.ErrHeld) {
			return false
		}
		r.must(err)
		r.must(lock.Unlock())
		return true
	})
	_, err := c.Pool().Exec(t.Context(), "UPDATE headroom_fleet.river_job SET scheduled_at = now() WHERE state = 'retryable'")
	r.must(err)
	r.eventually("the run ends", func() bool {
		return r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE report->>'state' = 'done'") == 1
	})
	if n := runs.Load(); n != 2 {
		t.Errorf("it ran %d times", n)
	}
}

// TestProgramIsHeldElsewhere: a program does not run while another process has the lock of its
// job. Its run is deferred.
func TestProgramIsHeldElsewhere(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1000, oneProgram())
	c := r.catalog()
	locks := lease.Files(t.TempDir())
	lock, err := locks.Lock(t.Context(), "default/tap")
	r.must(err)
	defer func() { r.must(lock.Unlock()) }()
	f := r.programmed(c, locks, brief, func(context.Context, context.Context, *ingest.Job) error {
		t.Error("it ran")
		return nil
	})
	rep, err := f.Once(t.Context(), r.job("tap"), ingest.Occasion{})
	if r.must(err); rep.ResumeAt.IsZero() || len(rep.Work) != 1 || rep.Work[0].Err == nil {
		t.Errorf("the run is %+v", rep)
	}
}

// TestRescueOfPrograms: River may take a program's job away only if its worker has not said
// for long that it has it.
func TestRescueOfPrograms(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1000, oneProgram())
	f := r.programmed(r.catalog(), nil, brief, nil)
	for name, c := range map[string]struct {
		job  string
		ago  time.Duration
		want time.Duration
	}{
		"it runs":        {"tap", 0, -1},
		"it is lost":     {"tap", time.Hour, brief.Timing.Rescue},
		"not a program":  {"retention", 0, 0},
		"not configured": {"other", time.Hour, 0},
	} {
		if got := f.Timeout(c.job, time.Now().Add(-c.ago)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestHoldAfterALostAnswer: a worker whose database has noted that it holds its job, and whose
// answer was lost, still holds it.
func TestHoldAfterALostAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1000, oneProgram())
	c := r.catalog()
	f := r.programmed(c, nil, brief, nil)
	r.must(f.Insert(t.Context(), r.job("tap"), time.Now().Truncate(time.Microsecond)))
	began := f.Clock().Now().Truncate(time.Microsecond)
	var job int64
	r.must(c.Pool().QueryRow(t.Context(), "UPDATE headroom_fleet.river_job SET state = 'running', attempt = 1, attempted_at = $1, attempted_by = ARRAY[$2] RETURNING id", began, f.ID()).Scan(&job))
	config := c.Pool().Config()
	config.MaxConns = 1
	loses, dial := &atomic.Bool{}, config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &loser{Conn: conn, loses: loses, about: []byte(f.ID())}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	r.must(err)
	defer pool.Close()
	hold := f.Holder(pool, job, 1, began)
	r.must(hold(t.Context()))
	for range 3 {
		before := r.number(c, "SELECT (1000000 * extract(epoch FROM attempted_at))::bigint FROM headroom_fleet.river_job")
		loses.Store(true)
		if err := hold(t.Context()); err == nil {
			t.Fatal("no answer was lost")
		}
		loses.Store(false)
		r.eventually("the database has noted it", func() bool {
			return r.number(c, "SELECT (1000000 * extract(epoch FROM attempted_at))::bigint FROM headroom_fleet.river_job") != before
		})
	}
	if err := hold(t.Context()); err != nil {
		t.Errorf("it has lost its job: %v", err)
	}
}

// loser is a connection that loses the answer to what is about a process.
type loser struct {
	net.Conn
	loses *atomic.Bool
	about []byte
	lost  atomic.Bool
}

func (l *loser) Write(p []byte) (int, error) {
	if l.loses.Load() && bytes.Contains(p, l.about) {
		l.lost.Store(true)
	}
	return l.Conn.Write(p)
}

func (l *loser) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if l.lost.Load() {
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// rescuing counts a program that does not say that it runs as lost after this.
var rescuing = func() fleet.Options {
	o := quick
	o.Timing.Rescue = 10 * time.Second
	return o
}()

// programs is a daemon in a process of its own, whose program never ends. Its path is the URL
// of the database and the folder of the locks.
func programs(path string, begin func() bool, out io.Writer) error {
	url, folder, _ := strings.Cut(path, " ")
	ctx := context.Background()
	r, c, clock, err := process(ctx, url, oneProgram())
	if err != nil {
		return err
	}
	runner := ingest.NewRunner(r.config, r.ledger, c, nil, lease.Files(folder), &ingest.Options{
		Clock: clock, Log: slog.New(slog.DiscardHandler),
		Program: func(context.Context, context.Context, *ingest.Job) error {
			fmt.Fprintln(out, "it runs")
			select {}
		},
	})
	o := rescuing
	o.Log = slog.New(slog.DiscardHandler)
	f, err := fleet.New(c, clock, runner, []*ingest.Job{r.job("tap")}, &o)
	if err != nil {
		return err
	}
	go func() { begin(); os.Exit(0) }() // the parent is gone
	return f.Run(ctx)
}

// TestProgramOfTheDead: another machine runs the program of one that was killed. River looks
// for that every 30 s.
func TestProgramOfTheDead(t *testing.T) {
	if !soak() {
		t.Skip("it takes a minute; HEADROOM_SOAK=1 runs it")
	}
	t.Parallel()
	r := newRig(t, 1000, oneProgram())
	c := r.catalog()
	folder := t.TempDir()
	child := childtest.Run(t, "programs", r.url+" "+folder)
	f := r.programmed(c, lease.Files(folder), rescuing, func(context.Context, context.Context, *ingest.Job) error { return nil })
	r.must(f.Insert(t.Context(), r.job("tap"), time.Now().Truncate(time.Microsecond)))
	for child.Line() != "it runs" { // it is ready before
	}
	r.background(f.Run)
	for end := time.Now().Add(45 * time.Second); time.Now().Before(end); time.Sleep(time.Second) {
		if r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE report IS NOT NULL") > 0 {
			t.Fatal("it was taken from a machine that is alive")
		}
	}
	r.must(child.Process.Kill())
	r.eventually("the run ends", func() bool {
		return r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE report->>'state' = 'done'") == 1
	})
}
