package catalog

import (
	"database/sql/driver"
	"strings"

	"modernc.org/sqlite"

	"github.com/headroom-quota/headroom/ingest/catalog/words"
)

// The functions that the triggers and the view of schema/0001_catalog.sql call.
func init() {
	for name, f := range map[string]func(string) string{"catalog_words": words.Of, "catalog_tags": words.OfTags} {
		err := sqlite.RegisterDeterministicScalarFunction(name, 1, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
			text, _ := args[0].(string)
			return f(text), nil
		})
		if err != nil {
			panic(err) // the name is taken
		}
	}
}

// expression returns the phrases in the query language of FTS5, or "" if there are none.
// Words consist of letters and digits, so they need no escaping between quotes.
func expression(all []words.Phrase) string {
	var parts []string
	for _, p := range all {
		text := `"` + strings.Join(p.Words, " ") + `"`
		if p.Prefix { // the whole word ranks higher than longer words
			text = "(" + text + " OR " + text + " *)"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " AND ")
}
