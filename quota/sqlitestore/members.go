package sqlitestore

import (
	"database/sql/driver"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pagestore"
	"github.com/headroom-quota/headroom/quota/window"
)

// Member implements [pagestore.Tx].
func (t *tx) Member(f *pagestore.Family, key string) (*pagestore.Entry, error) {
	found, err := t.findMember(f, memberFind, key)
	if err != nil || found != nil {
		return found, err
	}
	e := &entry{}
	e.Pool, e.Ref = quota.Pool{Upstream: f.Upstream, Account: f.Account, Key: key}, e
	return &e.Entry, nil
}

// findMember reads a member of a family, or returns nil.
func (t *tx) findMember(f *pagestore.Family, st statement, args ...driver.Value) (*pagestore.Entry, error) {
	r, err := t.one(st, append([]driver.Value{f.Upstream, f.Account}, args...)...)
	if err != nil || r == nil {
		return nil, err
	}
	e := &entry{pageID: r.int(0)}
	e.Pool, e.Listed, e.Ref = quota.Pool{Upstream: f.Upstream, Account: f.Account, Key: r.text(3)}, r.int(2) != 0, e
	return &e.Entry, t.unpack(e, r.blob(1))
}

func (t *tx) putMember(e *entry, c *quota.Charge, page []byte) error {
	var names driver.Value
	if c != nil {
		names = windowNames(c.Windows)
	}
	listed := int64(0)
	if e.Listed {
		listed = 1
	}
	values := []driver.Value{names, usedText(e.Page), int64(e.Page.Latest), page, listed}
	if e.pageID != 0 {
		return t.exec(memberSave, append(values, e.pageID)...)
	}
	return t.exec(memberAdd, append(values, e.Pool.Upstream, e.Pool.Account, e.Pool.Key)...)
}

// Drop implements [pagestore.Tx].
func (t *tx) Drop(of *pagestore.Entry) error { return t.exec(memberDrop, of.Ref.(*entry).pageID) }

// Oldest implements [pagestore.Tx].
func (t *tx) Oldest(f *pagestore.Family) (*pagestore.Entry, error) {
	return t.findMember(f, memberOldest)
}

// Ahead implements [pagestore.Tx].
func (t *tx) Ahead(f *pagestore.Family) (*pagestore.Entry, error) {
	return t.findMember(f, memberAhead, int64(window.At(t.now)))
}

// Family implements [pagestore.Tx].
func (t *tx) Family(p *quota.Pool) (*pagestore.Family, error) {
	f := &pagestore.Family{Upstream: p.Upstream, Account: p.Account}
	r, err := t.one(familyFind, p.Upstream, p.Account)
	if err == nil && r != nil {
		f.Members = int(r.int(0))
		f.Course = pagestore.Course{Called: window.Instant(r.int(1)), Leapt: window.Instant(r.int(2)), Proven: window.Instant(r.int(3))}
	}
	return f, err
}

// PutFamily implements [pagestore.Tx].
func (t *tx) PutFamily(f *pagestore.Family) error {
	return t.exec(familySave, f.Upstream, f.Account, int64(f.Members), int64(f.Called), int64(f.Leapt), int64(f.Proven))
}
