package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/open"
)

// A quota is kept only if all processes of a fleet charge one ledger. The catalog remembers its
// identity, because every process has the catalog, and a container may have no disk.

// localLedger reports whether the settings name a ledger that other machines cannot reach,
// though they share the catalog.
func (s *settings) localLedger() bool {
	at, err := open.Parse(s.Ledger)
	return s.Database != "" && err == nil && (at.Scheme == "sqlite" || at.Scheme == "memory")
}

const toShare = "To share one, write into ingestor.yaml: ledger: postgres://USER@HOST/DATABASE or redis://HOST:6379/0"

// checkLocal warns about a ledger that other machines cannot reach. If another machine is at
// work, it returns an error instead.
func (s *settings) checkLocal(ctx context.Context, c anyCatalog, warn func(about string)) error {
	if !s.localLedger() {
		return nil
	}
	board, err := openBoard(ctx, c)
	if err != nil {
		return err
	}
	daemons, err := board.Daemons(ctx)
	if err != nil {
		return unopenedDatabase(err)
	}
	here, _ := os.Hostname()
	alone := fmt.Sprintf("%s is on this machine only: each machine of the fleet would spend the whole quota", open.Shown(s.Ledger))
	if i := slices.IndexFunc(daemons, func(d fleet.Daemon) bool { return d.Alive() && d.Host != here }); i >= 0 {
		return config(fmt.Errorf("the ledger %s, and %s is at work\n%s", alone, daemons[i].ID, toShare))
	}
	warn(alone)
	return nil
}

// warnLocal logs that the ledger is not shared. A run of cron says only what has failed.
func (a *app) warnLocal(about string) {
	if !a.quiet {
		a.log.Warn("the ledger " + about)
	}
}

// ledgers returns the ledgers of the accounts of the price book, as far as they have an identity.
func (a *app) ledgers(ctx context.Context, s *settings) (all []pgcatalog.Ledger, err error) {
	for _, name := range slices.Sorted(maps.Keys(s.book.Upstreams)) {
		for _, account := range s.book.Upstreams[name].Accounts {
			id, err := a.opened.Identity(ctx, name, account)
			if err != nil {
				return nil, err
			}
			if id != "" {
				all = append(all, pgcatalog.Ledger{Upstream: name, Account: account, Identity: id, Address: a.opened.Journal.Ledger()})
			}
		}
	}
	return all, nil
}

// errUnverified says that the ledger does not answer.
var errUnverified = fmt.Errorf("%w: the identity of the ledger is unknown", quota.ErrOutage)

// chargeTo records in the catalog which ledger runs are charged to from now on, and returns since
// when. In a database this is the ledger's identity. If the catalog knows another one, the error
// says what to do, unless accept is set. It is [quota.ErrOutage] if each call will report why
// nothing is granted.
func (a *app) chargeTo(ctx context.Context, s *settings, l *quota.Ledger, c charges, accept bool) (time.Time, error) {
	shared, ok := c.(*pgcatalog.Catalog)
	if !ok {
		return c.ChargeTo(ctx, a.opened.Journal.Ledger(), accept)
	}
	found, err := a.ledgers(ctx, s)
	if err != nil {
		return time.Time{}, errUnverified
	}
	since, err := shared.ChargeLedgers(ctx, found, accept)
	if _, other := errors.AsType[*pgcatalog.OtherLedgerError](err); other {
		if lost, failed := l.Forgotten(ctx); failed != nil || len(lost) > 0 { // this machine knows what it lost
			return since, quota.ErrOutage
		}
	}
	return since, s.otherLedger(err)
}

// otherLedger adds to an error about another ledger what to do about it.
func (s *settings) otherLedger(err error) error {
	if other, ok := errors.AsType[*pgcatalog.OtherLedgerError](err); ok {
		return config(fmt.Errorf("%w\nTwo ledgers together grant a quota twice. If the address is wrong: name the ledger of the other machines\n"+
			"If that ledger was lost or replaced: stop all daemons, add what was spent with ingestor quota adjust%s, then run: ingestor ledger fresh --reason TEXT%[2]s", other, s.ledgerFlag()))
	}
	return err
}

