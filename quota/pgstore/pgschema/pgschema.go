// Package pgschema brings the tables of a package in PostgreSQL to the version that a
// program knows. Each package has a schema of its own, so several can share a database.
//
// A program knows versions up to the number of its steps. One process at a time runs the
// steps that are missing. A step that older programs cannot work with says so in its first
// line: "-- min_program: 3" refuses programs that know less than 3 steps. A program works
// with any version that does not refuse it, so versions N and N+1 can run side by side: add
// first, and remove in a later version.
package pgschema

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/headroom-quota/headroom/internal/sqlfiles"
)

// Schema is a schema of PostgreSQL with the steps that make it.
type Schema struct {
	Name  string // in the database; letters and _ only
	Steps []Step
}

// Step makes a version of a schema from the one before.
type Step struct {
	SQL        string
	MinProgram int // the least number of steps that a program must know; 0 leaves it as it is
}

// Read reads the steps of a schema: schema/0001_name.sql and so on. It panics if the files
// are not numbered this way.
func Read(files fs.FS) (all []Step) {
	for i, text := range sqlfiles.Steps(files) {
		step := Step{SQL: text}
		line, _, _ := strings.Cut(step.SQL, "\n")
		if least, ok := strings.CutPrefix(line, "-- min_program: "); ok {
			var err error
			if step.MinProgram, err = strconv.Atoi(least); err != nil {
				panic(fmt.Sprintf("schema file %d: %v", i+1, err))
			}
		}
		all = append(all, step)
	}
	return all
}

// Unreached makes an error of connecting short: it leaves out the user, and of several tries, with
// TLS and without, all but the first.
func Unreached(err error) error {
	if lost, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		err = lost.Unwrap()
		if first, ok := errors.AsType[*net.OpError](err); ok {
			err = first
		}
	}
	return err
}

// DB is a connection or a pool.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Querier
}

// Open brings the schema to the version of this program, or leaves a newer one as it is. It
// refuses a schema whose min_program is above this program's version. A schema that is up to
// date needs no right to change it.
func (s *Schema) Open(ctx context.Context, db DB) error {
	at, err := s.Version(ctx, db)
	if err != nil {
		return err
	}
	if at.Version >= len(s.Steps) {
		return s.refuse(at)
	}
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return s.migrate(ctx, tx) })
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == "42501" {
		return fmt.Errorf("this user may not make or change the schema %s: grant it CREATE on the database, or once open it as the schema's owner: %w", s.Name, err)
	}
	return err
}

// Version says how far a schema has got, and which programs it refuses.
type Version struct{ Version, MinProgram int }

// Querier is a connection, a pool or a transaction.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Exists reports whether a schema has a table. It asks the tables of the system: to_regclass
// answers from the memory of the session, and within a transaction that has waited for another
// one it does not see what that one made.
func Exists(ctx context.Context, db Querier, schema, table string) (there bool, err error) {
	err = db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1::text AND c.relname = $2::text)`, schema, table).Scan(&there)
	return there, err
}

// Version returns the version of the schema; zero if it does not exist.
func (s *Schema) Version(ctx context.Context, db Querier) (v Version, err error) {
	if there, err := Exists(ctx, db, s.Name, "schema_version"); err != nil || !there {
		return v, err
	}
	err = db.QueryRow(ctx, "SELECT version, min_program FROM "+s.Name+".schema_version").Scan(&v.Version, &v.MinProgram)
	return v, err
}

// ErrNewer says that a newer program made tables that this one cannot use.
var ErrNewer = errors.New("a newer headroom made these tables")

func (s *Schema) refuse(at Version) error {
	if known := len(s.Steps); at.MinProgram > known {
		return fmt.Errorf("%w: the schema %s needs a program that knows version %d, and this one knows %d; upgrade", ErrNewer, s.Name, at.MinProgram, known)
	}
	return nil
}

// migrate runs the missing steps. Other processes wait, and then find them done.
func (s *Schema) migrate(ctx context.Context, tx pgx.Tx) error {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.Name)) // it never fails
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1::bigint)", int64(h.Sum64())); err != nil {
		return err
	}
	at, err := s.Version(ctx, tx)
	if err != nil {
		return err
	}
	if at.Version == 0 {
		err = exec(ctx, tx, "CREATE SCHEMA IF NOT EXISTS "+s.Name+`;
			CREATE TABLE `+s.Name+`.schema_version (one integer PRIMARY KEY CHECK (one = 1), version integer NOT NULL, min_program integer NOT NULL);
			INSERT INTO `+s.Name+`.schema_version VALUES (1, 0, 0)`)
	}
	for i := at.Version; i < len(s.Steps) && err == nil; i++ {
		if err = exec(ctx, tx, s.Steps[i].SQL); err != nil {
			err = fmt.Errorf("version %d of the schema %s: %w", i+1, s.Name, err)
		}
		at.MinProgram = max(at.MinProgram, s.Steps[i].MinProgram)
	}
	if err != nil {
		return err
	}
	if err := s.refuse(at); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "UPDATE "+s.Name+".schema_version SET version = greatest(version, $1::integer), min_program = $2::integer", len(s.Steps), at.MinProgram)
	return err
}

// exec runs statements that take no arguments.
func exec(ctx context.Context, tx pgx.Tx, text string) error {
	_, err := tx.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol)
	return err
}

// Arrays returns an array for each column of rows, for a statement that takes all rows at once.
// Their values are texts, numbers, bytes and truths. There is one row at least.
func Arrays(rows [][]any) (all []any) {
	for i, value := range rows[0] {
		switch value.(type) {
		case string:
			all = append(all, column[string](rows, i))
		case *string:
			all = append(all, column[*string](rows, i))
		case int64:
			all = append(all, column[int64](rows, i))
		case *int64:
			all = append(all, column[*int64](rows, i))
		case bool:
			all = append(all, column[bool](rows, i))
		case []byte:
			all = append(all, column[[]byte](rows, i))
		default:
			panic(fmt.Sprintf("an array of %T", value))
		}
	}
	return all
}

func column[T any](rows [][]any, i int) []T {
	all := make([]T, len(rows))
	for n := range rows {
		all[n] = rows[n][i].(T)
	}
	return all
}
