package sqlitestore

import (
	"database/sql/driver"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

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
