package sqlitestore

import (
	"database/sql/driver"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

const (
	// keptFor is how long charges are kept: what is promised, and whole days
	// around it in every zone.
	keptFor = (storekit.SpendDays + 6) * 24 * time.Hour
	// shownFor is two days less, so that a day that is shown is complete.
	shownFor = keptFor - 2*24*time.Hour
	// pruned is how many charges one write looks at, while there are old ones.
	pruned = 16
	// restFor is how long a sweep rests at most, once it has met a charge that
	// is kept.
	restFor = time.Hour
)

// sweep goes through the charges in the order in which they were written.
type sweep struct {
	after int64          // seen up to this number
	next  window.Instant // resting until then
	lived window.Instant // the clock was found not to have leapt
}

// lived reports whether the ledger was in use an hour ago or more, but not so long
// ago that all of it is too old: then the clock may have leapt, and may be set back.
func (t *tx) lived() (bool, error) {
	sw, now := &t.file.prune, window.At(t.now)
	if sw.lived <= now && now < sw.lived.Add(quota.ReceiptLife) {
		return true, nil
	}
	r, err := t.one(pruneLived, int64(now.Add(-restFor)))
	if err != nil || r == nil || window.Instant(r.int(0)) < now.Add(-keptFor) {
		return false, err
	}
	sw.lived = now
	return true, nil
}

// prune deletes the next few charges that are too old, if any can be.
func (t *tx) prune() error {
	sw, now := &t.file.prune, window.At(t.now)
	if now < sw.next && sw.next <= now.Add(restFor) {
		return nil
	}
	if lived, err := t.lived(); err != nil || !lived {
		sw.next = now.Add(time.Minute) // looking takes a while in a busy ledger
		return err
	}
	oldest := now.Add(-keptFor)
	var last int64
	var kept bool
	next := now.Add(restFor)
	err := t.read(pruneLook, []driver.Value{sw.after, int64(pruned)}, func(r row) error {
		at := window.Instant(r.int(1))
		last, kept = r.int(0), at >= oldest && at <= now
		if kept {
			next = min(next, max(at.Add(keptFor), now.Add(time.Minute)))
		}
		return nil
	})
	if err != nil || last == 0 {
		*sw = sweep{next: next}
		return err
	}
	err = t.exec(pruneRows, sw.after+1, last, int64(now.Add(-quota.ReceiptLife)), int64(oldest))
	sw.after = last
	if kept {
		*sw = sweep{next: next}
	}
	return err
}
