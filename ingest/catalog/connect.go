package catalog

import (
	"database/sql"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

// files are those that this package keeps.
var files = &sqlitefile.Kind{
	Name:        "catalog",
	Application: 1215458659, // see 0001_catalog.sql
	Spared:      "a page that was paid for",
	Full:        "make room, and the next run goes on where this one stopped",
	Damaged:     "put back a backup, or move it away and fetch anew; doctor mends its index of words only",
	Pragmas:     []string{"secure_delete(1)", "cache_size(-65536)", "temp_store(2)"},
	Settings:    []sqlitefile.Setting{{Pragma: "secure_delete", Want: "1", Otherwise: "what is deleted would stay in the file"}},
}

// fault is an error of the file: what was done, and what to do about it.
func (c *Catalog) fault(doing string, err error) error { return files.Fault(doing, c.path, err) }

// readers is how many may look at once.
const readers = 4

// connect opens a pool of connections to the file at path.
func connect(path string, mode sqlitefile.Mode, most int) (*sql.DB, error) {
	c, err := files.Connector(files.DSN(path, mode))
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(most)
	return db, nil
}
