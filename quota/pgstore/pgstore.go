package pgstore

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlfiles"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pagestore"
	"github.com/headroom-quota/headroom/quota/pgstore/pgschema"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Options are the options of [Open]; nil is valid.
type Options struct {
	// Schema is the ledger's schema in its database: lower-case letters, digits and _.
	// Empty is headroom_ledger.
	Schema string
	// Clock is the clock of all decisions, for tests and simulations; nil is the server's.
	// Processes that share a ledger must share a clock.
	Clock quota.Clock
	// Timeout is the longest time that a caller waits for the server; zero is 2s. A caller
	// whose own deadline comes first gets the error of its context. That says nothing about the
	// server, so it is no outage.
	Timeout time.Duration
	// Births remembers the pools outside the database. It detects an empty database or an
	// older copy in its place; nil trusts the database. All processes of a machine that use
	// the ledger need the same Births.
	Births storekit.BirthKeeper
}

const (
	// defaultTimeout is the default of Options.Timeout, within the bounds of package deadline.
	defaultTimeout = 2 * time.Second
	// transactionDeadline is the longest time of a transaction. Callers may have left.
	transactionDeadline = 5 * time.Second
	// idleTimeout is how long the server keeps the locks of a client that is silent.
	idleTimeout = 10 * time.Second
)

// Store is a [quota.Store] in PostgreSQL. It is safe for concurrent use.
type Store struct {
	*pagestore.Store
	server *server
}

var _ quota.Store = (*Store)(nil)

