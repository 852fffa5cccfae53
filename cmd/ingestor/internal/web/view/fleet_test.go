package view_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/quota"
)

// aFleet has a daemon that works, one that is gone, and one with an old price book.
func aFleet() fleet.Status {
	behind := int64(1024)
	work := func(name string, state fleet.UnitState) fleet.Unit {
		return fleet.Unit{Account: quota.DefaultAccount, Job: "charts", Work: name, State: state}
	}
	held := work("US", fleet.UnitRunning)
	held.HeldBy, held.HeldSince, held.TakenFrom, held.TakenAt = "one", now, "two", now.Add(-time.Minute)
	lost := work("DE", fleet.UnitRunning)
	lost.HeldBy = "two"
	deferred := work("FR", fleet.UnitDeferred)
	deferred.Why, deferred.NextAt = "refused", now.Add(time.Hour)
	paused := fleet.Unit{Account: "other", Job: "news", Work: "GB", State: fleet.UnitQueued, Paused: true}
	stopping := work("NL", fleet.UnitRunning)
	stopping.HeldBy, stopping.Paused = "one", true
	return fleet.Status{
		Daemons: []fleet.Daemon{
			{ID: "one", Version: "v1", Revision: 2, State: fleet.Running, StartedAt: now, SeenAt: now, Units: 1234, Leader: true, Jobs: []string{"charts"}, Skew: -3 * time.Second},
			{ID: "two", Version: "v0", Revision: 1, State: fleet.Running, StartedAt: now, Silent: time.Minute, Skew: 2 * time.Second},
			{ID: "three", Version: "v1", Revision: 1, State: "an old price book", StartedAt: now, Skew: 400 * time.Millisecond},
		},
		Units: []fleet.Unit{held, lost, deferred, work("IT", fleet.UnitIdle), work("ES", fleet.UnitQueued), paused, stopping},
		Ledgers: []pgcatalog.Ledger{
			{Upstream: "github", Account: "team", Identity: "b", Address: "redis://r:6379/0", Since: now},
			{Upstream: "youtube", Account: "default", Identity: "a", Address: "postgres://db:5432/headroom", Since: now},
		},
		Behind: &behind,
	}
}

func TestChargedTo(t *testing.T) {
	for i, want := range []string{"Calls of github@team are charged to the ledger at redis://r:6379/0 since ", "Calls of youtube are charged to the ledger at postgres://db:5432/headroom since "} {
		if got := view.ChargedTo(aFleet().Ledgers[i]); !strings.HasPrefix(got, want) {
			t.Error(got)
		}
	}
}

func TestDaemonTable(t *testing.T) {
	s := aFleet()
	shows(t, view.DaemonTable(&s),
		"daemon~ | state | leads | [version] | price book# | holds~ | units# | clock | [started]",
		"one | good:running | yes | v1 | 2 | charts US, charts NL | 1234 | 3s behind | 20:00",
		"two | bad:silent for 1m0s |  | v0 | 1 | charts DE | 0 | 2s ahead | 20:00",
		"three | warn:an old price book |  | v1 | 1 |  | 0 |  | 20:00",
	)
	for _, work := range []string{"PT", "PL"} {
		s.Units = append(s.Units, fleet.Unit{Job: "charts", Work: work, State: fleet.UnitRunning, HeldBy: "one"})
	}
	if got := view.DaemonTable(&s).Rows[0][5]; got != "charts US, charts NL, charts PT, 1 more" {
		t.Errorf("it holds %v", got)
	}
}

func TestUnitTable(t *testing.T) {
	s := aFleet()
	want := []string{
		"account~ | job~ | work~ | state | held by~ | why~ | taken from~ | [taken at]",
		"default | charts | US | good:running | one |  | two | 19:59",
		"default | charts | DE | bad:running on a silent daemon | two |  |  | ",
		"default | charts | FR | warn:deferred |  | refused until 21:00 |  | ",
		"default | charts | ES | good:queued |  |  |  | ",
		"other | news | GB | warn:paused |  |  |  | ",
		"default | charts | NL | warn:running, then paused | one |  |  | ",
	}
	shows(t, view.UnitTable(&s, false), want...)
	want = append(want[:4], append([]string{"default | charts | IT | good:idle |  |  |  | "}, want[4:]...)...)
	shows(t, view.UnitTable(&s, true), want...)
}
