// Package guides reads the pages for users and their listings, for the tests that run them.
package guides

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Root is the root of the tree, above the folder in which go test runs a package.
var Root = func() string {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			panic("no go.work above the folder of this test")
		}
	}
	panic(err)
}()

// Read returns the text of a file, by its path from the root.
func Read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Listings returns the listings of a kind, such as "yaml", of a page.
func Listings(t testing.TB, path, kind string) []string {
	t.Helper()
	var all []string
	for _, m := range regexp.MustCompile("(?ms)^```"+kind+"\n(.*?)^```$").FindAllStringSubmatch(Read(t, path), -1) {
		all = append(all, m[1])
	}
	return all
}
