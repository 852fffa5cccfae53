package setup_test

import (
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/setup"
)

// TestTheSchemaHasWordsAndRanges of settings, of jobs, and of the items of lists.
func TestTheSchemaHasWordsAndRanges(t *testing.T) {
	text, err := setup.SettingsSchema()
	if err != nil {
		t.Fatal(err)
	}
	schema := strings.Join(strings.Fields(string(text)), " ")
	for _, want := range []string{
		`"fleet_size": { "type": "integer", "minimum": 1,`,
		`"keep_statistics_days": { "type": "integer", "minimum": 30,`,
		`"share": { "type": "integer", "maximum": 100, "minimum": 1,`,
		`"log_format": { "type": "string", "enum": [ "auto", "text", "json" ],`,
		`"misfire": { "type": "string", "enum": [ "skip", "once" ],`,
		`"rights": { "items": { "type": "string", "enum": [ "reserve", "read", "limits", "operate" ] }, "type": "array",`,
		`"budget": { "anyOf": [ { "type": "integer", "minimum": 0 }, { "type": "string", "pattern": "^([0-9]+|[0-9]+(\\.[0-9]{1,6})? USD)$", "examples": [ "5 USD" ] } ], "description": "What it may spend on a day in UTC:`,
	} {
		if !strings.Contains(schema, want) {
			t.Errorf("the schema lacks %s:\n%s", want, text)
		}
	}
}
