package pagestore

import (
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// Members of families take no receipts and leave no spend. One that has nothing
// left to say is forgotten. When there are too many, new keys share one page, so
// that an attacker gains nothing by inventing keys.

func (w *work) reserveMember(tx Tx, v *quota.Verdict, r *quota.Request) error {
	m, err := w.member(tx, &r.Charges[0])
	if err != nil {
		return err
	}
	decide(v, w.now, r.Charges, w.entries)
	v.ID, v.Overflow = r.ID, m.overflow
	if v.Allowed {
		take(v, r.Charges, w.entries)
	}
	if v.Allowed || m.moved {
		return w.putMember(tx, m, &r.Charges[0])
	}
	return nil
}

func (w *work) recordMember(tx Tx, r *quota.Request) (quota.Units, error) {
	m, err := w.member(tx, &r.Charges[0])
	if err != nil {
		return nil, err
	}
	m.toRecord(r, &r.Charges[0])
	recorded := r.Recorded([]int64{m.Units})
	if r.AtLeast && m.Units == 0 && !m.moved {
		return recorded, nil
	}
	recordIn(m.Entry)
	recorded = r.Recorded([]int64{m.Units})
	return recorded, w.putMember(tx, m, &r.Charges[0])
}

// member is the family's member that a request asks for.
type member struct {
	*Entry
	family   *Family
	known    bool // it has a page already
	overflow bool // the page is shared by new keys
}

// member finds the page of a key and lays it out. The page is the key's own, a new one,
// or, if the family is full, the page that new keys share.
func (w *work) member(tx Tx, c *quota.Charge) (m member, err error) {
	if m.family, err = tx.Family(&c.Pool); err != nil {
		return m, err
	}
	if err := w.forgetIdle(tx, m.family); err != nil {
		return m, err
	}
	if m.Entry, err = tx.Member(m.family, c.Pool.Key); err != nil {
		return m, err
	}
	if err := m.check(c); err != nil { // also of a key that will share a page
		return m, err
	}
	m.known = m.Page != nil
	if !m.known && c.MaxKeys > 0 && m.family.Members >= c.MaxKeys {
		if err := w.makeRoom(tx, m.family); err != nil {
			return m, err
		}
	}
	if m.overflow = !m.known && c.MaxKeys > 0 && m.family.Members >= c.MaxKeys; m.overflow {
		if m.Entry, err = tx.Member(m.family, ""); err != nil {
			return m, err
		}
		if err := m.check(c); err != nil {
			return m, err
		}
	}
	m.layOut(w.now, c)
	w.entries = append(w.entries[:0], m.Entry)
	return m, nil
}

// putMember stores a member and corrects the family's count of members. The count leaves
// out members that the price book lists, so that they take no place from others.
func (w *work) putMember(tx Tx, m member, c *quota.Charge) error {
	listed := c.MaxKeys == 0
	counted := m.family.Members
	switch {
	case m.overflow:
	case !listed && (!m.known || m.Listed):
		m.family.Members++
	case listed && m.known && !m.Listed:
		m.family.Members--
	}
	m.Listed = listed
	if err := w.put(tx, m.Entry, c); err != nil || m.family.Members == counted {
		return err
	}
	return w.wrote(tx.PutFamily(m.family))
}

const (
	// atOnce bounds the members that one call drops. Dropping all of them would take long.
	atOnce = 256
	// pause is the time between searches for idle members after the oldest was not idle.
	pause = 10 * time.Millisecond
)

// makeRoom drops the member that was charged longest ago, if it is idle by the clock. It
// does so even after a leap of the clock, so that the new key gets its place.
func (w *work) makeRoom(tx Tx, f *Family) error {
	if err := w.rebaseAhead(tx, f); err != nil {
		return err
	}
	dropped, err := w.dropIdle(tx, f, w.now)
	if err != nil || !dropped {
		return err
	}
	return w.wrote(tx.PutFamily(f))
}

// rebaseAhead re-bases at most two members that are far ahead of the clock. Without it,
// members that are never called again would keep their places.
func (w *work) rebaseAhead(tx Tx, f *Family) error {
	for range 2 {
		e, err := tx.Ahead(f)
		if err != nil || e == nil {
			return err
		}
		if e.enter(w.now); !e.rebased {
			return nil
		}
		if err := w.put(tx, e, nil); err != nil {
			return err
		}
	}
	return nil
}

// forgetIdle drops idle members. It drops up to two with each call, so that idle members
// go faster than new ones come. After a quiet time it drops up to one for each
// millisecond without a call.
func (w *work) forgetIdle(tx Tx, f *Family) error {
	proven, quiet, changed := f.See(w.now)
	if ago := proven.Sub(f.busy); f.busy != 0 && ago >= 0 && ago < pause && !changed {
		return nil
	}
	for range min(max(quiet/time.Millisecond, 2), atOnce) {
		dropped, err := w.dropIdle(tx, f, proven)
		if err != nil {
			return err
		}
		if !dropped {
			f.busy = proven
			break
		}
		changed = true
	}
	if !changed {
		return nil
	}
	return w.wrote(tx.PutFamily(f))
}

// dropIdle drops the member that was charged longest ago if it is idle at an instant.
func (w *work) dropIdle(tx Tx, f *Family, at window.Instant) (bool, error) {
	oldest, err := tx.Oldest(f)
	if err != nil || oldest == nil || !oldest.Page.Idle(at) {
		return false, err
	}
	f.Members--
	return true, w.wrote(tx.Drop(oldest))
}
