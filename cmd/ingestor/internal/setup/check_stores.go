package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/open"
)

// checkLedger checks the ledger, and returns it with the clock of its server, if it has one.
func checkLedger(ctx context.Context, a *session.Session, f *findings, s *settings.Settings, done *console.Closers) (l *quota.Ledger, clocks []clock) {
	l, instead, err := a.ReadLedger(ctx, s, done)
	if err != nil {
		f.fault("ledger", err)
		return nil, nil
	}
	switch {
	case instead == nil:
		for _, w := range a.Opened.Warnings {
			f.warn("ledger", "%s", w)
		}
	case instead.Fault != nil:
		f.fault("ledger", instead.Fault)
	default:
		f.warn("ledger", "%s", instead.Why)
	}
	began := a.Now()
	all, err := l.View().Usage(ctx, "", "")
	ended := a.Now()
	if err != nil {
		f.fault("ledger", err)
		if _, lost := errors.AsType[*quota.ForgottenError](err); lost {
			f.fault("journal", checkJournal(ctx, a, f, l))
		}
		return nil, nil
	}
	if at, err := open.Parse(s.Ledger); err == nil && at.File == "" && at.Scheme != "memory" && len(all) > 0 {
		clocks = append(clocks, clockAt("the ledger", all[0].Now, began, ended))
	}
	known := 0
	for _, u := range all {
		if u.Known {
			known++
		}
		if u.Blocked.After(u.Now) {
			f.warn("ledger", "%s %s until %s: %s", u.Pool, view.Shut(u.BlockedBy), console.Stamp(u.Blocked), console.Plain(u.Reason))
		}
		for _, w := range u.Allowances {
			if w.Remaining == 0 && !u.Idle {
				if w.Spec.InFlight() {
					f.warn("ledger", "all %d slots of %s are taken; a slot comes back when its call has ended", w.Limit, u.Pool)
					continue
				}
				next := verdict.Count(w.NextUnits, "unit comes", "units come")
				if u.Pool.IsMoney() {
					next = view.Amount(u.Pool.String(), w.NextUnits) + " comes"
				}
				f.warn("ledger", "%s has nothing left in %s; %s back at %s", u.Pool, w.Window, next, console.Stamp(w.NextAt))
			}
		}
	}
	if instead != nil {
		return l, clocks
	}
	if err := askAgain(ctx, s); err != nil {
		f.fault("ledger", err)
		return nil, nil
	}
	f.ok("ledger", "%s answered in %s", open.Shown(s.Ledger), ended.Sub(began).Round(10*time.Microsecond))
	switch {
	case strings.HasPrefix(s.Ledger, "memory:"):
		f.warn("ledger", "memory: loses all spend when the process ends")
	case known == 0:
		f.warn("ledger", "it is new and assumes that nothing was spent today\nIf that is wrong: ingestor quota adjust POOL UNITS --reason TEXT%s", s.LedgerFlag())
	case s.Fresh:
		f.warn("ledger", "its address says ?fresh: a ledger that was deleted or restored from a backup goes unnoticed")
	case !a.Opened.Remembered:
		f.warn("ledger", "this machine has no record of it and trusts it as it is\nIf you see this at every run, keep %s between runs, or a loss goes unnoticed", a.Opened.Journal.Path())
	}
	f.fault("journal", checkJournal(ctx, a, f, l))
	return l, clocks
}

// askAgain asks a ledger in PostgreSQL over further connections. PgBouncer in transaction mode may
// give them one connection to the server, where statements of the first one are known.
func askAgain(ctx context.Context, s *settings.Settings) error {
	if at, err := open.Parse(s.Ledger); err != nil || at.Scheme != "postgres" {
		return nil //nolint:nilerr // it is no such ledger
	}
	for range 2 {
		store, closer, err := open.Store(ctx, s.LedgerAddress(), nil)
		if err != nil {
			return err
		}
		_, err = store.Spend(ctx, quota.SpendQuery{Upstream: settings.Metered, Account: quota.DefaultAccount})
		if err = errors.Join(err, closer()); err != nil {
			return &console.Exit{Code: console.ExitDown, Err: err}
		}
	}
	return nil
}

