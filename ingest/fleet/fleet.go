package fleet

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/internal/sqlfiles"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pgstore/pgschema"
)

//go:embed schema/*.sql
var schemaFiles embed.FS

//go:embed sql/*.sql
var sqlFiles embed.FS

// Schema is the schema of the fleet's tables, and of River's.
const Schema = "headroom_fleet"

const schemaName = Schema

// statements are read when the first of them is used: other programs have a fast start.
var statements = sync.OnceValue(func() map[string]string { return sqlfiles.Statements(sqlFiles) })

func sql(name string) string { return statements()[name] }

// Options are the options of [New]; nil is valid.
type Options struct {
	Log     *slog.Logger // nil: slog.Default()
	Version string       // of the program
	// Revision returns the revision of the price book in force. Nil: 0.
	Revision func() int64
	// Workers is how many units of work of a job this process works on at the same time.
	// Zero is [ingest.DefaultWorkers].
	Workers int
	// Grace is how long open calls may take when the process is told to stop. Zero is a bit
	// more than the timeout of a call, so that every page is saved.
	Grace time.Duration
	// CallTimeout is the timeout of a call. Zero is [ingest.DefaultCallTimeout].
	CallTimeout time.Duration
	// PollOnly does without LISTEN. It is for PgBouncer in transaction mode.
	PollOnly bool
	// Done is called for each run that this process ended. It may be nil.
	Done func(*ingest.Job, *ingest.Report, error)
	// Stale is called when the ledger has seen a newer price book, and then once a minute. It
	// should read the price book again and call [Fleet.Reload]. It may be nil.
	Stale func()
	// Timing is for tests.
	Timing Timing
}

// Timing has the durations of a fleet. Zero values are those that were measured to work.
type Timing struct {
	Slice  time.Duration // the longest time of a step: 90s
	Rescue time.Duration // when a running job counts as lost: a minute after its slice
	Beat   time.Duration // between two signs of life: 3s
	Mend   time.Duration // between two looks for blocks that were lifted, and for lost work: 15s
	Poll   time.Duration // between two looks by River for work of which nobody told: 60s
	// Gone is after which silence a daemon counts as gone, and others go on with its work: 20s.
	// Programs go on after Rescue, because nothing keeps two of them apart.
	Gone time.Duration
	// Silence is how long a run without a daemon waits for a database that does not answer: [Silence]
	Silence time.Duration
}

// Fleet is one process of a fleet.
type Fleet struct {
	id      string
	catalog *pgcatalog.Catalog
	pool    *pgxpool.Pool
	clock   *Clock
	log     *slog.Logger
	o       Options
	queue   *river.Client[pgx.Tx] // inserts and wakes jobs
	spent   atomic.Int64          // units, by this process
	tending *terse                // what is said of beat and mend
	forgot  time.Time             // when mend deleted old rows

	mu  sync.Mutex
	now state
}

// state is what changes while a process works.
type state struct {
	runner *ingest.Runner
	jobs   []*ingest.Job         // a change makes a new list
	since  time.Time             // when jobs was set
	heard  time.Time             // since when the database has answered each beat; zero: it does not
	beaten time.Time             // when it answered the last one
	only   *ingest.Job           // of a process that makes one run
	status string                // for the table of daemons
	vain   map[string]string     // what of which job cannot be written, and why
	client *river.Client[pgx.Tx] // works the queues, from start to halt
	broken time.Time             // until when no call is made; see errBroken
	stale  chan struct{}         // closed when the price book is too old
	change chan struct{}         // closed when Reload has changed something

	hard  context.Context // ends when the grace has ended
	abort context.CancelFunc
	soft  context.Context // ends when the process is told to stop
	stop  context.CancelFunc
}

// renew makes contexts for work that begins.
func (s *state) renew() {
	s.soft, s.stop = context.WithCancel(context.Background())
	s.hard, s.abort = context.WithCancel(context.Background())
}

// state returns what holds now.
func (f *Fleet) state() state {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// alter changes the state.
func (f *Fleet) alter(change func(*state)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.now)
}

// Running is the status of a daemon that works.
const Running = "running"

const stopping = "stopping"

