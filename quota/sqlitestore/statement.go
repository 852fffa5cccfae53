package sqlitestore

import (
	"context"
	"embed"
	"fmt"
	"strings"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// A statement is named by its file under sql, or is its own text.
type statement string

const (
	begin    statement = "BEGIN IMMEDIATE"
	commit   statement = "COMMIT"
	rollback statement = "ROLLBACK"

	pageFind       statement = "page_find"
	pageLoad       statement = "page_load"
	pageSave       statement = "page_save"
	pageAdd        statement = "page_add"
	birthAdd       statement = "birth_add"
	birthSave      statement = "birth_save"
	reservationAdd statement = "reservation_add"
	receiptFind    statement = "receipt_find"
	receiptSettle  statement = "receipt_settle"
	pruneLook      statement = "prune_look"
	pruneRows      statement = "prune_rows"
	pruneLived     statement = "prune_lived"
	memberFind     statement = "member_find"
	memberAdd      statement = "member_add"
	memberSave     statement = "member_save"
	memberOldest   statement = "member_oldest"
	memberAhead    statement = "member_ahead"
	memberRebase   statement = "member_rebase"
	memberDrop     statement = "member_drop"
	familyCount    statement = "family_count"
	familyGrow     statement = "family_grow"
	identityMove   statement = "identity_move"

	spendSum statement = "spend" // only read, and so not prepared
)

// prepared are those that the writer keeps prepared.
var prepared = []statement{
	begin, commit, rollback,
	pageFind, pageLoad, pageSave, pageAdd, birthAdd, birthSave,
	reservationAdd, receiptFind, receiptSettle, pruneLook, pruneRows, pruneLived,
	memberFind, memberAdd, memberSave, memberOldest, memberAhead, memberRebase, memberDrop, familyCount, familyGrow, identityMove,
}

// text returns what SQLite is told. Nothing may follow the statement, not even a
// line's end: the driver would compile it anew each time.
func (s statement) text() (string, error) {
	if strings.ToUpper(string(s)) == string(s) {
		return string(s), nil
	}
	b, err := sqlFiles.ReadFile("sql/" + string(s) + ".sql")
	return strings.TrimSpace(string(b)), err
}

// prepare compiles the statements of the writer.
func prepare(ctx context.Context, c conn) (map[statement]stmt, error) {
	all := make(map[statement]stmt, len(prepared))
	for _, st := range prepared {
		text, err := st.text()
		if err != nil {
			return all, err
		}
		compiled, err := c.PrepareContext(ctx, text)
		if err != nil {
			return all, fmt.Errorf("prepare %s: %w", st, err)
		}
		all[st] = compiled.(stmt)
	}
	return all, nil
}
