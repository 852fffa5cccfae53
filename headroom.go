// Package headroom holds the price books that are built into the program.
//
// The ledger that spends by them is in package quota.
package headroom

import (
	_ "embed"
	"fmt"
	"os"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

var (
	//go:embed costs.yaml
	costs []byte
	//go:embed ingest/youtube/youtube-2025.yaml
	youtube2025 []byte
)

// Builtin returns the text of a built-in price book: "builtin", which is
// today's, or "builtin/youtube-2025", the older prices of a single pool. It is
// what [book.Options] asks for.
func Builtin(name string) ([]byte, bool) {
	switch name {
	case "builtin":
		return costs, true
	case "builtin/youtube-2025":
		return youtube2025, true
	}
	return nil, false
}

// Load reads the price book at path; an empty path is the built-in one. A book
// may extend a built-in one. Faults are [book.Error]s and name file, line
// and column.
func Load(path string) (*quota.Book, error) {
	text, name := costs, "builtin"
	if path != "" {
		var err error
		if text, err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("read price book: %w", err)
		}
		name = path
	}
	return book.Parse(name, text, &book.Options{Builtins: Builtin})
}
