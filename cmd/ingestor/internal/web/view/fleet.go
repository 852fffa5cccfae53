package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/quota"
)

// Fleet shows what the daemons of a fleet do. [fleet.Board] implements it.
type Fleet interface {
	Status(ctx context.Context) (fleet.Status, error)
}

// FleetStatus returns the status of a fleet for JSON, where lists are never null.
func FleetStatus(s fleet.Status) fleet.Status {
	s.Daemons, s.Pauses, s.Units, s.Ledgers = listed(s.Daemons), listed(s.Pauses), listed(s.Units), listed(s.Ledgers)
	s.Locks, s.Findings = listed(s.Locks), listed(s.Findings)
	for i := range s.Daemons {
		s.Daemons[i].Jobs = listed(s.Daemons[i].Jobs)
	}
	return s
}

// listed returns a list that is [] in JSON if it is empty, and not null.
func listed[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

// ChargedTo says which ledger the calls of an account are charged to.
func ChargedTo(l pgcatalog.Ledger) string {
	name := l.Upstream
	if l.Account != quota.DefaultAccount {
		name += "@" + l.Account
	}
	return fmt.Sprintf("Calls of %s are charged to the ledger at %s since %s (identity %s).", name, l.Address, l.Since.UTC().Format("2006-01-02 15:04 MST"), l.Identity)
}

type daemonRow struct {
	*fleet.Daemon
	holds []*fleet.Unit
}

var daemonColumns = []column[daemonRow]{
	{Column{Name: "daemon", Long: true}, func(d *daemonRow) any { return d.ID }},
	{Column{Name: "state"}, func(d *daemonRow) any { return daemonState(d.Daemon) }},
	{Column{Name: "leads"}, func(d *daemonRow) any {
		if d.Leader {
			return "yes"
		}
		return nil
	}},
	{Column{Name: "version", Spare: true}, func(d *daemonRow) any { return text(d.Version) }},
	{Column{Name: "price book", Number: true}, func(d *daemonRow) any { return d.Revision }},
	{Column{Name: "holds", Long: true}, func(d *daemonRow) any { return text(names(d.holds)) }},
	{Column{Name: "units", Number: true}, func(d *daemonRow) any { return d.Units }},
	{Column{Name: "clock"}, func(d *daemonRow) any { return skew(d.Skew) }},
	{Column{Name: "started", Spare: true}, func(d *daemonRow) any { return d.StartedAt }},
}

// DaemonTable returns a row for each daemon.
func DaemonTable(s *fleet.Status) Table {
	rows := make([]daemonRow, len(s.Daemons))
	for i := range s.Daemons {
		rows[i] = daemonRow{&s.Daemons[i], s.Held(s.Daemons[i].ID)}
	}
	return table(daemonColumns, rows)
}

func daemonState(d *fleet.Daemon) State {
	switch {
	case !d.Alive():
		return State{Level: Bad, Text: "silent for " + d.Silent.Truncate(time.Second).String()}
	case d.State == fleet.Running:
		return State{Level: Good, Text: d.State}
	}
	return State{Level: Warn, Text: d.State}
}

// skew is a cell that is empty if a clock differs little.
func skew(d time.Duration) any {
	switch d = d.Round(time.Second); {
	case d > 0:
		return d.String() + " ahead"
	case d < 0:
		return (-d).String() + " behind"
	}
	return nil
}

func names(all []*fleet.Unit) string {
	const most = 3
	var some []string
	for _, u := range all[:min(len(all), most)] {
		some = append(some, u.Job+" "+u.Work)
	}
	if more := len(all) - most; more > 0 {
		some = append(some, fmt.Sprintf("%d more", more))
	}
	return strings.Join(some, ", ")
}

type unitRow struct {
	*fleet.Unit
	holder   *fleet.Daemon
	accounts bool // the fleet has several
}

var unitColumns = []column[unitRow]{
	{Column{Name: "account", Long: true}, func(u *unitRow) any {
		if !u.accounts {
			return nil
		}
		return account(u.Unit)
	}},
	{Column{Name: "job", Long: true}, func(u *unitRow) any { return u.Job }},
	{Column{Name: "work", Long: true}, func(u *unitRow) any { return u.Work }},
	{Column{Name: "state"}, func(u *unitRow) any { return unitState(u) }},
	{Column{Name: "held by", Long: true}, func(u *unitRow) any { return text(u.HeldBy) }},
	{Column{Name: "why", Long: true}, func(u *unitRow) any {
		if u.State == fleet.UnitDeferred {
			return reason(u.Why, u.NextAt)
		}
		return text(u.Why)
	}},
	{Column{Name: "taken from", Long: true}, func(u *unitRow) any { return text(u.TakenFrom) }},
	{Column{Name: "taken at", Spare: true}, func(u *unitRow) any {
		if u.TakenAt.IsZero() {
			return nil
		}
		return u.TakenAt
	}},
}

// UnitTable returns a row for each unit of work that there is something to say of: all but
// those that wait until their job is due and were not taken over. With all it leaves out none.
func UnitTable(s *fleet.Status, all bool) Table {
	var rows []unitRow
	accounts := slices.ContainsFunc(s.Units, func(u fleet.Unit) bool { return account(&u) != quota.DefaultAccount })
	for i := range s.Units {
		u := &s.Units[i]
		if all || u.State != fleet.UnitIdle || u.Paused || !u.TakenAt.IsZero() {
			rows = append(rows, unitRow{u, s.Daemon(u.HeldBy), accounts})
		}
	}
	return table(unitColumns, rows)
}

func account(u *fleet.Unit) string { return cmp.Or(u.Account, quota.DefaultAccount) }

func unitState(u *unitRow) State {
	s := State{Level: Good, Text: string(u.State)}
	switch {
	case u.State == fleet.UnitRunning && u.holder != nil && !u.holder.Alive():
		s = State{Level: Bad, Text: "running on a silent daemon"}
	case u.Paused && u.State == fleet.UnitRunning:
		s = State{Level: Warn, Text: "running, then paused"}
	case u.Paused:
		s = State{Level: Warn, Text: "paused"}
	case u.State == fleet.UnitDeferred:
		s.Level = Warn
	}
	return s
}
