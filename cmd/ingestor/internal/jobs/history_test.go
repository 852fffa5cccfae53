package jobs

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// recorded are runs, the latest first.
type recorded []catalog.RunRecord

func (all recorded) Runs(_ context.Context, q catalog.RunsQuery) (some []catalog.RunRecord, _ error) {
	for _, r := range all {
		if (q.Before == 0 || r.ID < q.Before) && len(some) < q.Limit {
			some = append(some, r)
		}
	}
	return some, nil
}

// TestAJobThatWaitsHidesNoOther: a job that is due each minute, and waits for tomorrow's units, has
// one row, which counts all its runs. The limit is one of rows.
func TestAJobThatWaitsHidesNoOther(t *testing.T) {
	tomorrow := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		minutes, limit, rows int
		times                string
	}{
		{600, 5, 5, "tap: no units (600 times since 2026-11-20 14:01 UTC)"},
		{600, 2, 2, "tap: no units (600 times since 2026-11-20 14:01 UTC)"},
		{600, 40, 12, "tap: no units (600 times since 2026-11-20 14:01 UTC)"},
		{9000, 5, 5, "tap: no units (4,923 times or more since "},
	} {
		t.Run(fmt.Sprint(c.minutes, c.limit), func(t *testing.T) {
			var all recorded
			for i := range c.minutes + 1 { // the first of all spent the units
				run := catalog.RunRecord{ID: int64(2 * (c.minutes - i + 1)), Job: "tap", StartedAt: tomorrow.Add(-8*time.Hour - time.Duration(i)*time.Minute), State: catalog.Deferred, ResumeAt: tomorrow, Error: "tap: no units"}
				if i == c.minutes {
					run.Work = []catalog.WorkRecord{{Units: 9}}
				}
				if all = append(all, run); i%60 == 59 {
					all = append(all, catalog.RunRecord{ID: run.ID - 1, Job: "charts", StartedAt: run.StartedAt, State: catalog.Done})
				}
			}
			runs, err := shortRuns(t.Context(), all, catalog.RunsQuery{Limit: c.limit})
			if err != nil {
				t.Fatal(err)
			}
			var s console.Sheet
			s.View(view.RunTable(runs))
			if text := s.Text.String(); len(runs) != c.rows || !strings.Contains(text, c.times) || !strings.Contains(text, "charts") {
				t.Errorf("%d rows, want %d with %s:\n%s", len(runs), c.rows, c.times, text)
			}
		})
	}
}

// TestRunsFitATerminal: beside a column for each pool, runs have a line each at 80 columns.
func TestRunsFitATerminal(t *testing.T) {
	at := time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)
	s := console.Sheet{Width: 80}
	s.View(view.RunTable(view.ShortRuns([]catalog.RunRecord{{
		ID: 1426, Job: "trending", StartedAt: at, EndedAt: at.Add(time.Minute), State: catalog.Deferred,
		Work: []catalog.WorkRecord{{Pages: 12, New: 1234, Updated: 17, Units: 16, Charges: catalog.Charges{"youtube/searches": 4, "youtube/units": 12}}},
	}}, true)))
	want := " RUN  JOB       STARTED               TOOK  STATE     SEARCHES  UNITS    NEW\n" +
		"1426  trending  " + console.Stamp(at) + "    1m  deferred         4     12  1,234\n"
	if text := s.Text.String(); text != want {
		t.Errorf("got\n%swant\n%s", text, want)
	}
}
