package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"os"
	"strings"
)

// fingerprint returns a short hash, for people to compare.
func fingerprint(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:12]
}

// logInputs logs which files a run uses, so that two runs that disagree can be compared
// later. The configuration and the price book are identified by their content. The ledger
// and the catalog are identified by their address, because their content changes with each
// page, and another program must not open a SQLite file that is in use.
func (a *app) logInputs(ctx context.Context, w *works) error {
	s := w.settings
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	config, printed := s.file, fingerprint(s.text)
	if config == "" {
		config, printed = "none", ""
	}
	ledger := place(s.Ledger)
	a.log.Info("run",
		"config", mark(config, printed),
		"costs", mark(cmp.Or(s.Costs, "built in"), fingerprint(w.ledger.Book().Format())),
		"ledger", mark(ledger, fingerprint([]byte(unlessShared(ledger, host)+ledger))),
		"catalog", mark(w.catalog.Path(), fingerprint([]byte(unlessShared(w.catalog.Path(), host)+w.catalog.Path()))))
	return a.logNewLedger(ctx, w)
}

// logNewLedger logs what a ledger assumes that has no spend yet.
func (a *app) logNewLedger(ctx context.Context, w *works) error {
	pools, err := w.ledger.Usage(ctx, "", "")
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		a.log.Warn("cannot read the spend from the ledger", "error", err)
		return nil
	}
	for _, p := range pools {
		if p.Known {
			return nil
		}
	}
	a.log.Info("the ledger is new and assumes that nothing was spent today; " +
		"if another program has spent units, add them: ingestor quota adjust POOL UNITS --reason TEXT" + a.loaded.ledgerFlag())
	return nil
}

func mark(what, print string) string {
	if print == "" {
		return what
	}
	return what + " " + print
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
