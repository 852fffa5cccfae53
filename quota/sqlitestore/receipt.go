package sqlitestore

import (
	"database/sql/driver"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pagestore"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// Room implements [pagestore.Tx]. A failed write is rolled back, so there is always room.
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
		if r.AtLeast && e.Units == 0 {
			continue
		}
		shared, day := int64(0), ""
		if e.Pool.Key != c.Pool.Key {
			shared = 1
		}
		if !c.Windows[0].Spec.InFlight() { // a slot leaves no spend on any day
			day = t.file.today.Of(e.At, c.Zone)
		}
		err := t.exec("reservation_add", e.Ref.(*entry).id, id, secret, made, int64(e.At), day, e.Units, c.Units,
			e.Page.Generation, l.Method, l.Job, l.Region, l.Class, l.Reason, c.Pool.Key, shared)
		if err != nil {
			return err
		}
	}
	return t.prune()
}

func (t *tx) Receipt(upstream, account, id string) (*pagestore.Receipt, error) {
	var rows pagestore.ReceiptRows
	err := t.read("receipt_find", []driver.Value{id, upstream, account}, func(r sqlitefile.Row) error {
		rows.Add(t.now, window.Instant(r.Int(3)), r.Blob(2), r.Bool(7), pagestore.Taken{
			Slot: r.Text(14) == "", Ref: r.Int(0), Pool: r.Text(1), At: window.Instant(r.Int(4)), Units: r.Int(5), Recorded: r.Int(11), Generation: r.Int(6),
			Key: r.Text(12), Overflow: r.Bool(13), Done: quota.Settlement{Back: r.Int(8), Left: r.Int(9), Charged: r.Int(10)},
		})
		return nil
	})
	return rows.Receipt, err
}

func (t *tx) Amend(r *pagestore.Receipt) error {
	for _, c := range r.Taken {
		if err := t.exec("receipt_settle", c.Ref, c.Recorded, c.Calls(), c.Done.Back, c.Done.Left, c.Done.Charged); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) AmendPart(r *pagestore.Receipt, of *quota.Token, p *storekit.Part) error {
	made := int64(window.At(t.now))
	for i, c := range r.Taken {
		err := t.exec("receipt_part", c.Ref, of.ID, of.Nonce[:], made, c.Recorded-c.Units, c.Units, p.MoreCalls(i, c.Recorded),
			c.Done.Back, c.Done.Left, c.Done.Charged)
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) Keep(r *pagestore.Receipt) error {
	made := int64(window.At(t.now))
	for _, c := range r.Taken {
		if err := t.exec("receipt_keep", c.Ref, made, int64(c.At), c.Recorded, c.Generation); err != nil {
			return err
		}
	}
	return nil
}
