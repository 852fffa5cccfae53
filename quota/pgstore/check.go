package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// oldest is the first version of PostgreSQL that the statements are made for.
const oldest = 140000

// Check connects, makes the tables if they are missing, and looks at the server's settings
// and this user's rights. An error means that the ledger cannot be used. It names each right
// that is missing, with the GRANT to type. A warning names a setting that should be another.
func (s *Store) Check(ctx context.Context) (warnings []string, err error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	b := s.server
	ctx, cancel := b.bound(ctx)
	defer cancel()
	missing, err := b.missing(ctx)
	switch {
	case err != nil:
		return nil, b.fault("check", err)
	case len(missing) > 0:
		return nil, &RightsError{Where: b.where, Grants: missing}
	}
	if err := b.open(ctx); err != nil {
		return nil, b.fault("check", err)
	}
	return b.settings(ctx)
}

// RightsError lists the rights that a user lacks.
type RightsError struct {
	Where  string   // the ledger, without user and password
	Grants []string // the statements that give them
}

func (e *RightsError) Error() string {
	text := fmt.Sprintf("the user of %s lacks rights\nAs the owner of the database, type in psql:", e.Where)
	for _, g := range e.Grants {
		text += "\n  " + g
	}
	return text
}

// missing returns the statements that give this user the rights it lacks.
func (b *server) missing(ctx context.Context) (grants []string, err error) {
	version, err := b.schema.Version(ctx, b.pool)
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "42501" { // it is there
		return b.grants(ctx, "rights_use")
	}
	if err != nil {
		return nil, err
	}
	if version.Version < len(b.schema.Steps) {
		// The owner of an older schema needs no right on the database to bring it up to date.
		return b.grants(ctx, "rights_make")
	}
	return b.grants(ctx, "rights_use")
}

func (b *server) grants(ctx context.Context, name string) (all []string, err error) {
	rows, err := b.pool.Query(ctx, b.sql[name], b.schema.Name)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// settings warns about settings under which a crash loses grants.
func (b *server) settings(ctx context.Context) (warnings []string, err error) {
	var version int
	var standby bool
	var fsync, commit, pages string
	err = b.pool.QueryRow(ctx, b.sql["settings"]).Scan(&version, &standby, &fsync, &commit, &pages)
	switch {
	case err != nil:
		return nil, b.fault("check", err)
	case version < oldest:
		return nil, fmt.Errorf("%s is PostgreSQL %d; a ledger needs %d or later", b.where, version/10000, oldest/10000)
	case standby:
		return nil, fmt.Errorf("%s is a standby: connect to its primary, or name all hosts and add target_session_attrs=read-write", b.where)
	}
	if fsync == "off" {
		warnings = append(warnings, b.where+" has fsync off: a crash of its machine forgets spend; set fsync on")
	}
	if pages == "off" {
		warnings = append(warnings, b.where+" has full_page_writes off: a crash of its machine can damage the ledger; set full_page_writes on")
	}
	if commit == "off" {
		warnings = append(warnings, b.where+" has synchronous_commit off: a crash forgets the last spend; set synchronous_commit on")
	}
	return warnings, nil
}
