package view_test

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// runs are one under way, one that is done, one of which work failed and was deferred, and
// one that was ended.
func runs() []catalog.RunRecord {
	return []catalog.RunRecord{
		{ID: 1004, Job: "charts", StartedAt: now, State: catalog.Running},
		{ID: 1003, Job: "charts", StartedAt: now.Add(-time.Hour), EndedAt: now.Add(-59 * time.Minute), State: catalog.Done, Work: []catalog.WorkRecord{
			{Work: "US", State: catalog.Done, Pages: 2, Units: 3, New: 4, Updated: 5}, {Work: "DE", State: catalog.Done, Pages: 20, Units: 30, New: 40, Updated: 50},
		}},
		{ID: 1002, Job: "news", StartedAt: now.Add(-2 * time.Hour), EndedAt: now.Add(-2 * time.Hour), State: catalog.Failed, ResumeAt: now.Add(time.Hour), Work: []catalog.WorkRecord{
			{Work: "music in US", State: catalog.Deferred, Error: "refused", ResumeAt: now.Add(time.Hour)},
			{Work: "game in US", State: catalog.Failed, Error: "503"},
			{Work: "game in DE", State: catalog.Failed},
			{Work: "music in DE", State: catalog.Failed, Error: "500"},
		}},
		{ID: 1001, Job: "news", StartedAt: now.Add(-3 * time.Hour), EndedAt: now.Add(-3 * time.Hour), State: catalog.Deferred, Error: "max_runtime is over", Work: []catalog.WorkRecord{
			{Work: "", State: catalog.Failed, Error: "503"},
		}},
	}
}

func TestRunTable(t *testing.T) {
	shows(t, view.RunTable(view.ShortRuns(runs(), true)),
		"(run#) | job~ | started | [took#] | state | [pages#] | units# | new# | [updated#] | (why~)",
		"1004 | charts | 20:00 |  | good:running | 0 | 0 | 0 | 0 | ",
		"1003 | charts | 19:00 | 1m0s | good:done | 22 | 33 | 44 | 55 | ",
		"1002 | news | 18:00 | 0s | bad:failed | 0 | 0 | 0 | 0 | game in US: 503 (and 2 more: `ingestor runs --work` shows them) until 21:00",
		"1001 | news | 17:00 | 0s | warn:deferred | 0 | 0 | 0 | 0 | max_runtime is over",
	)
}

// TestRunsThatWaitShareARow: a job that is due each hour, and waits for tomorrow's units, has one row.
func TestRunsThatWaitShareARow(t *testing.T) {
	tomorrow, refused := now.Add(12*time.Hour), "not started: refused"
	var all []catalog.RunRecord
	for i := range 4 {
		at := now.Add(-time.Duration(i) * time.Hour)
		run := catalog.RunRecord{ID: int64(9 - 2*i), Job: "charts", StartedAt: at, EndedAt: at, State: catalog.Deferred, ResumeAt: tomorrow, Error: refused}
		if i == 3 { // the run that used up the quota
			run.Work = []catalog.WorkRecord{{Work: "US", State: catalog.Deferred, Pages: 2, Units: 2}}
		}
		other := catalog.RunRecord{ID: run.ID - 1, Job: "news", StartedAt: at, EndedAt: at, State: catalog.Deferred, ResumeAt: now.Add(time.Duration(i) * time.Minute), Error: refused}
		all = append(all, run, other)
	}
	shows(t, view.RunTable(view.ShortRuns(all[:7], true)),
		"(run#) | job~ | started | [took#] | state | [pages#] | units# | new# | [updated#] | (why~)",
		"9 | charts | 20:00 | 0s | warn:deferred | 0 | 0 | 0 | 0 | not started: refused (3 times since 2026-11-20 18:00 UTC) until 08:00",
		"8 | news | 20:00 | 0s | warn:deferred | 0 | 0 | 0 | 0 | not started: refused until 20:00",
		"6 | news | 19:00 | 0s | warn:deferred | 0 | 0 | 0 | 0 | not started: refused until 20:01",
		"4 | news | 18:00 | 0s | warn:deferred | 0 | 0 | 0 | 0 | not started: refused until 20:02",
		"3 | charts | 17:00 | 0s | warn:deferred | 2 | 2 | 0 | 0 | not started: refused until 08:00",
	)
}

