package sqlitestore

import (
	"embed"

	"github.com/headroom-quota/headroom/internal/sqlfiles"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

//go:embed schema/*.sql
var schemaFiles embed.FS

//go:embed sql/*.sql
var sqlFiles embed.FS

// files describes the files of this package.
var files = &sqlitefile.Kind{
	Name:        "ledger",
	Application: 1215456356, // see 0001_ledger.sql
	Spared:      "what is granted",
	Full:        "make room: nothing that was granted is lost",
	Damaged:     "stop its users, see what PRAGMA integrity_check says, restore a backup and adjust what was spent since",
	Steps:       sqlfiles.Steps(schemaFiles),
	Statements:  sqlfiles.Statements(sqlFiles),
}
