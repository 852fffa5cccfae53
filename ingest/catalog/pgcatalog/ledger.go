package pgcatalog

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// Ledger says which ledger the calls of an account are charged to.
type Ledger struct {
	Upstream string    `json:"upstream"`
	Account  string    `json:"account"`
	Identity string    `json:"identity"` // of the ledger: see quota.Identified
	Address  string    `json:"address"`  // where it was seen last, without a password
	Since    time.Time `json:"since"`
}

// OtherLedgerError says that a process has another ledger than the rest of its fleet. Two
// ledgers together grant a quota twice.
type OtherLedgerError struct{ Known, Found Ledger }

func (e *OtherLedgerError) Error() string {
	return fmt.Sprintf("the ledger at %s is not the one that this catalog knows: since %s, runs of %s@%s are charged to the one at %s, with the identity %s; this one has %s",
		e.Found.Address, e.Known.Since.UTC().Format("2006-01-02 15:04 MST"), e.Known.Upstream, e.Known.Account, e.Known.Address, e.Known.Identity, e.Found.Identity)
}

// Ledgers returns the ledgers that runs are charged to, by upstream and account.
func (c *Catalog) Ledgers(ctx context.Context) (all []Ledger, err error) {
	err = c.each(ctx, addTo(&all), "ledgers_find")
	return all, err
}

func addTo(all *[]Ledger) func(catalog.Scan) error {
	return func(scan catalog.Scan) error {
		var l Ledger
		err := scan(&l.Upstream, &l.Account, &l.Identity, &l.Address, &l.Since)
		*all = append(*all, l)
		return err
	}
}

// Other returns an [*OtherLedgerError] if one of the ledgers found is not the known one of its
// account. An account that is not known has no error.
func Other(known, found []Ledger) error {
	for _, l := range found {
		if i := slices.IndexFunc(known, l.same); i >= 0 && known[i].Identity != l.Identity {
			return &OtherLedgerError{known[i], l}
		}
	}
	return nil
}

func (l Ledger) same(k Ledger) bool { return k.Upstream == l.Upstream && k.Account == l.Account }

// ChargeLedgers records that runs are charged to the ledgers found. It returns since when the
// last of them has been in use. If another one is known, it returns an [*OtherLedgerError],
// unless accept says that those found are the right ones from now on.
func (c *Catalog) ChargeLedgers(ctx context.Context, found []Ledger, accept bool) (since time.Time, err error) {
	var known []Ledger
	err = c.change(ctx, func(b batch) {
		known = nil
		b.Query(addTo(&known), "ledgers_lock")
	}, func(tx *tx) error {
		since = time.Time{}
		if err := Other(known, found); err != nil && !accept {
			return err
		}
		for _, l := range found {
			i := slices.IndexFunc(known, l.same)
			if l.Since = tx.Now; i >= 0 && !accept {
				l.Since = known[i].Since
			}
			if since.Before(l.Since) {
				since = l.Since
			}
			if i < 0 || known[i] != l {
				tx.Exec("ledgers_save", l.Upstream, l.Account, l.Identity, l.Address, l.Since, i < 0)
			}
		}
		return nil
	})
	return since, (*home)(c).Fault("note the ledger in", err)
}
