package view_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/quota"
)

var update = flag.Bool("update", false, "write the golden file")

// now is the time of these tests.
var now = time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)

// lines writes a table with a line for its columns and one for each row.
func lines(t view.Table) string {
	var names []string
	for _, c := range t.Columns {
		name := c.Name
		for mark, set := range map[string]bool{"#": c.Number, "~": c.Long} {
			if set {
				name += mark
			}
		}
		if c.Terminal {
			name = "(" + name + ")"
		}
		if c.Spare {
			name = "[" + name + "]"
		}
		names = append(names, name)
	}
	all := []string{strings.Join(names, " | ")}
	for _, r := range t.Rows {
		var cells []string
		for _, c := range r {
			cells = append(cells, cell(c))
		}
		all = append(all, strings.Join(cells, " | "))
	}
	return strings.Join(all, "\n")
}

func cell(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case time.Time:
		return v.Format("15:04")
	case view.State:
		return strings.TrimSpace(fmt.Sprintf("%s:%s %s", v.Level, v.Text, v.Note))
	case view.Reason:
		if v.Until.IsZero() {
			return v.Why
		}
		return v.Why + " until " + cell(v.Until)
	}
	return fmt.Sprint(value)
}

// shows fails unless a table has these lines.
func shows(t *testing.T, got view.Table, want ...string) {
	t.Helper()
	if text := lines(got); text != strings.Join(want, "\n") {
		t.Errorf("the table is\n%s\nand should be\n%s", text, strings.Join(want, "\n"))
	}
}

// TestJSON compares the JSON of every view with a golden file: programs rely on its names.
func TestJSON(t *testing.T) {
	views := int64(1234)
	video := catalog.Video{
		ID: "dQw4w9WgXcQ", Title: "A <title>", ChannelTitle: "A channel", Duration: 212 * time.Second, PublishedAt: now.Add(-time.Hour),
		FetchedAt: now, Statistics: &catalog.Statistics{Views: &views, FetchedAt: now},
	}
	live := catalog.Video{ID: "live", Live: "live", FetchedAt: now}
	marked := catalog.Marked{{Text: "a "}, {Text: "hit", Match: true}}
	got, err := json.MarshalIndent(map[string]any{
		"feeds":       view.Feeds([]catalog.Feed{{Region: "US", Category: "10", FetchedAt: now.Add(-time.Minute), Entries: 3, Pending: 1}}, jobs(), now, time.Hour),
		"chart":       view.OneChart(catalog.Chart{Region: "US", FetchedAt: now, Entries: []catalog.Entry{{Rank: 1, Video: video}}}, now, time.Hour),
		"empty chart": view.OneChart(catalog.Chart{Region: "US", FetchedAt: now}, now, time.Hour),
		"watch":       view.Watch{Video: view.OneVideo(live), URL: view.VideoURL(live.ID)},
		"hits":        view.Found(catalog.Results{Hits: []catalog.Hit{{Video: video, Title: marked}}, Cursor: "more"}),
		"no hits":     view.Found(catalog.Results{}),
		"no runs":     view.Runs(nil),
		"runs":        view.Runs([]catalog.RunRecord{{ID: 1, Job: "charts", StartedAt: now, State: catalog.Running}}),
		"pools":       view.Pools(usage()),
		"spend":       view.Spend(spent(), []quota.Dimension{quota.ByAccount, quota.ByJob}),
		"no spend":    view.Spend(nil, nil),
		"fleet":       view.FleetStatus(aFleet()),
		"no fleet":    view.FleetStatus(fleet.Status{}),
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	const golden = "testdata/views.json"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("the JSON differs from %s; -update rewrites it:\n%s", golden, got)
	}
}

func TestNumber(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", -1: "-1", -999: "-999", -1000: "-1,000", 1234567: "1,234,567", math.MinInt64: "-9,223,372,036,854,775,808",
	} {
		if got := view.Number(n); got != want {
			t.Errorf("Number(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestParseSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "6h": 6 * time.Hour, "7d": 7 * 24 * time.Hour, "0s": 0, "1h30m": 90 * time.Minute} {
		if got, err := view.ParseSpan(text); got != want || err != nil {
			t.Errorf("ParseSpan(%q) = %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "7", "-5h", "-1d", "1.5d", "100000d", "d", "yesterday"} {
		if got, err := view.ParseSpan(text); err == nil || !strings.Contains(err.Error(), "90s, 6h or 7d") {
			t.Errorf("ParseSpan(%q) = %s, %v, want an error with examples", text, got, err)
		}
	}
}

func TestParseMoment(t *testing.T) {
	for text, want := range map[string]time.Time{
		"2026-11-01":                now.Truncate(24*time.Hour).AddDate(0, 0, -19),
		"2026-11-20T19:00:00Z":      now.Add(-time.Hour),
		"2026-11-20T19:00:00-01:00": now,
		"7d":                        now.AddDate(0, 0, -7),
		"12h":                       now.Add(-12 * time.Hour),
	} {
		if got, err := view.ParseMoment(text, now); !got.Equal(want) || err != nil {
			t.Errorf("ParseMoment(%q) = %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "soon", "2026-13-01", "-5h", "11/20/2026"} {
		if got, err := view.ParseMoment(text, now); err == nil || !strings.Contains(err.Error(), "2026-11-01T12:00:00Z") {
			t.Errorf("ParseMoment(%q) = %s, %v, want an error with examples", text, got, err)
		}
	}
}
