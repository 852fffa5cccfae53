package catalog

import (
	"context"
	"embed"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlfiles"
)

// Engine is a catalog in a database: what it stores, and what it answers. Both homes have it,
// and differ in what [Home] says.
type Engine struct{ home Home }

// NewEngine returns the catalog in a home.
func NewEngine(h Home) *Engine { return &Engine{h} }

// Home is a database with the tables of a catalog. A query is the name of a statement, or its
// text as PostgreSQL understands it.
type Home interface {
	Path() string
	// Fault says which operation on the database failed, and what to do.
	Fault(doing string, err error) error
	// View calls do with what reads.
	View(ctx context.Context, do func(Read) error) error
	// Change runs a transaction that writes. The function read asks for what has to be known
	// and kept unchanged, and write says what changes. A home may call both again. If one of
	// them fails, nothing is written.
	Change(ctx context.Context, read func(Batch), write func(Tx) error) error

	// Known asks which of some videos there are: those that are to be saved, and others.
	Known(b Batch, rows []*Row, others []string, known func(id string, k Known))
	// SaveVideos adds or changes videos and their words.
	SaveVideos(tx Tx, rows []*Row)
	// RemoveVideos deletes videos with all that refers to them.
	RemoveVideos(tx Tx, ids []string)
	// Saved learns of a page in the transaction that saves it.
	Saved(tx Tx, s Saved)
	// Expired cleans up behind [Engine.Expire].
	Expired(ctx context.Context, l Limits, deleted int) error
}

// Scan copies the columns of a row. It takes what [database/sql.Row.Scan] takes.
type Scan func(dest ...any) error

// Read calls row for every row of a query.
type Read func(row func(Scan) error, query string, args ...any) error

// Batch takes statements, which run in this order: at once, or together. An argument may be a
// time, a list of texts or of numbers, or a text with characters that the home cannot hold.
type Batch interface {
	Exec(query string, args ...any)
	// Count sets n to the number of rows that a statement changes.
	Count(n *int, query string, args ...any)
	Query(row func(Scan) error, query string, args ...any)
	// Bulk runs a statement with the same first arguments for each of some rows.
	Bulk(query string, first []any, rows [][]any)
}

// Tx is the part of a transaction that writes.
type Tx struct {
	Batch
	Now time.Time
	Ask Read // at once, which may take a round trip
}

// Known is what a page needs to know of a video in the catalog.
type Known struct {
	Brief bool
	Equal bool // to the video of the page, in all that the upstream says
}

//go:embed sql/*.sql
var sharedFiles embed.FS

// Statements returns the statements that all homes share, as PostgreSQL understands them.
func Statements() map[string]string { return sqlfiles.Statements(sharedFiles) }

// Path returns the path of the file, or the URL of the database without a user and a password.
func (e *Engine) Path() string { return e.home.Path() }

// nothing is for changes that need to know nothing.
func nothing(Batch) {}

// write runs a transaction that needs to know nothing. The text doing goes into an error.
func (e *Engine) write(ctx context.Context, doing string, write func(Tx)) error {
	return e.home.Fault(doing, e.home.Change(ctx, nothing, func(tx Tx) error {
		write(tx)
		return nil
	}))
}

// each calls row for every row of a query.
func (e *Engine) each(ctx context.Context, row func(Scan) error, query string, args ...any) error {
	return e.home.View(ctx, func(read Read) error { return read(row, query, args...) })
}

// list returns the rows of a query. The function columns says where their columns go.
func list[T any](ctx context.Context, e *Engine, columns func(*T) []any, query string, args ...any) (all []T, err error) {
	err = e.each(ctx, func(scan Scan) error {
		var one T
		err := scan(columns(&one)...)
		all = append(all, one)
		return err
	}, query, args...)
	return all, err
}
