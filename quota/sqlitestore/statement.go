package sqlitestore

import (
	"embed"
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

	beginLook statement = "BEGIN"
	firstLook statement = "SELECT 1 FROM POOLS LIMIT 1"

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
	memberDrop     statement = "member_drop"
	familyFind     statement = "family_find"
	familySave     statement = "family_save"
	spendSum       statement = "spend"
	identityFind   statement = "identity_find"
	identityMove   statement = "identity_move"
)

// text returns what SQLite is told. Nothing may follow the statement, not even a
// line's end: the driver would compile it anew each time.
func (s statement) text() (string, error) {
	if strings.ToUpper(string(s)) == string(s) || strings.Contains(string(s), " ") {
		return string(s), nil
	}
	b, err := sqlFiles.ReadFile("sql/" + string(s) + ".sql")
	return strings.TrimSpace(string(b)), err
}
