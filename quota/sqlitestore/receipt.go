package sqlitestore

import (
	"database/sql/driver"
	"time"

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

const (
	// pruned is the number of charges that one write checks while there are old ones.
	pruned = 16
	// restFor is the longest pause of a sweep after it has found a charge to keep.
	restFor = time.Hour
)

// sweep goes through the charges in the order in which they were written.
type sweep struct {
	after int64          // checked up to this number
	next  window.Instant // the sweep pauses until then
	lived window.Instant // when the clock was last known to be right
}

// lived reports whether the ledger has a charge that is at least an hour old, but younger
// than storekit.KeptFor. Without one, the clock may have jumped ahead.
func (t *tx) lived() (bool, error) {
	sw, now := &t.file.prune, window.At(t.now)
	if sw.lived <= now && now < sw.lived.Add(quota.ReceiptLife) {
		return true, nil
	}
	r, err := t.one("prune_lived", int64(now.Add(-restFor)))
	if err != nil || r == nil || window.Instant(r.Int(0)) < now.Add(-storekit.KeptFor) {
		return false, err
	}
	sw.lived = now
	return true, nil
}

// prune deletes the next few charges that are too old.
func (t *tx) prune() error {
	sw, now := &t.file.prune, window.At(t.now)
	if now < sw.next && sw.next <= now.Add(restFor) {
		return nil
	}
	if lived, err := t.lived(); err != nil || !lived {
		sw.next = now.Add(time.Minute) // the check is slow in a busy ledger
		return err
	}
	oldest := now.Add(-storekit.KeptFor)
	var last int64
	var kept bool
	next := now.Add(restFor)
	err := t.read("prune_look", []driver.Value{sw.after, int64(pruned)}, func(r sqlitefile.Row) error {
		at := window.Instant(r.Int(1))
		last, kept = r.Int(0), at >= oldest && at <= now
		if kept {
			next = min(next, max(at.Add(storekit.KeptFor), now.Add(time.Minute)))
		}
		return nil
	})
	if err != nil || last == 0 {
		*sw = sweep{next: next}
		return err
	}
	err = t.exec("prune_rows", sw.after+1, last, int64(now.Add(-quota.ReceiptLife)), int64(oldest))
	sw.after = last
	if kept {
		*sw = sweep{next: next}
	}
	return err
}
