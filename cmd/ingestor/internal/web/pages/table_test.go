package pages

import (
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
)

// page is the state of a page at 20:00 UTC.
var page = &state{State: &verdict.State{Now: time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)}}

// cellHTML returns a cell of a column as a page has it.
func cellHTML(t *testing.T, c view.Column, value any) string {
	t.Helper()
	table := page.table("A caption", false, view.Table{Columns: []view.Column{{Name: "name"}, c}, Rows: [][]any{{"first", value}}})
	var b strings.Builder
	if err := templates().ExecuteTemplate(&b, "table", table); err != nil {
		t.Fatal(err)
	}
	_, row, _ := strings.Cut(b.String(), `<th scope="row">first</th>`)
	html, _, _ := strings.Cut(row, "</tr>")
	return html
}

func TestCells(t *testing.T) {
	const resumes = `. Resumes at <time datetime="2026-11-20T21:00:00Z">21:00 UTC</time> <span class="relative">(in 1 h)</span>`
	for _, c := range []struct {
		name   string
		column view.Column
		value  any
		want   string
	}{
		{"text is escaped", view.Column{Name: "job"}, "<b>", `<td data-of="Job">&lt;b&gt;</td>`},
		{"an empty one stays", view.Column{Name: "job"}, nil, `<td data-of="Job"></td>`},
		{"figures are on the right", view.Column{Name: "units", Number: true}, int64(1234), `<td data-of="Units" class="n">1,234</td>`},
		{"a phone may leave one out", view.Column{Name: "pages", Number: true, Spare: true}, int64(1), `<td data-of="Pages" class="n spare">1</td>`},
		{"a page leaves out what is for terminals", view.Column{Name: "run", Terminal: true}, int64(1), ""},
		{"a span", view.Column{Name: "took"}, 90 * time.Second, `<td data-of="Took">1 min</td>`},
		{"a time", view.Column{Name: "started"}, page.Now, `<td data-of="Started"><time datetime="2026-11-20T20:00:00Z">20:00 UTC</time> <span class="relative">(now)</span></td>`},
		{"a state has its level", view.Column{Name: "state"}, view.State{Level: view.Bad, Text: "failed"}, `<td data-of="State"><span class="badge bad">failed</span></td>`},
		{"a state has its note", view.Column{Name: "state"}, view.State{Level: view.Good, Text: "fresh", Note: "no job"}, `<td data-of="State"><span class="badge good">fresh</span> <span class="relative">no job</span></td>`},
		{"a reason is escaped", view.Column{Name: "why"}, view.Reason{Why: "<b>"}, `<td data-of="Why" class="long"><bdi>&lt;b&gt;</bdi></td>`},
		{"a reason says when work resumes", view.Column{Name: "why"}, view.Reason{Until: page.Now.Add(time.Hour)}, `<td data-of="Why" class="long"><bdi></bdi>` + resumes + `</td>`},
		{"but not when that is over", view.Column{Name: "why"}, view.Reason{Until: page.Now}, `<td data-of="Why" class="long"><bdi></bdi></td>`},
		{"a link", view.Column{Name: "region"}, link{text: "US", to: "/regions/US?a=b&c=d", id: "us"}, `<td data-of="Region"><a id="us" href="/regions/US?a=b&amp;c=d">US</a></td>`},
		{"a link that leads into code is cut", view.Column{Name: "region"}, link{text: "US", to: "javascript:alert(1)", id: "us"}, `<td data-of="Region"><a id="us" href="#ZgotmplZ">US</a></td>`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := cellHTML(t, c.column, c.value); got != c.want {
				t.Errorf("it is\n%s\nand should be\n%s", got, c.want)
			}
		})
	}
}