var validSchema = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`) })

// Open opens the ledger in the database of a URL, as pgx and psql write it:
//
//	postgres://user:password@host:5432/database
//	postgres://user@host1,host2/database?target_session_attrs=read-write     the primary of these
//	postgres://user@/database?host=/run/postgresql                           a Unix socket
//	postgres://user@pgbouncer:6432/database?default_query_exec_mode=exec     PgBouncer in transaction mode
//
// It does not connect yet. The first call makes the tables. No error holds the URL's password.
func Open(address string, o *Options) (*Store, error) {
	o = cmp.Or(o, &Options{})
	name := cmp.Or(o.Schema, defaultSchema)
	if !validSchema().MatchString(name) {
		return nil, quota.BadInput("schema %q must be lower-case letters, digits and _", name)
	}
	pool, where, err := connect(address)
	if err != nil {
		return nil, quota.BadInput("%v", err)
	}
	return over(pool, pool.Close, where, name, o), nil
}

// over returns a store over the connections of a pool, which it leaves when it is closed.
func over(pool *pgxpool.Pool, leave func(), where, name string, o *Options) *Store {
	b := &server{pool: pool, leave: leave, where: where, clock: o.Clock, timeout: cmp.Or(o.Timeout, defaultTimeout), opening: make(chan struct{}, 1), slow: make(chan struct{}, max(pool.Config().MaxConns/2, 1))}
	b.sql, b.schema = inSchema(name)
	b.living, b.end = context.WithCancel(context.Background())
	engine := &pagestore.Options{Combine: b.timeout, Deadline: max(transactionDeadline, b.timeout), Name: where}
	s := &Store{server: b}
	if o.Births != nil {
		b.births = storekit.NewBirths(s, o.Births)
		engine.Births = b.births
	}
	s.Store = pagestore.New(b, engine)
	return s
}

// ready returns an error if the store cannot be used, or if ctx has ended.
func (s *Store) ready(ctx context.Context) error {
	if s == nil || s.server == nil {
		return quota.BadInput("this store was not made by pgstore.Open")
	}
	return ctx.Err()
}

// Close closes the connections, after the operations that have begun, also those whose
// callers have left.
func (s *Store) Close() error {
	if s == nil || s.server == nil {
		return nil
	}
	s.Store.Close()
	var failed error
	if b := s.server.births; b != nil {
		ctx, cancel := context.WithTimeout(context.Background(), transactionDeadline)
		defer cancel()
		failed = b.Keep(ctx)
	}
	s.server.end()
	s.server.pruning.Wait()
	s.server.leave()
	return failed
}

// server is the [pagestore.Backend].
type server struct {
	pool    *pgxpool.Pool
	leave   func() // closes it
	where   string // for errors
	clock   quota.Clock
	timeout time.Duration
	births  *storekit.Births // nil trusts the database
	sql     map[string]string
	schema  *pgschema.Schema

	slow chan struct{} // holds a token for each reading of the spend, and deletion of old charges: half of the connections are left to others

	opened  atomic.Bool   // the schema is that of this program
	opening chan struct{} // holds a token while a caller opens the schema

	living  context.Context // until Close
	end     context.CancelFunc
	pruning sync.WaitGroup
	pruned  atomic.Int64 // when it began last, by the ledger's clock
}

// Begin implements [pagestore.Backend]. The transaction begins in Load.
func (b *server) Begin(ctx context.Context, _ time.Duration) (pagestore.Tx, error) {
	if err := b.open(ctx); err != nil {
		return nil, b.fault("write to", err)
	}
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		return nil, b.fault("write to", err)
	}
	return newTx(ctx, b, conn), nil
}

// View implements [pagestore.Backend]. It ends within the store's timeout.
func (b *server) View(ctx context.Context) (pagestore.Tx, error) {
	t, err := b.view(ctx)
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (b *server) view(ctx context.Context) (*tx, error) {
	ctx, cancel := b.bound(ctx)
	err := b.open(ctx)
	if err == nil {
		var conn *pgxpool.Conn
		if conn, err = b.pool.Acquire(ctx); err == nil {
			t := newTx(ctx, b, conn)
			t.reads, t.cancel = true, cancel
			return t, nil
		}
	}
	defer cancel()
	return nil, b.fault("read", err)
}

// open makes or checks the schema, once.
func (b *server) open(ctx context.Context) error {
	if b.opened.Load() {
		return nil
	}
	select {
	case b.opening <- struct{}{}:
		defer func() { <-b.opening }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if b.opened.Load() {
		return nil
	}
	err := b.schema.Open(ctx, b.pool)
	b.opened.Store(err == nil)
	return err
}

// now returns the clock of decisions, given the server's.
func (b *server) now(micros int64) time.Time {
	if b.clock != nil {
		return b.clock.Now()
	}
	return window.Instant(micros).Time()
}

func (b *server) Spend(ctx context.Context, q quota.SpendQuery) ([]quota.Spent, error) {
	turn, cancel := b.bound(ctx)
	defer cancel()
	select {
	case b.slow <- struct{}{}:
		defer func() { <-b.slow }()
	case <-turn.Done():
		return nil, b.fault("read", turn.Err())
	}
	t, err := b.view(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.Load(&pagestore.Scope{}); err != nil { // for the clock
		return nil, t.End(err)
	}
	from, to := storekit.SpendRange(window.At(t.now), q)
	var sums storekit.Fold
	one := quota.Spent{Pool: quota.Pool{Upstream: q.Upstream, Account: q.Account}}
	l, zone, hour := &one.Labels, "", int64(0)
	err = t.read("spend", []any{q.Upstream, q.Account, from, to, q.Hours}, []any{
		&one.Pool.Name, &zone, &one.Day, &l.Method, &l.Job, &l.Region, &l.Class, &l.Reason, &one.Units, &one.Calls, &hour,
	}, func() error {
		if q.Hours {
			one.Hour = window.Instant(hour).Time().UTC()
		}
		return sums.Add(q, one, zone)
	})
	return sums.Spend(), t.End(err)
}

func (b *server) Keys(ctx context.Context, p quota.Pool, most int) (keys []string, all int, err error) {
	t, err := b.view(ctx)
	if err != nil {
		return nil, 0, err
	}
	if !valid(p.Upstream) || !valid(p.Account) || !valid(p.Name) {
		return nil, 0, t.End(nil)
	}
	var key string
	err = t.read("keys", []any{p.Upstream, p.Account, p.Name, int64(most)}, []any{&key}, func() error {
		keys = append(keys, key)
		return nil
	})
	if err == nil {
		err = t.read("key_count", []any{p.Upstream, p.Account, p.Name}, []any{&all}, func() error { return nil })
	}
	return keys, all, t.End(err)
}

var _ quota.Identified = (*Store)(nil)

// Identity implements [quota.Identified]. The first step of the schema makes it.
func (s *Store) Identity(ctx context.Context, _, _ string) (id string, err error) {
	if err := s.ready(ctx); err != nil {
		return "", err
	}
	t, err := s.server.view(ctx)
	if err != nil {
		return "", err
	}
	err = t.read("identity", nil, []any{&id}, func() error { return nil })
	if err := t.End(err); err != nil {
		return "", fmt.Errorf("ask the ledger for its identity: %w", err)
	}
	return id, nil
}

//go:embed schema/*.sql
var schemaFiles embed.FS

//go:embed sql/*.sql
var sqlFiles embed.FS

// defaultSchema is the schema of a ledger in its database. The files name it.
const defaultSchema = "headroom_ledger"

// The files are read when the first ledger is opened: other programs have a fast start.
var (
	steps      = sync.OnceValue(func() []pgschema.Step { return pgschema.Read(schemaFiles) })
	statements = sync.OnceValue(readStatements)
)

// readStatements reads the statements of sql/*.sql by their names, without their comments.
func readStatements() map[string]string {
	comments := regexp.MustCompile(`(?m)^--.*\n`)
	all := sqlfiles.Statements(sqlFiles)
	for name, text := range all {
		all[name] = strings.TrimSpace(comments.ReplaceAllString(text, ""))
	}
	return all
}

// inSchema returns the statements and the steps for another schema.
func inSchema(name string) (map[string]string, *pgschema.Schema) {
	schema := &pgschema.Schema{Name: name, Steps: steps()}
	if name == defaultSchema {
		return statements(), schema
	}
	all := make(map[string]string, len(statements()))
	for k, s := range statements() {
		all[k] = strings.ReplaceAll(s, defaultSchema+".", name+".")
	}
	schema.Steps = nil
	for _, s := range steps() {
		s.SQL = strings.ReplaceAll(s.SQL, defaultSchema+".", name+".")
		schema.Steps = append(schema.Steps, s)
	}
	return all, schema
}
