package jobs

import (
	"cmp"
	"context"
	"net/url"
	"os"
	"strings"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
)

// logInputs logs which files a run uses, so that two runs that disagree can be compared
// later. The configuration and the price book are identified by their content. The ledger
// and the catalog are identified by their address, because their content changes with each
// page, and another program must not open a SQLite file that is in use.
func logInputs(ctx context.Context, a *session.Session, w *works) error {
	s := w.settings
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	config, printed := s.File, session.Fingerprint(s.Text)
	if config == "" {
		config, printed = "none", ""
	}
	ledger := place(s.Ledger)
	a.Log.Info("run",
		"config", session.Mark(config, printed),
		"costs", session.Mark(cmp.Or(s.Costs, "built in"), session.Fingerprint(w.ledger.Book().Format())),
		"ledger", session.Mark(ledger, session.Fingerprint([]byte(unlessShared(ledger, host)+ledger))),
		"catalog", session.Mark(w.catalog.Path(), session.Fingerprint([]byte(unlessShared(w.catalog.Path(), host)+w.catalog.Path()))))
	return logNewLedger(ctx, a, w)
}

// logNewLedger logs what a ledger assumes that has no spend yet.
func logNewLedger(ctx context.Context, a *session.Session, w *works) error {
	pools, err := w.ledger.View().Usage(ctx, "", "")
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		a.Log.Warn("cannot read the spend from the ledger", "error", err)
		return nil
	}
	for _, p := range pools {
		if p.Known {
			return nil
		}
	}
	a.Log.Info("the ledger is new and assumes that nothing was spent today; " +
		"if another program has spent units, add them: ingestor quota adjust POOL UNITS --reason TEXT" + a.Loaded.LedgerFlag())
	return nil
}

// place returns the address of a ledger without its credentials.
func place(ledger string) string {
	scheme, _, _ := strings.Cut(ledger, ":")
	if scheme == "sqlite" {
		return ledger
	}
	u, err := url.Parse(ledger)
	if err != nil || scheme == "memory" {
		return scheme + ":"
	}
	q := u.Query()
	for name := range q {
		if strings.Contains(name, "password") || strings.Contains(name, "username") {
			q.Del(name)
		}
	}
	u.User, u.RawQuery = nil, q.Encode()
	return u.String()
}

// unlessShared returns the host if the ledger belongs to this host alone.
func unlessShared(ledger, host string) string {
	if strings.HasPrefix(ledger, "redis") || strings.HasPrefix(ledger, "postgres") {
		return ""
	}
	return host
}
