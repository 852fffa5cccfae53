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
	listed   map[string]*member // those with a place in the price book: there is no most of them
	newest   *member            // in the order of their last grant
	oldest   *member
	overflow *window.Page
}

type member struct {
	key          string
	page         *window.Page
	newer, older *member
}

func (s *Store) family(p quota.Pool) *family {
	name := p.Upstream + "\x00" + p.Account
	f := s.families[name]
	if f == nil {
		f = &family{members: make(map[string]*member), listed: make(map[string]*member)}
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
	f := s.family(p)
	if m := f.members[p.Key]; m != nil {
		return m.page
	}
	if m := f.listed[p.Key]; m != nil {
		return m.page
	}
	return nil
}

// layOut finds or makes the page of a key, or says that it shares the overflow
// page.
func (f *family) layOut(clock time.Time, c *quota.Charge) (m *member, overflow bool, err error) {
	f.forgetIdle(window.At(clock))
	members := f.members
	if c.MaxKeys == 0 {
		members = f.listed
	}
	m = members[c.Pool.Key]
	switch {
	case m != nil:
		m.page, err = keep(m.page, clock, c)
		return m, false, err
	case c.MaxKeys > 0 && len(f.members) >= c.MaxKeys:
		f.overflow, err = keep(f.overflow, clock, c)
		return nil, true, err
	}
	m = &member{key: c.Pool.Key}
	if m.page, err = quota.LayOut(clock, c, nil); err != nil {
		return nil, false, err
	}
	members[m.key] = m
	if c.MaxKeys > 0 {
		f.push(m)
	}
	return m, false, nil
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
	for range 2 {
		if f.oldest == nil || !f.oldest.page.Idle(now) {
			return
		}
		delete(f.members, f.oldest.key)
		f.unlink(f.oldest)
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
