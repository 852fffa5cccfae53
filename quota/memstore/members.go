package memstore

import (
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pagestore"
	"github.com/headroom-quota/headroom/quota/window"
)

// family holds a page per key.
type family struct {
	pagestore.Family
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

// family returns the family of a member, known or new. It is mostly the last one's
// again.
func (b *backend) family(p quota.Pool) *family {
	name := accountKey{p.Upstream, p.Account}
	if b.lastFamily != nil && b.lastName == name {
		return b.lastFamily
	}
	f := b.families[name]
	if f == nil {
		f = &family{listed: make(map[string]*member)}
		b.families[name] = f
	}
	b.lastFamily, b.lastName = f, name
	return f
}

// member finds the member that has a key, or makes one that is nowhere yet.
func (b *backend) member(p quota.Pool) *pagestore.Entry {
	f := b.family(p)
	m := f.overflow
	if p.Key != "" {
		if m = f.listed[p.Key]; m == nil {
			m = f.members.find(p.Key)
		}
	}
	if m == nil {
		m = &member{key: p.Key}
	}
	return b.lend(p, m)
}

// lend returns an entry for a member until the end of the transaction, which asks for
// fewer than there are.
func (b *backend) lend(p quota.Pool, m *member) *pagestore.Entry {
	b.lending++
	e := &b.lent[b.lending%len(b.lent)]
	p.Key = m.key
	*e = pagestore.Entry{Pool: p, Page: m.page, Listed: m.in == listed, Ref: m}
	return e
}

// put gives a member its place, as the newest.
func (f *family) put(m *member, e *pagestore.Entry) {
	m.page = e.Page
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

// Family implements [pagestore.Tx].
func (b *backend) Family(p quota.Pool) (*pagestore.Family, error) { return &b.family(p).Family, nil }

// PutFamily implements [pagestore.Tx].
func (b *backend) PutFamily(quota.Pool, *pagestore.Family) error { return nil } // it has it already

// Oldest implements [pagestore.Tx].
func (b *backend) Oldest(p quota.Pool) (*pagestore.Entry, error) {
	if m := b.family(p).oldest; m != nil {
		return b.lend(p, m), nil
	}
	return nil, nil
}

// Ahead implements [pagestore.Tx]: of those that would be forgotten next.
func (b *backend) Ahead(p quota.Pool) (*pagestore.Entry, error) {
	if m := b.family(p).oldest; m != nil && m.page.Latest > b.at {
		return b.lend(p, m), nil
	}
	return nil, nil
}

// Drop implements [pagestore.Tx].
func (b *backend) Drop(e *pagestore.Entry) error {
	b.family(e.Pool).remove(e.Ref.(*member))
	return nil
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
