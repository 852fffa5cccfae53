package pgcatalog

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/sqlfiles"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pgstore/pgschema"
)

//go:embed schema/*.sql
var schemaFiles embed.FS

//go:embed sql/*.sql
var sqlFiles embed.FS

var schema = &pgschema.Schema{Name: Schema, Steps: pgschema.Read(schemaFiles)}

// statements are read when the first catalog is opened: other programs have a fast start.
var statements = sync.OnceValue(func() map[string]string {
	all := catalog.Statements()
	maps.Copy(all, sqlfiles.Statements(sqlFiles))
	return all
})

// sql returns a statement by its name, or by its text.
func sql(query string) string { return cmp.Or(statements()[query], query) }

// Options are the options of [Open]; nil is valid.
type Options struct {
	// Clock tells when data was fetched; nil is the clock of the database.
	Clock quota.Clock
	// Conns is the largest number of connections; zero is 4, or one for each processor.
	Conns int
}

// defaultWait is the longest time that an operation may take.
const defaultWait = 10 * time.Second

// Catalog is fetched data in PostgreSQL. It is safe for concurrent use, unless it is within
// a transaction: see [Catalog.In].
type Catalog struct {
	*catalog.Engine
	clock quota.Clock // nil: the database's
	wait  time.Duration
	name  string // of the database, without a password
	pool  *pgxpool.Pool
	tx    pgx.Tx // the caller's, or nil
	guard Guard
}

// ErrConfig says that a URL names no PostgreSQL database.
var ErrConfig = errors.New("it is no URL of a PostgreSQL database, as postgres://user@host/database")

// Open opens the catalog in the database that a URL names, and makes or upgrades its tables.
// No error says the URL's password.
func Open(ctx context.Context, url string, o *Options) (*Catalog, error) {
	c, err := connect(ctx, url, o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	err = (*home)(c).Fault("open", schema.Open(ctx, c.pool))
	if err == nil {
		err = c.copied(ctx)
	}
	if err != nil {
		c.pool.Close()
		return nil, err
	}
	return c, nil
}

// Inspect calls read with the catalog in the database that a URL names, which Inspect does not
// change. If there is no catalog the error is fs.ErrNotExist.
func Inspect(ctx context.Context, url string, read func(*Catalog) error) error {
	c, err := connect(ctx, url, &Options{Conns: 1})
	if err != nil {
		return err
	}
	defer c.pool.Close()
	soon, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	at, err := schema.Version(soon, c.pool)
	if err == nil && at.Version == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return (*home)(c).Fault("open", err)
	}
	if err := c.copied(ctx); err != nil {
		return err
	}
	return read(c)
}

// Schema is the schema of the catalog. A ledger in the same database has another one.
const Schema = "headroom_catalog"

// Missing returns the statements that give the user of a URL the rights which it lacks, to use
// the tables of some schemas or to make them. It changes nothing.
func Missing(ctx context.Context, url string, schemas ...string) (grants []string, err error) {
	c, err := connect(ctx, url, &Options{Conns: 1})
	if err != nil {
		return nil, err
	}
	defer c.pool.Close()
	return c.Missing(ctx, schemas...)
}

// Missing is [Missing] for the user of an open catalog.
func (c *Catalog) Missing(ctx context.Context, schemas ...string) (grants []string, err error) {
	for _, schema := range schemas {
		err := c.each(ctx, func(scan catalog.Scan) error {
			grants = append(grants, "")
			return scan(&grants[len(grants)-1])
		}, "rights_missing", schema)
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(grants)
	return slices.Compact(grants), nil // one right makes several schemas
}

// Refused reports whether a person has to do something before a catalog can be opened: the URL is
// wrong, the server refuses the user, a copy is not complete, or the tables are not for this
// program. Any other error is one of a server that does not answer now.
func Refused(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return !slices.ContainsFunc(passing, func(class string) bool { return strings.HasPrefix(e.Code, class) })
	}
	return errors.Is(err, ErrConfig) || errors.Is(err, ErrUnfinished) || errors.Is(err, pgschema.ErrNewer)
}

// passing are the classes of the server's errors that may pass by themselves: it starts or stops,
// has no connection left, is cut off, or another process was in the way.
var passing = []string{"57", "53", "08", "40", "55", "58", "25P", "XX"}

