package ingest_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// TestHostilePages: whatever stands on a page is kept as text, and found; a page that
// is repeated, endless or huge ends with the job's pages.
func TestHostilePages(t *testing.T) {
	for name, title := range map[string]string{
		"control characters": "a\x1b[31mred\x07\u009b2J needle",
		"nul":                "a\x00needle b\x00",
		"right to left":      "\u202egnp.exe\u202c needle \u200f\u061c",
		"a hundred kB":       strings.Repeat("long needle ", 10_000),
		"one word of 100 kB": "needle " + strings.Repeat("x", 100_000),
		"accents on accents": "needle " + "e" + strings.Repeat("\u0301", 5_000),
		"SQL and FTS":        `needle"); DROP TABLE videos; -- NEAR(" OR * ^ {title}:`,
		"beyond planes":      "needle \U0010ffff\ufffe\ufeff\U000e0041",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 100, charts(func(j *ingest.Job) { j.Pages, j.Regions = 3, []string{"US"} }))
			r.server.Close()
			var asked int
			r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked++
				var items []string
				for i := range 6 { // each twice
					items = append(items, fmt.Sprintf(`{"id":"v%d","snippet":{"title":%s,"tags":[%[2]s],"publishedAt":"2026-11-20T10:00:00Z"}}`, i/2, quoted(title)))
				}
				_, _ = io.WriteString(w, `{"kind":"youtube#videoListResponse","nextPageToken":"again","items":[`+strings.Join(items, ",")+`]}`)
			}))
			t.Cleanup(r.server.Close)
			r.remake()
			rep := r.run("charts", ingest.Occasion{})
			if rep.State != catalog.Done || asked != 3 || rep.Units != 3 {
				t.Fatalf("%s after %d calls: %v", rep.State, asked, rep.Work[0].Err)
			}
			chart, err := r.catalog.Chart(t.Context(), "US", "")
			r.must(err)
			if len(chart.Entries) != 3 || chart.Entries[0].Video.Title != title {
				t.Errorf("the chart has %d entries, the first %.40q, want 3 of %.40q", len(chart.Entries), chart.Entries[0].Video.Title, title)
			}
			found, err := r.catalog.Search(t.Context(), catalog.Query{Text: "needle", Limit: 100})
			if err != nil || len(found.Hits) != 3 {
				t.Errorf("%d are found: %v", len(found.Hits), err)
			}
			if problems, err := r.catalog.Check(t.Context()); err != nil || problems != nil {
				t.Errorf("%q, %v", problems, err)
			}
		})
	}
}

// quoted is a text in JSON, each of its characters escaped.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		if r > 0xffff {
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String() + `"`
}
