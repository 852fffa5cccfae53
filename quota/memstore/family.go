package memstore

import (
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// family holds a page per key. A member that has nothing left to say is
// forgotten; when there are too many, new keys share one page, so that an
// attacker gains nothing by inventing keys.
type family struct {
	members  map[string]*member
	listed   int     // of them, those with a place in the price book: there is no most of these
	newest   *member // of the others, in the order of their last grant
	oldest   *member
	overflow *window.Page
}

type member struct {
	key          string
	page         *window.Page
	listed       bool
	newer, older *member
}

func (s *Store) family(p quota.Pool) *family {
	name := p.Upstream + "\x00" + p.Account
	f := s.families[name]
	if f == nil {
		f = &family{members: make(map[string]*member)}
		s.families[name] = f
	}
	return f
}

// reserveMember reserves on the page of a key. Families take no receipts.
func (s *Store) reserveMember(clock time.Time, r quota.Request) (quota.Verdict, error) {
	f, c := s.family(r.Charges[0].Pool), &r.Charges[0]
	m, overflow, err := f.layOut(clock, c)
	if err != nil {
		return quota.Verdict{}, err
	}
	page := f.overflow
	if !overflow {
		page = m.page
	}
	s.pages = append(s.pages[:0], page)
	v := quota.Decide(clock, r.Charges, s.pages)
	v.ID, v.Overflow = r.ID, overflow
	if v.Allowed && !overflow && c.MaxKeys > 0 {
		f.touch(m)
	}
	return v, nil
}

// recordMember charges the page of a key whatever its limit.
func (s *Store) recordMember(clock time.Time, r quota.Request) error {
	f, c := s.family(r.Charges[0].Pool), &r.Charges[0]
	m, overflow, err := f.layOut(clock, c)
	if err != nil {
		return err
	}
	if overflow {
		quota.RecordIn(f.overflow, clock, r.At, c.Units)
		return nil
	}
	quota.RecordIn(m.page, clock, r.At, c.Units)
	if c.MaxKeys > 0 {
		f.touch(m)
	}
	return nil
}

// member returns the page that a key has, or nil.
func (s *Store) member(p quota.Pool) *window.Page {
	if m := s.family(p).members[p.Key]; m != nil {
		return m.page
	}
	return nil
}

// layOut finds or makes the page of a key, or says that it shares the overflow
// page.
func (f *family) layOut(clock time.Time, c *quota.Charge) (m *member, overflow bool, err error) {
	f.forgetIdle(window.At(clock))
	m = f.members[c.Pool.Key]
	switch {
	case m != nil:
		f.list(m, c.MaxKeys == 0)
		m.page, err = keep(m.page, clock, c)
		return m, false, err
	case c.MaxKeys > 0 && len(f.members)-f.listed >= c.MaxKeys:
		f.overflow, err = keep(f.overflow, clock, c)
		return nil, true, err
	}
	m = &member{key: c.Pool.Key}
	if m.page, err = quota.LayOut(clock, c, nil); err != nil {
		return nil, false, err
	}
	f.members[m.key] = m
	f.push(m)
	f.list(m, c.MaxKeys == 0)
	return m, false, nil
}

// list heeds that a key has a place in the price book now, or has lost it.
func (f *family) list(m *member, listed bool) {
	switch {
	case m.listed == listed:
		return
	case listed:
		f.unlink(m)
		f.listed++
	default:
		f.push(m)
		f.listed--
	}
	m.listed = listed
}

// keep is LayOut, but a page that is refused stays.
func keep(p *window.Page, clock time.Time, c *quota.Charge) (*window.Page, error) {
	laid, err := quota.LayOut(clock, c, p)
	if err != nil {
		return p, err
	}
	return laid, nil
}

// forgetIdle drops at most two members that have nothing left to say. One comes
// per call at most, so idle ones go faster than new ones come.
func (f *family) forgetIdle(now window.Instant) {
	f.rebase(now)
	for range 2 {
		if f.oldest == nil || !f.oldest.page.Idle(now) {
			return
		}
		delete(f.members, f.oldest.key)
		f.unlink(f.oldest)
	}
}

// rebase re-bases all members if the clock had been far ahead when the oldest was
// charged: it would stand in the way of the others until then.
func (f *family) rebase(now window.Instant) {
	if f.oldest == nil {
		return
	}
	if _, rebased := f.oldest.page.Now(now); rebased {
		for m := f.oldest.newer; m != nil; m = m.newer {
			m.page.Now(now)
		}
	}
}

// touch makes m the newest.
func (f *family) touch(m *member) {
	if f.newest != m {
		f.unlink(m)
		f.push(m)
	}
}

func (f *family) push(m *member) {
	m.older, m.newer = f.newest, nil
	if f.newest != nil {
		f.newest.newer = m
	} else {
		f.oldest = m
	}
	f.newest = m
}

func (f *family) unlink(m *member) {
	if m.newer != nil {
		m.newer.older = m.older
	} else {
		f.newest = m.older
	}
	if m.older != nil {
		m.older.newer = m.newer
	} else {
		f.oldest = m.newer
	}
}
