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
	listed   map[string]*member // those with a place in the price book: there is no most of these
	members  keys               // the others,
	newest   *member            // in the order of their last grant
	oldest   *member
	overflow *window.Page
	swept    window.Instant // when idle ones were last looked for
}

type member struct {
	key          string
	page         *window.Page
	listed       bool
	newer, older *member
}

func (s *Store) family(p quota.Pool) *family {
	name := accountKey{p.Upstream, p.Account}
	f := s.families[name]
	if f == nil {
		f = &family{listed: make(map[string]*member)}
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
func (s *Store) recordMember(clock time.Time, r quota.Request) (quota.Units, error) {
	f, c := s.family(r.Charges[0].Pool), &r.Charges[0]
	m, overflow, err := f.layOut(clock, c)
	if err != nil {
		return nil, err
	}
	page := f.overflow
	if !overflow {
		page = m.page
	}
	_, recorded := quota.RecordIn(page, clock, r.At, c.Units)
	if !overflow && c.MaxKeys > 0 {
		f.touch(m)
	}
	return quota.Recorded(r.Charges, []int64{recorded}), nil
}

// member returns the page that a key has, or nil.
func (s *Store) member(p quota.Pool) *window.Page {
	if m := s.family(p).find(p.Key); m != nil {
		return m.page
	}
	return nil
}

func (f *family) find(key string) *member {
	if m := f.listed[key]; m != nil {
		return m
	}
	return f.members.find(key)
}

// layOut finds or makes the page of a key, or says that it shares the overflow
// page.
func (f *family) layOut(clock time.Time, c *quota.Charge) (m *member, overflow bool, err error) {
	f.forgetIdle(window.At(clock))
	m = f.find(c.Pool.Key)
	switch {
	case m != nil:
		f.list(m, c.MaxKeys == 0)
		m.page, err = keep(m.page, clock, c)
		return m, false, err
	case c.MaxKeys > 0 && f.members.count() >= c.MaxKeys:
		f.overflow, err = keep(f.overflow, clock, c)
		return nil, true, err
	}
	m = &member{key: c.Pool.Key}
	if m.page, err = quota.LayOut(clock, c, nil); err != nil {
		return nil, false, err
	}
	if f.newest != nil {
		m.page.Like(f.newest.page)
	}
	f.members.put(m)
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
		f.members.drop(m.key)
		f.listed[m.key] = m
	default:
		delete(f.listed, m.key)
		f.members.put(m)
		f.push(m)
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

// forgetIdle drops members that have nothing left to say: at least two with a call, so
// that idle ones go faster than new ones come, and one more for each millisecond in
// which nobody called. All at once would be a pause.
func (f *family) forgetIdle(now window.Instant) {
	const most = 256
	f.rebase(now)
	quiet := now.Sub(f.swept) / time.Millisecond
	f.swept = now
	for range min(max(quiet, 2), most) {
		if f.oldest == nil || !f.oldest.page.Idle(now) {
			return
		}
		f.members.drop(f.oldest.key)
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
