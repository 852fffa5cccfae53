package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/open"
	"github.com/headroom-quota/headroom/quota/window"
)

// afterMidnight is how long runs are left out of the comparison after a day starts. The
// clock of the ledger may differ from ours.
const afterMidnight = 15 * time.Minute

// Shortfall is spend of an account that the catalog has and the ledger lacks.
type Shortfall struct {
	Account      string
	Runs, Ledger int64
	Since        time.Time
	flag         string // of the ledger, for commands
}

func (s *Shortfall) Error() string {
	name := settings.Metered
	if s.Account != quota.DefaultAccount {
		name += "@" + s.Account
	}
	return fmt.Sprintf("the ledger has forgotten spend: by the catalog, runs since %s have spent %s units of %s, but the ledger has only %s for today\n"+
		"Look up today's usage in the upstream's console, then run: ingestor quota adjust %s/POOL UNITS --reason TEXT%s\n"+
		"If nothing was spent: ingestor ledger fresh --reason TEXT%s",
		console.Stamp(s.Since), view.Number(s.Runs), name, view.Number(s.Ledger), name, s.flag, s.flag)
}

// Is matches [quota.ErrOutage].
func (s *Shortfall) Is(target error) bool { return target == quota.ErrOutage }

// Shortfalls compares the ledger with the history of runs. For each account, the runs of
// its jobs since the day began cannot have spent more than the ledger has for that day.
// Other callers can only add to the spend of the ledger. The comparison covers runs that
// were charged to the ledger at this address. It skips a day on which a person has made a
// correction, and a journal in which calls wait.
func (a *Session) Shortfalls(ctx context.Context, s *settings.Settings, l *quota.Ledger, c AnyCatalog) (all []*Shortfall, err error) {
	if a.Opened.Journal == nil || s.Book.Upstreams[settings.Metered] == nil { // the ledger is in memory, or all jobs are programs
		return nil, nil
	}
	since, err := a.ChargeTo(ctx, s, l, c, s.Fresh)
	if errors.Is(err, quota.ErrOutage) {
		return nil, nil // each call reports the outage
	}
	if err != nil {
		return nil, unread(s, err)
	}
	start := a.startOfDay(s.Book)
	if from := start.Add(afterMidnight); from.After(since) {
		since = from
	}
	waiting, err := a.Opened.Journal.Pending(ctx)
	if err != nil || len(waiting) > 0 {
		return nil, err
	}
	spent, err := c.Spent(ctx, since)
	if err != nil {
		return nil, unread(s, err)
	}
	runs := map[string]int64{} // by account
	for name, j := range s.Jobs {
		if j.Kind.Runs() { // its program may have called other upstreams
			continue
		}
		runs[cmp.Or(j.Account, quota.DefaultAccount)] += spent[name]
	}
	for _, account := range slices.Sorted(maps.Keys(runs)) {
		if runs[account] == 0 {
			continue
		}
		known, err := l.View().Spend(ctx, quota.SpendQuery{Upstream: settings.Metered, Account: account, Since: start})
		if errors.Is(err, quota.ErrOutage) {
			return nil, nil // each call reports the outage
		}
		if err != nil {
			return nil, err
		}
		f := &Shortfall{Account: account, Runs: runs[account], Since: since, flag: a.Loaded.LedgerFlag()}
		corrected := false
		for _, k := range known {
			f.Ledger += k.Units
			corrected = corrected || k.Labels.Reason != ""
		}
		if f.Ledger < f.Runs && !corrected {
			all = append(all, f)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	lost, err := l.View().Forgotten(ctx)
	if errors.Is(err, quota.ErrOutage) || len(lost) > 0 {
		return nil, nil // each call reports the outage, or the pool
	}
	return all, err
}

// startOfDay returns when the present day of the upstream's pools began. If their zones
// differ, it is the latest start.
func (a *Session) startOfDay(b *quota.Book) time.Time {
	var last window.Instant
	for _, p := range b.Upstreams[settings.Metered].Pools {
		start, _ := window.Spec{Period: window.Day, Zone: book.Zone(p.Windows)}.Bounds(window.At(a.Now()))
		last = max(last, start)
	}
	return last.Time()
}

// Compare returns an error if the ledger has less spend than the history of runs.
func (a *Session) Compare(ctx context.Context, s *settings.Settings, l *quota.Ledger, c AnyCatalog) error {
	all, err := a.Shortfalls(ctx, s, l, c)
	if err == nil && len(all) > 0 {
		err = all[0]
	}
	return err
}

// A quota is kept only if all processes of a fleet charge one ledger. The catalog remembers its
// identity, because every process has the catalog, and a container may have no disk.

const ToShare = "To share one, write into ingestor.yaml: ledger: postgres://USER@HOST/DATABASE or redis://HOST:6379/0"

// CheckLocal warns about a ledger that other machines cannot reach, though they share the catalog. If
// another machine is at work, it returns an error instead.
func CheckLocal(ctx context.Context, s *settings.Settings, c AnyCatalog, warn func(about string)) error {
	if at, err := open.Parse(s.Ledger); err != nil || s.Database == "" || at.Scheme != "sqlite" && at.Scheme != "memory" {
		return nil //nolint:nilerr // it is no such ledger
	}
	board, err := OpenBoard(ctx, c)
	if err != nil {
		return err
	}
	daemons, err := board.Daemons(ctx)
	if err != nil {
		return UnopenedDatabase(err)
	}
	here, _ := os.Hostname()
	alone := fmt.Sprintf("%s is on this machine only: each machine of the fleet would spend the whole quota", open.Shown(s.Ledger))
	if i := slices.IndexFunc(daemons, func(d fleet.Daemon) bool { return d.Alive() && d.Host != here }); i >= 0 {
		return console.Config(fmt.Errorf("the ledger %s, and %s is at work\n%s", alone, daemons[i].ID, ToShare))
	}
	warn(alone)
	return nil
}

// Ledgers returns the ledgers of the accounts of the price book, as far as they have an identity.
func (a *Session) Ledgers(ctx context.Context, s *settings.Settings) (all []pgcatalog.Ledger, err error) {
	for _, name := range slices.Sorted(maps.Keys(s.Book.Upstreams)) {
		for _, account := range s.Book.Upstreams[name].Accounts {
			id, err := a.Opened.Identity(ctx, name, account)
			if err != nil {
				return nil, err
			}
			if id != "" {
				all = append(all, pgcatalog.Ledger{Upstream: name, Account: account, Identity: id, Address: a.Opened.Journal.Ledger()})
			}
		}
	}
	return all, nil
}

// ErrUnverified says that the ledger does not answer.
var ErrUnverified = fmt.Errorf("%w: the identity of the ledger is unknown", quota.ErrOutage)

// ChargeTo records in the catalog which ledger runs are charged to from now on, and returns since
// when. In a database this is the ledger's identity. If the catalog knows another one, the error
// says what to do, unless accept is set. It is [quota.ErrOutage] if each call will report why
// nothing is granted.
func (a *Session) ChargeTo(ctx context.Context, s *settings.Settings, l *quota.Ledger, c AnyCatalog, accept bool) (time.Time, error) {
	shared, ok := c.(*pgcatalog.Catalog)
	if !ok {
		return c.ChargeTo(ctx, a.Opened.Journal.Ledger(), accept)
	}
	found, err := a.Ledgers(ctx, s)
	if err != nil {
		return time.Time{}, ErrUnverified
	}
	since, err := shared.ChargeLedgers(ctx, found, accept)
	if _, other := errors.AsType[*pgcatalog.OtherLedgerError](err); other {
		if lost, failed := l.View().Forgotten(ctx); failed != nil || len(lost) > 0 { // this machine knows what it lost
			return since, quota.ErrOutage
		}
	}
	return since, OtherLedger(s, err)
}

// OtherLedger adds to an error about another ledger what to do about it.
func OtherLedger(s *settings.Settings, err error) error {
	if other, ok := errors.AsType[*pgcatalog.OtherLedgerError](err); ok {
		return console.Config(fmt.Errorf("%w\nTwo ledgers together grant a quota twice. If the address is wrong: name the ledger of the other machines\n"+
			"If that ledger was lost or replaced: stop all daemons, add what was spent with ingestor quota adjust%s, then run: ingestor ledger fresh --reason TEXT%[2]s", other, s.LedgerFlag()))
	}
	return err
}

// OtherThanKnown compares the ledgers that are open with those that the catalog of a fleet knows. It
// returns the catalog and these ledgers if they differ, and else a nil catalog.
func (a *Session) OtherThanKnown(ctx context.Context, s *settings.Settings, c AnyCatalog) (*pgcatalog.Catalog, []pgcatalog.Ledger, error) {
	shared, ok := c.(*pgcatalog.Catalog)
	if !ok || a.Opened.Journal == nil {
		return nil, nil, nil
	}
	known, err := shared.Ledgers(ctx)
	if err != nil {
		return nil, nil, err
	}
	found, err := a.Ledgers(ctx, s)
	if err != nil || pgcatalog.Other(known, found) == nil {
		return nil, nil, err
	}
	return shared, found, nil
}

// AcceptLedger makes the ledger that is open the one of the fleet, and reports whether it was
// another one before.
func (a *Session) AcceptLedger(ctx context.Context, s *settings.Settings, c AnyCatalog) (accepted bool, err error) {
	shared, found, err := a.OtherThanKnown(ctx, s, c)
	if shared == nil || err != nil {
		return false, err
	}
	_, err = shared.ChargeLedgers(ctx, found, true)
	return err == nil, err
}
