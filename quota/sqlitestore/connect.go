package sqlitestore

import (
	"embed"
	"errors"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
)

// files are those that this package keeps.
var files = &sqlitefile.Kind{
	Name:        "ledger",
	Application: 1215456356, // see 0001_ledger.sql
	Spared:      "what is granted",
	Full:        "make room: nothing that was granted is lost",
	Damaged:     "stop its users, see what PRAGMA integrity_check says, restore a backup and adjust what was spent since",
}

//go:embed schema/*.sql
var schemaFiles embed.FS

//go:embed sql/*.sql
var sqlFiles embed.FS

var (
	steps      = sqlitefile.Steps(schemaFiles)
	statements = sqlitefile.ReadStatements(sqlFiles)
)

// checkPath returns the path whole, or says why no ledger can be there.
func checkPath(path string) (string, error) {
	whole, err := files.Path(path)
	if errors.Is(err, sqlitefile.ErrNoName) {
		err = quota.BadInput("%v; a ledger that ends with the process is memstore", err)
	}
	return whole, err
}

// readers is how many may look at once.
const readers = 4
