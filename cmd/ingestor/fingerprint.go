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

// fingerprint is short, to be compared by eye.
func fingerprint(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:12]
}

// sign logs what the run goes by and writes to, so that two that disagree can be told
// apart afterwards. Of configuration and book the content counts, of ledger and
// catalog which ones they are: what they hold changes with each page, and a file of
// SQLite that is in use must not be opened by other means.
func (a *app) sign(ctx context.Context, w *works) error {
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
		"catalog", mark(w.catalog.Path(), fingerprint([]byte(host+w.catalog.Path()))))
	return a.greet(ctx, w)
}

// greet says of a ledger that knows of nothing what that means.
func (a *app) greet(ctx context.Context, w *works) error {
	pools, err := w.ledger.Usage(ctx, "", "")
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		a.log.Warn("the ledger does not say what is spent", "error", err)
		return nil
	}
	for _, p := range pools {
		if p.Known {
			return nil
		}
	}
	a.log.Info("the ledger is new: it assumes that 0 units are spent today; " +
		"if another program has spent some, say so: ingestor quota adjust --help")
	return nil
}

func mark(what, print string) string {
	if print == "" {
		return what
	}
	return what + " " + print
}

// place is where a ledger is, without what is secret about it.
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

// unlessShared is the host if the ledger is one of its own.
func unlessShared(ledger, host string) string {
	if strings.HasPrefix(ledger, "redis") {
		return ""
	}
	return host
}
