package memstore

import (
	"context"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pagestore"
	"github.com/headroom-quota/headroom/quota/window"
)

// family holds a page per key, of a family or of a keyed pool.
type family struct {
	pagestore.Family
	pool     *pool              // has the spend of a keyed pool; nil before the first
	reasons  map[string]string  // of blocks, by key
	listed   map[string]*member // those with a place in the price book
	members  keys               // the others,
	newest   *member            // in the order in which they were last charged
	oldest   *member
	overflow *member
}

// member is small, as there may be a million: what a transaction needs beside it is
// lent.
type member struct {
	key          string
	page         *window.Page
	in           place
	newer, older *member
}

// place is where a family has a member.
type place int8

const (
	nowhere place = iota
	among         // the others
	listed
)

// find returns the member that has a key, or nil. The empty key is the page that new
// keys share when the family is full.
func (f *family) find(key string) *member {
	if key == "" {
		return f.overflow
	}
	if m := f.listed[key]; m != nil {
		return m
	}
	return f.members.find(key)
}

// lent is the entry of a member, and is used again by the next transaction. A transaction asks for
// few of the members that there are.
type lent struct {
	pagestore.Entry
	family *family
	member *member
}

func (b *backend) lend(f *family, m *member) *pagestore.Entry {
	if b.lending == len(b.lent) {
		b.lent = append(b.lent, new(lent))
	}
	b.lending++
	return b.lent[b.lending-1].of(f, m)
}

// show is lend until the next show.
func (b *backend) show(f *family, m *member) *pagestore.Entry { return b.shown.of(f, m) }

func (l *lent) of(f *family, m *member) *pagestore.Entry {
	l.family, l.member = f, m
	l.Pool = quota.Pool{Upstream: f.Upstream, Account: f.Account, Name: f.Pool, Key: m.key}
	l.Page, l.Listed, l.Reason, l.Ref = m.page, m.in == listed, f.reasons[m.key], l
	return &l.Entry
}

// put gives a member its place, as the newest.
func (f *family) put(m *member, e *pagestore.Entry) {
	m.page = e.Page
	if m.page.Blocked != 0 && e.Reason != f.reasons[m.key] {
		if f.reasons == nil {
			f.reasons = make(map[string]string)
		}
		f.reasons[m.key] = e.Reason
	}
	switch {
	case m.key == "":
		f.overflow = m
		return
	case m.in == nowhere && f.newest != nil:
		m.page.Like(f.newest.page)
	case m.in == among && !e.Listed:
		if f.newest != m {
			f.unlink(m)
			f.push(m)
		}
		return
	}
	f.remove(m)
	if e.Listed {
		f.listed[m.key], m.in = m, listed
		return
	}
	f.members.put(m)
	f.push(m)
	m.in = among
}

func (f *family) remove(m *member) {
	switch m.in {
	case among:
		f.unlink(m)
		f.members.drop(m.key)
	case listed:
		delete(f.listed, m.key)
	}
	m.in = nowhere
}

// Family implements [pagestore.Tx]: it is mostly the last one's again.
func (b *backend) Family(p *quota.Pool) (*pagestore.Family, error) {
	if f := b.lastFamily; f != nil && f.Pool == p.Name && f.Upstream == p.Upstream && f.Account == p.Account {
		return &f.Family, nil
	}
	name := familyKey{p.Upstream, p.Account, p.Name}
	f := b.families[name]
	if f == nil {
		f = &family{listed: make(map[string]*member)}
		f.Upstream, f.Account, f.Pool, f.Ref = p.Upstream, p.Account, p.Name, f
		b.families[name] = f
	}
	b.lastFamily = f
	return &f.Family, nil
}

func (b *backend) PutFamily(*pagestore.Family) error { return nil } // it has it already

func (b *backend) Member(of *pagestore.Family, key string) (*pagestore.Entry, error) {
	f := of.Ref.(*family)
	m := f.find(key)
	if m == nil {
		m = &member{key: key}
	}
	return b.lend(f, m), nil
}

func (b *backend) Oldest(of *pagestore.Family) (*pagestore.Entry, error) {
	f := of.Ref.(*family)
	if f.oldest == nil {
		return nil, nil
	}
	return b.show(f, f.oldest), nil
}

// Ahead implements [pagestore.Tx]: of those that would be forgotten next.
func (b *backend) Ahead(of *pagestore.Family) (*pagestore.Entry, error) {
	f := of.Ref.(*family)
	if f.oldest == nil || f.oldest.page.Latest <= b.at {
		return nil, nil
	}
	return b.show(f, f.oldest), nil
}

func (b *backend) Drop(e *pagestore.Entry) error {
	l := e.Ref.(*lent)
	l.family.remove(l.member)
	delete(l.family.reasons, l.member.key)
	return nil
}

func (b *backend) Keys(_ context.Context, p quota.Pool, most int) (keys []string, all int, err error) {
	f := b.families[familyKey{p.Upstream, p.Account, p.Name}]
	if f == nil {
		return nil, 0, nil
	}
	for m := f.newest; m != nil && len(keys) < most; m = m.older {
		keys = append(keys, m.key)
	}
	return keys, f.members.count() + len(f.listed), nil
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

// keys finds the members of a family by their keys. A map never becomes smaller, so
// where few are left of many a new one takes its place: members move when they are
// asked for, and those that nobody asks for are idle before long.
type keys struct {
	now, old map[string]*member
	largest  int // size that now has had
}

// few is how many are never too many for a map to keep.
const few = 1024

func (k *keys) count() int { return len(k.now) + len(k.old) }

func (k *keys) find(key string) *member {
	m := k.now[key]
	if m == nil && k.old != nil {
		if m = k.old[key]; m != nil {
			delete(k.old, key)
			k.put(m)
		}
	}
	return m
}

func (k *keys) put(m *member) {
	if k.now == nil {
		k.now = make(map[string]*member)
	}
	k.now[m.key] = m
	k.largest = max(k.largest, len(k.now))
}

func (k *keys) drop(key string) {
	delete(k.now, key)
	delete(k.old, key)
	if len(k.old) > 0 {
		return
	}
	k.old = nil
	if k.largest > few && len(k.now) < k.largest/8 {
		k.now, k.old, k.largest = nil, k.now, 0
	}
}