// checkShared reports a ledger that the other machines do not have. It changes nothing.
func (a *app) checkShared(ctx context.Context, f *findings, s *settings, c anyCatalog) error {
	shared, ok := c.(*pgcatalog.Catalog)
	if !ok || a.opened == nil {
		return nil
	}
	known, err := shared.Ledgers(ctx)
	if err != nil {
		return unopenedDatabase(err)
	}
	found, err := a.ledgers(ctx, s)
	if err != nil {
		return nil //nolint:nilerr // the check of the ledger has reported it
	}
	f.fault("ledger", s.otherLedger(pgcatalog.Other(known, found)))
	return s.checkLocal(ctx, c, func(about string) { f.warn("ledger", "%s\n%s", about, toShare) })
}

// acceptLedger makes the ledger that is open the one of the fleet, and reports whether it was
// another one before.
func (a *app) acceptLedger(ctx context.Context, s *settings, c anyCatalog) (accepted bool, err error) {
	shared, ok := c.(*pgcatalog.Catalog)
	if !ok || a.opened.Journal == nil {
		return false, nil
	}
	known, err := shared.Ledgers(ctx)
	if err != nil {
		return false, err
	}
	found, err := a.ledgers(ctx, s)
	if err != nil {
		return false, err
	}
	if pgcatalog.Other(known, found) == nil {
		return false, nil
	}
	_, err = shared.ChargeLedgers(ctx, found, true)
	return err == nil, err
}

// acceptAdjusted accepts a ledger whose pools a person has corrected, so that other processes of
// the fleet may use it. Until no pool is left to correct, it says what to do. It does not fail: a
// person would repeat the correction.
func (a *app) acceptAdjusted(ctx context.Context, l *quota.Ledger) {
	if err := a.tryAcceptAdjusted(ctx, l); err != nil {
		fmt.Fprintf(a.stderr, "ingestor: the pool was changed, but the catalog still expects another ledger: %s\n"+
			"When all that was spent is added: ingestor ledger fresh --reason TEXT%s\n", err, a.loaded.ledgerFlag())
	}
}

func (a *app) tryAcceptAdjusted(ctx context.Context, l *quota.Ledger) (err error) {
	if a.loaded.Database == "" || a.opened.Journal == nil {
		return nil
	}
	var done closers
	defer func() { err = errors.Join(err, done.close()) }()
	c, err := a.openCatalog(ctx, a.loaded, &done)
	if err != nil {
		return err
	}
	shared := c.(*pgcatalog.Catalog)
	known, err := shared.Ledgers(ctx)
	if err != nil {
		return err
	}
	found, err := a.ledgers(ctx, a.loaded)
	if err != nil || pgcatalog.Other(known, found) == nil {
		return err
	}
	if lost, err := l.Forgotten(ctx); err != nil || len(lost) > 0 {
		return err // the others are reported
	}
	all, err := l.Usage(ctx, "", "")
	if err != nil {
		return err
	}
	var left []string
	for i := range all {
		if !all[i].Known {
			left = append(left, all[i].Pool.String())
		}
	}
	if len(left) > 0 && !a.opened.Remembered { // this machine cannot tell which of them were used
		fmt.Fprintf(a.stderr, "ingestor: the fleet had another ledger before: correct %s in the same way\n"+
			"When all that was spent is added: ingestor ledger fresh --reason TEXT%s\n", strings.Join(left, ", "), a.loaded.ledgerFlag())
		return nil
	}
	_, err = shared.ChargeLedgers(ctx, found, true)
	return err
}

// verifying is how often a daemon looks for a ledger that did not answer when it started.
const verifying = 5 * time.Second

// verifyLater waits for a ledger that did not answer when the daemon started. If it is not the one
// of the fleet, the daemon ends: verifyLater cancels its context.
func (a *app) verifyLater(ctx context.Context, w *works, cancel context.CancelCauseFunc) {
	for {
		_, err := a.chargeTo(ctx, w.settings, w.ledger, w.catalog, false)
		_, other := errors.AsType[*pgcatalog.OtherLedgerError](err)
		if other {
			cancel(err)
		}
		if other || err == nil || errors.Is(err, quota.ErrOutage) && !errors.Is(err, errUnverified) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(verifying):
		}
	}
}
