// Package sqlfiles reads the SQL that a package embeds: the steps of its schema, and its
// statements. It panics if the files are not as they should be.
package sqlfiles

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Steps reads the steps of a schema: schema/0001_name.sql and so on. The first step makes
// version 1.
func Steps(files fs.FS) (all []string) {
	for i, name := range names(files, "schema/*.sql") {
		if want := fmt.Sprintf("schema/%04d_", i+1); !strings.HasPrefix(name, want) {
			panic(fmt.Sprintf("schema file %s should begin with %s", name, want))
		}
		all = append(all, read(files, name))
	}
	return all
}

// Statements reads the statements of the files of a folder, by name. Each begins with a comment
// whose first word is its name, and ends with a semicolon and an empty line.
func Statements(files fs.FS) map[string]string {
	all := map[string]string{}
	for _, name := range names(files, "*/*.sql") {
		for part := range strings.SplitSeq(read(files, name), "\n\n") {
			// SQLite's driver would compile a statement with text behind it at each call.
			part = strings.TrimSuffix(strings.TrimSpace(part), ";")
			title, _, _ := strings.Cut(strings.TrimPrefix(part, "-- "), " ")
			if _, twice := all[title]; twice || !strings.HasPrefix(part, "-- ") {
				panic(fmt.Sprintf("%s: %q is not the name of a new statement", path.Base(name), title))
			}
			all[title] = part
		}
	}
	return all
}

func names(files fs.FS, pattern string) []string {
	all, err := fs.Glob(files, pattern)
	if err != nil {
		panic(err) // the pattern is wrong
	}
	return all
}

func read(files fs.FS, name string) string {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		panic(err) // it was embedded
	}
	return string(text)
}