// Migrate makes or upgrades the tables of the fleet, and River's. One process at a time does.
func Migrate(ctx context.Context, c *pgcatalog.Catalog) error {
	schema := &pgschema.Schema{Name: schemaName, Steps: pgschema.Read(schemaFiles)}
	if err := schema.Open(ctx, c.Pool()); err != nil {
		return fmt.Errorf("open the tables of the fleet: %w", err)
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(c.Pool()), &rivermigrate.Config{Schema: schemaName, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	newest := migrator.AllVersions()[len(migrator.AllVersions())-1].Version
	// River migrates step by step: some steps use what earlier ones committed.
	for {
		done := false
		err := pgx.BeginFunc(ctx, c.Pool(), func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1::text, 0))", schemaName+".river"); err != nil {
				return err
			}
			at := 0
			there, err := pgschema.Exists(ctx, tx, schemaName, "river_migration")
			if err != nil {
				return err
			}
			if there {
				if err := tx.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM "+schemaName+".river_migration").Scan(&at); err != nil {
					return err
				}
			}
			if done = at >= newest; done { // or a newer program made it
				return nil
			}
			_, err = migrator.MigrateTx(ctx, tx, rivermigrate.DirectionUp, &rivermigrate.MigrateOpts{MaxSteps: 1}) //nolint:staticcheck // one step at a time, behind a lock that PgBouncer knows
			return err
		})
		switch {
		case err != nil:
			return fmt.Errorf("make River's tables: %w", err)
		case done:
			return nil
		}
	}
}

// New returns a process of a fleet. The runner must use the catalog and the clock. [Migrate]
// made the tables.
func New(c *pgcatalog.Catalog, k *Clock, r *ingest.Runner, jobs []*ingest.Job, o *Options) (*Fleet, error) {
	o = cmp.Or(o, &Options{})
	host, _ := os.Hostname()
	f := &Fleet{
		id:      fmt.Sprintf("%s-%d-%s", cleanHost(host), os.Getpid(), strconv.FormatInt(machine().UnixMicro(), 36)),
		catalog: c, pool: c.Pool(), clock: k, log: cmp.Or(o.Log, slog.Default()), o: *o, tending: &terse{clock: k},
		now: state{
			runner: r, jobs: jobs, since: k.Now(), status: Running, vain: map[string]string{}, stale: make(chan struct{}), change: make(chan struct{}),
		},
	}
	if f.o.Revision == nil {
		f.o.Revision = func() int64 { return 0 }
	}
	if f.o.Done == nil {
		f.o.Done = func(*ingest.Job, *ingest.Report, error) {}
	}
	f.o.Workers = cmp.Or(o.Workers, ingest.DefaultWorkers)
	f.o.CallTimeout = cmp.Or(o.CallTimeout, ingest.DefaultCallTimeout)
	f.o.Grace = cmp.Or(o.Grace, f.o.CallTimeout+5*time.Second)
	t := &f.o.Timing
	t.Slice = cmp.Or(t.Slice, 90*time.Second)
	t.Rescue = cmp.Or(t.Rescue, t.Slice+f.o.CallTimeout+30*time.Second)
	t.Beat = cmp.Or(t.Beat, 3*time.Second)
	t.Mend = cmp.Or(t.Mend, 15*time.Second)
	t.Gone = cmp.Or(t.Gone, 20*time.Second)
	t.Poll = cmp.Or(t.Poll, time.Minute)
	if o.PollOnly {
		t.Poll = min(t.Poll, time.Second) // inserted work is not announced
	}
	t.Silence = cmp.Or(t.Silence, Silence)
	f.now.renew()
	var err error
	f.queue, err = river.NewClient(riverpgxv5.New(f.pool), &river.Config{Schema: schemaName, SkipUnknownJobCheck: true, Test: river.TestConfig{Time: f.clock}})
	return f, err
}

// cleanHost returns a name that River takes as part of an id.
func cleanHost(host string) string {
	host = strings.Map(func(r rune) rune {
		if r < 128 && (r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return r
		}
		return '-'
	}, host)
	return cmp.Or(host[:min(len(host), 50)], "host")
}

// ID returns the name of this process in the table of daemons.
func (f *Fleet) ID() string { return f.id }

