package pgstore

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"sync"

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
	statements = sync.OnceValue(readStatements)
)

// readStatements reads the statements of sql/*.sql by their names. The comment before each of
// them begins with its name.
func readStatements() map[string]string {
	named := regexp.MustCompile(`^-- ([a-z_]+) [a-z]`)
	all := make(map[string]string)
	names, err := fs.Glob(sqlFiles, "sql/*.sql")
	if err != nil {
		panic(err) // the pattern is wrong
	}
	for _, name := range names {
		text, err := sqlFiles.ReadFile(name)
		if err != nil {
			panic(err) // it was embedded
		}
		for block := range strings.SplitSeq(string(text), "\n\n") {
			title := named.FindStringSubmatch(block)
			if title == nil {
				panic(fmt.Sprintf("%s: a statement has no name: %s", name, block))
			}
			var lines []string
			for line := range strings.Lines(block) {
				if !strings.HasPrefix(line, "--") {
					lines = append(lines, line)
				}
			}
			all[title[1]] = strings.TrimSuffix(strings.TrimSpace(strings.Join(lines, "")), ";")
		}
	}
	return all
}

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
