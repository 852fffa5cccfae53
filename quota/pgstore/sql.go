package pgstore

import (
	"embed"
	"strings"
	"sync"

	"github.com/headroom-quota/headroom/internal/sqltext"
	"github.com/headroom-quota/headroom/quota/pgstore/pgschema"
)

//go:embed schema/*.sql
var schemaFiles embed.FS

//go:embed sql/*.sql
var sqlFiles embed.FS

// defaultSchema is the schema of a ledger in its database. The files name it.
const defaultSchema = "headroom_ledger"

// The files are read when the first ledger is opened: other programs have a fast start.
var (
	steps      = sync.OnceValue(func() []pgschema.Step { return pgschema.Read(schemaFiles) })
	statements = sync.OnceValue(func() map[string]string { return sqltext.Statements(sqlFiles) })
)

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