func (f *Fleet) newClient(jobs []*ingest.Job) (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{f: f})
	queues := map[string]river.QueueConfig{}
	for _, j := range jobs {
		queues[queue(j)] = river.QueueConfig{MaxWorkers: f.o.Workers}
	}
	if len(queues) == 0 {
		queues, workers = nil, nil
	}
	t := f.o.Timing
	if f.state().only != nil { // no daemon may be there to announce work of which nobody told: see takeOver
		t.Poll = min(t.Poll, 10*time.Second)
	}
	return river.NewClient(riverpgxv5.New(f.pool), &river.Config{
		ID: f.id, Schema: schemaName, Queues: queues, Workers: workers, PollOnly: f.o.PollOnly,
		FetchPollInterval: t.Poll, FetchCooldown: min(t.Poll, river.FetchCooldownDefault),
		JobTimeout: t.Slice + f.o.CallTimeout, RescueStuckJobsAfter: t.Rescue, RetryPolicy: retryPolicy{}, MaxAttempts: attempts,
		Logger: slog.New(quietHandler{f.log.Handler(), &terse{clock: f.clock}}),
	})
}

// attempts is how often River tries a job. A job fails only if its worker was fenced, or if
// the database was down.
const attempts = 30_000

// retryPolicy tries again after a second, by the clock that River compares it with.
type retryPolicy struct{}

func (retryPolicy) NextRetry(*rivertype.JobRow) time.Time { return machine().Add(time.Second) }

// queue returns the name of the queue of a job, in the characters that River allows.
func queue(j *ingest.Job) string {
	return queueName(account(j), j.Name)
}

func queueName(account, job string) string {
	escape := func(s string) string {
		var b strings.Builder
		for _, c := range []byte(s) {
			if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
				b.WriteByte(c)
			} else {
				fmt.Fprintf(&b, "-%02x", c)
			}
		}
		return b.String()
	}
	name := "j" + escape(job)
	if account != quota.DefaultAccount {
		name += "-at" + escape(account)
	}
	if len(name) > 64 {
		name = name[:47] + "-" + digest(name)
		name = strings.ReplaceAll(name, "--", "-")
	}
	return name
}

func account(j *ingest.Job) string { return cmp.Or(j.Account, quota.DefaultAccount) }

// job returns the job that River's job belongs to, and the runner; nil if this process has no
// such job.
func (f *Fleet) job(a Args) (*ingest.Job, *ingest.Runner) {
	s := f.state()
	for _, j := range s.jobs {
		if j.Name == a.Job && account(j) == a.Account {
			return j, s.runner
		}
	}
	return nil, s.runner
}

// within is how long a transaction may take, and how long it may wait for its process.
const (
	within    = 10 * time.Second
	idleFor   = "10s"
	exclusion = 5 // how often it is tried if others exclude it
)

// transact runs a transaction. It is tried again if another one excluded it.
func (f *Fleet) transact(ctx context.Context, do func(ctx context.Context, tx pgx.Tx) error) error {
	return f.behind(ctx, nil, do)
}

// behind runs a transaction that begins with a check. The check takes no round trip of its own.
func (f *Fleet) behind(ctx context.Context, check func(*pgx.Batch), do func(ctx context.Context, tx pgx.Tx) error) error {
	ctx, cancel := f.bounded(ctx)
	defer cancel()
	return tried(ctx, f.pool, func(tx pgx.Tx) error {
		var first pgx.Batch
		first.Queue(sql("idle"), idleFor)
		if check != nil {
			check(&first)
		}
		if err := tx.SendBatch(ctx, &first).Close(); err != nil {
			return err
		}
		return do(ctx, tx)
	})
}

// tried runs a transaction, again if another one excluded it.
func tried(ctx context.Context, pool *pgxpool.Pool, do func(pgx.Tx) error) error {
	for n := 1; ; n++ {
		if err := pgx.BeginFunc(ctx, pool, do); n == exclusion || !pgcatalog.Excluded(err) {
			return err
		}
	}
}

// bounded returns a context for a transaction. It ends also with the grace: nothing may wait for
// the database longer.
func (f *Fleet) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, within)
	stop := context.AfterFunc(f.state().hard, cancel)
	return ctx, func() { stop(); cancel() }
}

// one reads the only value of a query. A link that swallows everything must hold up nobody.
func (f *Fleet) one(ctx context.Context, value any, name string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return f.pool.QueryRow(ctx, sql(name), args...).Scan(value)
}

// found reports whether a query that returned err had a row.
func found(err error) (bool, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func collect[T any](ctx context.Context, from querier, row pgx.RowToFunc[T], query string, args ...any) ([]T, error) {
	rows, err := from.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, row)
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func set(names []string) map[string]bool {
	all := map[string]bool{}
	for _, name := range names {
		all[name] = true
	}
	return all
}

// text returns a value as JSON. It is sent as a text, because PgBouncer keeps no statement
// whose types the server could tell.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own types
	}
	return string(b)
}
