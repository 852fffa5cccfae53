package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/open"
)

// A quota is kept only if all processes of a fleet charge one ledger. The catalog remembers its
// identity, because every process has the catalog, and a container may have no disk.

// localLedger reports whether the settings name a ledger that other machines cannot reach,
// though they share the catalog.
func localLedger(s *settings.Settings) bool {
	at, err := open.Parse(s.Ledger)
	return s.Database != "" && err == nil && (at.Scheme == "sqlite" || at.Scheme == "memory")
}

const ToShare = "To share one, write into ingestor.yaml: ledger: postgres://USER@HOST/DATABASE or redis://HOST:6379/0"

// CheckLocal warns about a ledger that other machines cannot reach. If another machine is at
// work, it returns an error instead.
func CheckLocal(ctx context.Context, s *settings.Settings, c AnyCatalog, warn func(about string)) error {
	if !localLedger(s) {
		return nil
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

// WarnLocal logs that the ledger is not shared. A run of cron says only what has failed.
func (a *Session) WarnLocal(about string) {
	if !a.Quiet {
		a.Log.Warn("the ledger " + about)
	}
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
func (a *Session) ChargeTo(ctx context.Context, s *settings.Settings, l *quota.Ledger, c charges, accept bool) (time.Time, error) {
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

// AcceptLedger makes the ledger that is open the one of the fleet, and reports whether it was
// another one before.
func (a *Session) AcceptLedger(ctx context.Context, s *settings.Settings, c AnyCatalog) (accepted bool, err error) {
	shared, ok := c.(*pgcatalog.Catalog)
	if !ok || a.Opened.Journal == nil {
		return false, nil
	}
	known, err := shared.Ledgers(ctx)
	if err != nil {
		return false, err
	}
	found, err := a.Ledgers(ctx, s)
	if err != nil {
		return false, err
	}
	if pgcatalog.Other(known, found) == nil {
		return false, nil
	}
	_, err = shared.ChargeLedgers(ctx, found, true)
	return err == nil, err
}
