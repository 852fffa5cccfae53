package sqlitestore

import (
	"database/sql/driver"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// member is the page of a family's key in a transaction. Families take no
// receipts and leave no spend.
type member struct {
	pool     quota.Pool
	id       int64 // 0: it has no row yet
	page     *window.Page
	listed   bool // it was in the price book when it was last saved
	overflow bool // the page is shared by new keys
}

// reserveMember reserves on the page of a key.
func (t *tx) reserveMember(r *quota.Request) (quota.Verdict, error) {
	c := &r.Charges[0]
	m, err := t.member(c)
	if err != nil {
		return quota.Verdict{}, err
	}
	was := stateOf(m.page)
	v := quota.Decide(t.now, r.Charges, []*window.Page{m.page})
	v.ID, v.Overflow = r.ID, m.overflow
	if v.Allowed || m.id != 0 && was != stateOf(m.page) {
		err = t.saveMember(m, c)
	}
	return v, err
}

// recordMember charges the page of a key whatever its limit.
func (t *tx) recordMember(r *quota.Request) ([]int64, error) {
	c := &r.Charges[0]
	m, err := t.member(c)
	if err != nil {
		return nil, err
	}
	_, recorded := quota.RecordIn(m.page, t.now, r.At, c.Units)
	return []int64{recorded}, t.saveMember(m, c)
}

// member finds the page of a key, laid out: its own, a new one, or the one that
// is shared when the family is full.
func (t *tx) member(c *quota.Charge) (*member, error) {
	if err := t.forgetIdle(c.Pool); err != nil {
		return nil, err
	}
	m, err := t.findMember(c.Pool, c.Pool.Key)
	if err != nil {
		return nil, err
	}
	if m.id == 0 && c.MaxKeys > 0 {
		count, err := t.one(familyCount, c.Pool.Upstream, c.Pool.Account)
		if err != nil {
			return nil, err
		}
		if count != nil && count.int(0) >= int64(c.MaxKeys) {
			if m, err = t.findMember(c.Pool, ""); err != nil {
				return nil, err
			}
			m.overflow = true
		}
	}
	m.page, err = quota.LayOut(t.now, c, m.page)
	return m, err
}

func (t *tx) findMember(p quota.Pool, key string) (*member, error) {
	m := &member{pool: p}
	r, err := t.one(memberFind, p.Upstream, p.Account, key)
	if err == nil && r != nil {
		m.id, m.listed = r.int(0), r.int(2) != 0
		m.page, err = t.s.unpack(p, r.blob(1))
	}
	return m, err
}

func (t *tx) saveMember(m *member, c *quota.Charge) error {
	page, err := m.page.MarshalBinary()
	if err != nil {
		return err
	}
	listed := c.MaxKeys == 0
	if err := t.count(m, listed); err != nil {
		return err
	}
	names, used, written, flag := windowNames(c.Windows), usedText(m.page), int64(m.page.Latest), int64(0)
	if listed {
		flag = 1
	}
	if m.id != 0 {
		return t.exec(memberSave, m.id, names, used, written, page, flag)
	}
	key := m.pool.Key
	if m.overflow {
		key = ""
	}
	return t.exec(memberAdd, m.pool.Upstream, m.pool.Account, key, names, used, written, page, flag)
}

// count corrects how many members a family has: those that the price book lists are
// not counted, so that they take no place from others.
func (t *tx) count(m *member, listed bool) error {
	was, is := m.id != 0 && !m.listed, !listed
	switch {
	case m.overflow || was == is:
		return nil
	case is:
		return t.exec(familyGrow, m.pool.Upstream, m.pool.Account, int64(1))
	}
	return t.exec(familyGrow, m.pool.Upstream, m.pool.Account, int64(-1))
}

// forgetIdle drops at most two members that have nothing left to say. One comes
// per write at most, so idle ones go faster than new ones come.
func (t *tx) forgetIdle(p quota.Pool) error {
	if err := t.rebaseMembers(p); err != nil {
		return err
	}
	var idle []int64
	var counted int64 // of them
	err := t.rows(memberOldest, []driver.Value{p.Upstream, p.Account, int64(2)}, func(r row) error {
		page, err := t.s.unpack(p, r.blob(1))
		if err == nil && page.Idle(window.At(t.now)) {
			idle = append(idle, r.int(0))
			counted += 1 - r.int(2)
		}
		return err
	})
	if err != nil || len(idle) == 0 {
		return err
	}
	for _, id := range idle {
		if err := t.exec(memberDrop, id); err != nil {
			return err
		}
	}
	return t.exec(familyGrow, p.Upstream, p.Account, -counted)
}

// rebaseMembers re-bases at most two members that the clock had been far ahead for.
// Nobody may ask for them again, and they would keep their places until then.
func (t *tx) rebaseMembers(p quota.Pool) error {
	ahead := map[int64]*window.Page{}
	err := t.rows(memberAhead, []driver.Value{p.Upstream, p.Account, int64(window.At(t.now)), int64(2)}, func(r row) error {
		page, err := t.s.unpack(p, r.blob(1))
		if err != nil {
			return err
		}
		if _, rebased := page.Now(window.At(t.now)); rebased {
			ahead[r.int(0)] = page
		}
		return nil
	})
	if err != nil {
		return err
	}
	for id, page := range ahead {
		state, err := page.MarshalBinary()
		if err != nil {
			return err
		}
		if err := t.exec(memberRebase, id, usedText(page), int64(page.Latest), state); err != nil {
			return err
		}
	}
	return nil
}