// ErrUnfinished says that a copy into the catalog is not complete.
var ErrUnfinished = errors.New("a copy into it is not complete")

// connect opens the database. It makes no connection yet.
func connect(ctx context.Context, url string, o *Options) (*Catalog, error) {
	o = cmp.Or(o, &Options{})
	config, err := pgxpool.ParseConfig(url)
	if err != nil { // it may quote the URL
		return nil, fmt.Errorf("open the catalog: %w", ErrConfig)
	}
	c := (&Catalog{clock: o.Clock, wait: defaultWait, name: address(config.ConnConfig)}).clone()
	if o.Conns > 0 {
		config.MaxConns = int32(o.Conns)
	}
	if params := config.ConnConfig.RuntimeParams; params["application_name"] == "" {
		params["application_name"] = "headroom catalog"
	}
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // PgBouncer keeps no statements between transactions
	config.ConnConfig.DialFunc = dialer.DialContext
	config.ConnConfig.ConnectTimeout = cmp.Or(config.ConnConfig.ConnectTimeout, c.wait)
	if c.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, (*home)(c).Fault("open", err)
	}
	return c, nil
}

// dialer notices within half a minute that the other end is gone.
var dialer = &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4}}

// address returns the URL of a database without user and password.
func address(c *pgx.ConnConfig) string {
	host := c.Host
	if c.Port != 0 && host != "" && host[0] != '/' {
		host = net.JoinHostPort(host, strconv.Itoa(int(c.Port)))
	}
	return "postgres://" + host + "/" + c.Database
}

// closing is how long Close waits for queries that hang: a process that is told to stop ends.
const closing = 500 * time.Millisecond

// Close closes the connections.
func (c *Catalog) Close() error {
	if c.tx != nil {
		return nil
	}
	closed := make(chan struct{})
	go func() {
		c.pool.Close() // waits for every query
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(closing):
	}
	return nil
}

// Ready returns an error if the catalog cannot be read.
func (c *Catalog) Ready(ctx context.Context) error {
	return c.each(ctx, func(catalog.Scan) error { return nil }, "SELECT id FROM headroom_catalog.runs ORDER BY id DESC LIMIT 1")
}

// Pool returns the connections to the database, for those who write to the catalog and to
// tables of their own in one transaction.
func (c *Catalog) Pool() *pgxpool.Pool { return c.pool }

// In returns the catalog within a transaction. All operations become part of it, and none
// commits it. After an error, roll it back. Like the transaction it is for one goroutine.
func (c *Catalog) In(tx pgx.Tx) *Catalog {
	within := c.clone()
	within.tx = tx
	return within
}

func (c *Catalog) clone() *Catalog {
	other := *c
	other.Engine = catalog.NewEngine((*home)(&other))
	return &other
}

// Guard is what a caller adds to the transactions that write to a catalog. It takes no round
// trip. Both functions may be nil, and may be called again.
type Guard struct {
	// Before queues a check in front of the transaction. Its error ends the transaction, and
	// is returned.
	Before func(*pgx.Batch)
	// Saved queues rows of the caller's own behind a page.
	Saved func(*pgx.Batch, catalog.Saved)
}

// Guarded returns the catalog with a guard.
func (c *Catalog) Guarded(g Guard) *Catalog {
	guarded := c.clone()
	guarded.guard = g
	return guarded
}

type conn interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

func (c *Catalog) conn() conn {
	if c.tx != nil {
		return c.tx
	}
	return c.pool
}

// Fault implements [catalog.Home]. It returns errors of the caller's context unchanged.
func (h *home) Fault(doing string, err error) error {
	switch err { // an error that wraps them says more
	case nil, context.Canceled, context.DeadlineExceeded: //nolint:errorlint // as they are
		return err
	}
	return fmt.Errorf("%s the catalog %s: %w", doing, h.name, remedied(err))
}

// remedied adds what to do about an error of the server.
func remedied(err error) error {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return pgschema.Unreached(err)
	}
	switch e.Code {
	case "53100":
		return fmt.Errorf("its disk is full; make room, and the next run goes on where this one stopped: %w", err)
	case "42501":
		return fmt.Errorf("this user lacks a right; ingestor check says which: %w", err)
	case "25006":
		return fmt.Errorf("it is a standby or read-only; name the primary: %w", err)
	}
	return err
}
