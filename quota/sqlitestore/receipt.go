package sqlitestore

import (
	"database/sql/driver"
	"slices"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pagestore"
	"github.com/headroom-quota/headroom/quota/window"
)

// Room implements [pagestore.Tx]: what cannot be written is undone.
func (t *tx) Room(*quota.Request) error { return nil }

// Charge implements [pagestore.Tx]: a row of the table reservations for each charge.
func (t *tx) Charge(r *quota.Request, entries []*pagestore.Entry, nonce quota.Nonce) error {
	var id, secret driver.Value
	if r.ID != "" {
		id, secret = r.ID, nonce[:]
	}
	made, l := int64(window.At(t.now)), &r.Labels
	for i, e := range entries {
		c := &r.Charges[i]
		err := t.exec(reservationAdd, e.Ref.(*entry).id, id, secret, made, int64(e.At), t.file.today.of(e.At, c.Zone), e.Units, c.Units,
			e.Page.Generation, l.Method, l.Job, l.Region, l.Class, l.Reason)
		if err != nil {
			return err
		}
	}
	return t.prune()
}

// Receipt implements [pagestore.Tx].
func (t *tx) Receipt(upstream, account, id string) (got *pagestore.Receipt, err error) {
	over := false // the receipt is complete, or too old: those below are older
	err = t.read(receiptFind, []driver.Value{id, upstream, account}, func(r row) error {
		nonce := r.blob(2)
		if over || len(nonce) != len(pagestore.Receipt{}.Nonce) {
			return nil
		}
		settled := r.int(7) != 0
		switch {
		case got == nil && window.At(t.now).Sub(window.Instant(r.int(3))) > quota.ReceiptLife:
			over = true
			return nil
		case got == nil:
			got = &pagestore.Receipt{Nonce: quota.Nonce(nonce), Settled: settled, Released: settled}
		case got.Nonce != quota.Nonce(nonce):
			over = true
			return nil
		}
		got.Released = got.Released && r.int(11) == 0
		got.Done.Add(quota.Settlement{Back: r.int(8), Left: r.int(9), Charged: r.int(10)})
		got.Taken = append(got.Taken, pagestore.Taken{
			Ref: r.int(0), Pool: r.text(1), At: window.Instant(r.int(4)), Units: r.int(5), Recorded: r.int(11), Generation: r.int(6),
		})
		return nil
	})
	if got != nil { // the latest row came first
		slices.Reverse(got.Taken)
	}
	return got, err
}

// Amend implements [pagestore.Tx].
func (t *tx) Amend(r *pagestore.Receipt) error {
	for _, c := range r.Taken {
		calls := int64(1)
		if c.Recorded == 0 && c.Units > 0 {
			calls = 0 // released: the call never left
		}
		if err := t.exec(receiptSettle, c.Ref, c.Recorded, calls, c.Done.Back, c.Done.Left, c.Done.Charged); err != nil {
			return err
		}
	}
	return nil
}
