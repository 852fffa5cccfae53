// Package headroom holds the price books that are built into the program.
//
// The ledger that spends by them is in package quota.
package headroom

import (
	"embed"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

var (
	//go:embed costs.yaml
	costs []byte
	//go:embed ingest/youtube/youtube-2025.yaml
	youtube2025 []byte
	//go:embed quota/book/builtin/*.yaml
	others embed.FS
)

// Builtin returns the text of a built-in price book. "builtin" has the prices of the
// YouTube Data API, "builtin/youtube-2025" its older ones, and "builtin/github" and so
// on those of other upstreams: see [Builtins]. It is what [book.Options] asks for.
func Builtin(name string) ([]byte, bool) {
	switch name {
	case "builtin":
		return costs, true
	case "builtin/youtube-2025":
		return youtube2025, true
	}
	if other, ok := strings.CutPrefix(name, "builtin/"); ok {
		text, err := others.ReadFile("quota/book/builtin/" + other + ".yaml")
		return text, err == nil
	}
	return nil, false
}

// Builtins returns the names of the built-in price books, sorted.
func Builtins() []string {
	names := []string{"builtin", "builtin/youtube-2025"}
	files, _ := others.ReadDir("quota/book/builtin")
	for _, f := range files {
		names = append(names, "builtin/"+strings.TrimSuffix(f.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// IsBuiltin reports whether a path names a built-in price book, or would: "builtin", or
// what begins with "builtin/". For a file of such a name, write ./builtin/NAME.
func IsBuiltin(path string) bool {
	return path == "builtin" || strings.HasPrefix(path, "builtin/")
}

// Load reads the price book at path: a file, or a built-in one by its name, such as
// "builtin/github". An empty path is "builtin". A book may extend built-in ones. Faults
// are [book.Error]s and name file, line and column.
func Load(path string) (*quota.Book, error) {
	if path == "" {
		path = "builtin"
	}
	text, known := Builtin(path)
	switch {
	case known:
	case IsBuiltin(path):
		return nil, quota.BadInput("there is no built-in price book %q; there are %s\nFor a file of that name, write ./%[1]s", path, strings.Join(Builtins(), ", "))
	default:
		var err error
		if text, err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("read price book: %w", err)
		}
	}
	return book.Parse(path, text, &book.Options{Builtins: Builtin, Names: Builtins()})
}