// TestWorkTable: a narrow terminal wraps why work stopped, and cuts none of it.
func TestWorkTable(t *testing.T) {
	shows(t, view.WorkTable(runs()[1:]),
		"run# | job~ | work~ | state | [pages#] | units# | new# | [updated#] | (why)",
		"1003 | charts | US | good:done | 2 | 3 | 4 | 5 | ",
		"1003 | charts | DE | good:done | 20 | 30 | 40 | 50 | ",
		"1002 | news | music in US | warn:deferred | 0 | 0 | 0 | 0 | refused until 21:00",
		"1002 | news | game in US | bad:failed | 0 | 0 | 0 | 0 | 503",
		"1002 | news | game in DE | bad:failed | 0 | 0 | 0 | 0 | ",
		"1002 | news | music in DE | bad:failed | 0 | 0 | 0 | 0 | 500",
		"1001 | news |  | bad:failed | 0 | 0 | 0 | 0 | 503",
	)
}

// TestRunsOfSeveralPools: units of several pools are in columns of their own, and are no sum.
func TestRunsOfSeveralPools(t *testing.T) {
	all := []catalog.RunRecord{
		{ID: 1426, Job: "news", StartedAt: now, EndedAt: now, State: catalog.Done, Work: []catalog.WorkRecord{
			{Work: "US", State: catalog.Done, Units: 3, Charges: catalog.Charges{"youtube/searches": 1, "youtube/units": 2}},
			{Work: "DE", State: catalog.Done, Units: 4, Charges: catalog.Charges{"youtube/searches": 4}},
		}},
		{ID: 1425, Job: "charts", StartedAt: now, EndedAt: now, State: catalog.Deferred, Work: []catalog.WorkRecord{{Work: "US", State: catalog.Deferred}}},
	}
	short := view.ShortRuns(all, true)
	shows(t, view.RunTable(short),
		"(run#) | job~ | started | [took#] | state | [pages#] | searches# | units# | new# | [updated#]",
		"1426 | news | 20:00 | 0s | good:done | 0 | 5 | 2 | 0 | 0",
		"1425 | charts | 20:00 | 0s | warn:deferred | 0 |  |  | 0 | 0",
	)
	shows(t, view.WorkTable(all),
		"run# | job~ | work~ | state | [pages#] | searches# | units# | new# | [updated#]",
		"1426 | news | US | good:done | 0 | 1 | 2 | 0 | 0",
		"1426 | news | DE | good:done | 0 | 4 |  | 0 | 0",
		"1425 | charts | US | warn:deferred | 0 |  |  | 0 | 0",
	)
	if says := view.SpentWords(view.Total(&all[0])); says != "5 of youtube/searches and 2 of youtube/units" {
		t.Errorf("it says %q", says)
	}
	all[1].Work[0] = catalog.WorkRecord{Work: "US", Units: 7} // of an earlier version
	all[0].Work[0].Charges = catalog.Charges{"youtube/units": 2, "youtube@b/units": 1}
	shows(t, view.WorkTable(all),
		"run# | job~ | work~ | state | [pages#] | searches# | youtube/units# | youtube@b/units# | other pools# | new# | [updated#]",
		"1426 | news | US | good:done | 0 |  | 2 | 1 |  | 0 | 0",
		"1426 | news | DE | good:done | 0 | 4 |  |  |  | 0 | 0",
		"1425 | charts | US | warn: | 0 |  |  |  | 7 | 0 | 0",
	)
	if says := view.SpentWords(view.Total(&all[1])); says != "7 units" {
		t.Errorf("of an earlier version it says %q", says)
	}
}
