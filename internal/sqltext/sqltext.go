// Package sqltext reads the SQL that a package embeds: the steps of its schema, and its
// statements. It panics if the files are not as it expects, because they are embedded.
package sqltext

import (
	"fmt"
	"io/fs"
	"strings"
)

// Steps reads the steps of a schema: schema/0001_name.sql and so on. The first step makes
// version 1.
func Steps(files fs.FS) (all []string) {
	for name, text := range read(files, "schema/*.sql") {
		if want := fmt.Sprintf("schema/%04d_", len(all)+1); !strings.HasPrefix(name, want) {
			panic(fmt.Sprintf("schema file %s should begin with %s", name, want))
		}
		all = append(all, text)
	}
	return all
}

// Statements reads the statements of sql/*.sql by name. Each begins with a comment whose
// first word is its name, and ends with a semicolon and an empty line.
func Statements(files fs.FS) map[string]string {
	all := make(map[string]string)
	for name, text := range read(files, "sql/*.sql") {
		for part := range strings.SplitSeq(text, "\n\n") {
			part = strings.TrimSpace(part)
			title, _, _ := strings.Cut(strings.TrimPrefix(part, "-- "), " ")
			var lines []string
			for line := range strings.Lines(part) {
				if !strings.HasPrefix(line, "--") {
					lines = append(lines, line)
				}
			}
			if _, twice := all[title]; twice || !strings.HasPrefix(part, "-- ") {
				panic(fmt.Sprintf("%s: %q is not the name of a new statement", name, title))
			}
			// SQLite's driver would compile a statement with text behind it at each call.
			all[title] = strings.TrimSuffix(strings.Join(lines, ""), ";")
		}
	}
	return all
}

// read returns the names and the texts of files, in the order of their names.
func read(files fs.FS, pattern string) func(yield func(name, text string) bool) {
	names, err := fs.Glob(files, pattern)
	if err != nil {
		panic(err)
	}
	return func(yield func(name, text string) bool) {
		for _, name := range names {
			text, err := fs.ReadFile(files, name)
			if err != nil {
				panic(err)
			}
			if !yield(name, string(text)) {
				return
			}
		}
	}
}