// checkJournal reports the calls that wait in the journal, for this ledger and for others.
func checkJournal(ctx context.Context, a *session.Session, f *findings, l *quota.Ledger) error {
	if a.Opened.Journal == nil {
		return nil
	}
	stray, err := l.View().Strays(ctx)
	if err != nil {
		return err
	}
	pending, err := a.Opened.Journal.Pending(ctx)
	if err != nil {
		return err
	}
	own := slices.DeleteFunc(pending, func(e quota.Entry) bool {
		return slices.ContainsFunc(stray, func(s quota.Entry) bool { return s.ID == e.ID })
	})
	f.strays(session.UnitsOf(stray), a.Loaded.LedgerFlag())
	for _, c := range session.UnitsOf(own) {
		f.warn("journal", "%s of %s were admitted while the ledger was out of order, and this machine's next call charges them\n"+
			"If you add what the upstream has counted, subtract them: they are in that number", verdict.Count(c.Units, "unit"), c.Pool)
	}
	others, err := a.Opened.Journal.Others(ctx)
	for _, o := range others {
		if o.Ledger == "" {
			f.warn("journal", "%d calls of an older version of the journal belong to a ledger that has not come back", o.Calls)
		} else {
			f.warn("journal", "%d calls wait for the ledger at %s", o.Calls, o.Ledger)
		}
	}
	return err
}

// strays reports units that another ledger was to be charged.
func (f *findings) strays(units []quota.EntryCharge, flag string) {
	for _, c := range units {
		f.warn("journal", "calls to %s were admitted for a ledger that was at this address before, and are never charged to this one: %s\n"+
			"To count them here, if the upstream's console does not: ingestor quota adjust %[1]s %[3]d --reason TEXT%[4]s\nTo drop them: ingestor ledger fresh --reason TEXT%[4]s", c.Pool, verdict.Count(c.Units, "unit"), c.Units, flag)
	}
}

// checkCatalog checks the catalog, and returns the clock of its database, if it is in one.
func checkCatalog(ctx context.Context, a *session.Session, f *findings, s *settings.Settings, l *quota.Ledger, done *console.Closers) ([]clock, error) {
	if s.NoCatalog() != nil {
		f.ok("catalog", "%s does not exist yet; the first run creates it", s.Catalog)
		return nil, nil
	}
	if err := session.Rights(ctx, s); err != nil {
		return nil, err
	}
	c, instead, err := a.ReadCatalog(ctx, s, done)
	if err != nil {
		return nil, err
	}
	feeds, err := c.Feeds(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case instead == nil:
		f.ok("catalog", "%s, charts: %d", c.Path(), len(feeds))
	case instead.Fault != nil:
		f.fault("catalog", instead.Fault)
	default:
		f.warn("catalog", "%s", instead.Why)
	}
	f.fault("ledger", checkShared(ctx, a, f, s, c))
	clocks, err := f.checkFleet(ctx, s, c)
	if l != nil && err == nil {
		f.fault("jobs", f.judge(ctx, a, s, l, c))
	}
	return clocks, err
}

// judge adds the verdict of the first page. What other findings say better is left to them.
func (f *findings) judge(ctx context.Context, a *session.Session, s *settings.Settings, l *quota.Ledger, c session.AnyCatalog) error {
	if len(s.List()) == 0 {
		return nil
	}
	v, err := a.Verdict(ctx, s, l, c)
	if err != nil {
		return err
	}
	say := f.warn
	if v.Level == view.Good {
		say = f.ok
	}
	text := v.String()
	for _, n := range v.Notes { // they say why it is a warning
		if n.Level != view.Good && !slices.ContainsFunc(f.all, func(has finding) bool { return has.About == n.Says }) {
			text += "\n" + n.Says
		}
	}
	say("jobs", "%s", text)
	return nil
}

// clock is the clock of a server, as this machine sees it.
type clock struct {
	whose  string
	behind time.Duration // this machine's clock; negative: ahead
}

// badClock is a difference of two clocks that check warns of.
const badClock = time.Second

// checkClocks compares this machine's clock with those of the ledger's server and of the
// database, and says which one is wrong.
func (f *findings) checkClocks(servers []clock) {
	if len(servers) == 0 {
		return
	}
	var names, wrong []string
	for _, c := range servers {
		names = append(names, c.whose)
		if d := c.behind.Round(100 * time.Millisecond); d.Abs() >= badClock {
			ahead := "ahead of"
			if d < 0 {
				ahead = "behind"
			}
			wrong = append(wrong, fmt.Sprintf("that of %s is %s %s this machine's", c.whose, d.Abs(), ahead))
		}
	}
	remedy := "Run NTP on that server. If this machine is the one that is wrong, run NTP here: timedatectl shows whether it is synchronised"
	switch {
	case len(wrong) == 0:
		f.ok("clocks", "this machine's and %s agree within %s", strings.Join(names, " and "), badClock)
		return
	case len(servers) > 1 && len(wrong) < len(servers):
		remedy = "Run NTP on that server"
	case len(servers) > 1 && (servers[0].behind-servers[1].behind).Abs() < badClock:
		remedy = "Run NTP on this machine: timedatectl shows whether its clock is synchronised"
	case len(servers) > 1:
		remedy = "Run NTP on this machine and on both servers"
	}
	f.warn("clocks", "%s\n%s", strings.Join(wrong, "; "), remedy)
}

// clockAt returns a clock that showed a time between two times of this machine.
func clockAt(whose string, shown, from, to time.Time) clock {
	return clock{whose, shown.Sub(from.Add(to.Sub(from) / 2))}
}

// checkFleet looks for more machines than the settings name, and returns the clock of the
// database. Without a fleet it does nothing.
func (f *findings) checkFleet(ctx context.Context, s *settings.Settings, c session.AnyCatalog) ([]clock, error) {
	shared, ok := c.(*pgcatalog.Catalog)
	if !ok {
		return nil, nil
	}
	board, err := session.OpenBoard(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := board.CheckQueue(ctx); err != nil {
		return nil, session.UnopenedDatabase(err)
	}
	if !s.PollOnly {
		if err := board.CheckListen(ctx); errors.Is(err, fleet.ErrDeaf) {
			f.fault("catalog", console.Config(fmt.Errorf("%s: %w\nBehind PgBouncer in transaction mode, set poll_only: true in ingestor.yaml", shared.Path(), err)))
		} else if err != nil {
			return nil, session.UnopenedDatabase(err)
		}
	}
	is, err := board.Status(ctx)
	if err != nil {
		return nil, session.UnopenedDatabase(err)
	}
	hosts := map[string]bool{}
	for i := range is.Daemons {
		if d := &is.Daemons[i]; d.Alive() {
			hosts[d.Host] = true
		}
	}
	if len(is.Daemons) > 0 { // else nobody has begun
		for _, found := range is.Findings {
			f.warn("fleet", "%s", found.Text)
		}
	}
	if n := len(hosts); n > s.FleetSize && s.Allowance() > 0 {
		f.warn("fleet", "daemons run on %d machines, and each may spend %d units of a pool in an outage of the ledger\nTo divide what one machine may spend: fleet_size: %d", n, s.Allowance(), n)
	}
	k, err := fleet.NewClock(ctx, shared)
	if err != nil {
		return nil, err
	}
	return []clock{{"the database", -k.Skew()}}, nil
}

// checkShared reports a ledger that the other machines do not have. It changes nothing.
func checkShared(ctx context.Context, a *session.Session, f *findings, s *settings.Settings, c session.AnyCatalog) error {
	shared, ok := c.(*pgcatalog.Catalog)
	if !ok || a.Opened == nil {
		return nil
	}
	known, err := shared.Ledgers(ctx)
	if err != nil {
		return session.UnopenedDatabase(err)
	}
	found, err := a.Ledgers(ctx, s)
	if err != nil {
		return nil //nolint:nilerr // the check of the ledger has reported it
	}
	f.fault("ledger", session.OtherLedger(s, pgcatalog.Other(known, found)))
	return session.CheckLocal(ctx, s, c, func(about string) { f.warn("ledger", "%s\n%s", about, session.ToShare) })
}
