package sqlitestore

import (
	"database/sql/driver"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pagestore"
	"github.com/headroom-quota/headroom/quota/window"
)

// Member implements [pagestore.Tx].
func (t *tx) Member(f *pagestore.Family, key string) (*pagestore.Entry, error) {
	found, err := t.findMember(f, "member_find", key)
	if err != nil || found != nil {
		return found, err
	}
	e := &entry{}
	e.Pool, e.Ref = quota.Pool{Upstream: f.Upstream, Account: f.Account, Key: key}, e
	return &e.Entry, nil
}

// findMember reads a member of a family, or returns nil.
func (t *tx) findMember(f *pagestore.Family, st string, args ...driver.Value) (*pagestore.Entry, error) {
	r, err := t.one(st, append([]driver.Value{f.Upstream, f.Account}, args...)...)
	if err != nil || r == nil {
		return nil, err
	}
	e := &entry{pageID: r.Int(0)}
	e.Pool, e.Listed, e.Ref = quota.Pool{Upstream: f.Upstream, Account: f.Account, Key: r.Text(3)}, r.Int(2) != 0, e
	return &e.Entry, t.unpack(e, r.Blob(1))
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
		return t.exec("member_save", append(values, e.pageID)...)
	}
	return t.exec("member_add", append(values, e.Pool.Upstream, e.Pool.Account, e.Pool.Key)...)
}

// Drop implements [pagestore.Tx].
func (t *tx) Drop(of *pagestore.Entry) error { return t.exec("member_drop", of.Ref.(*entry).pageID) }

// Oldest implements [pagestore.Tx].
func (t *tx) Oldest(f *pagestore.Family) (*pagestore.Entry, error) {
	return t.findMember(f, "member_oldest")
}

// Ahead implements [pagestore.Tx].
func (t *tx) Ahead(f *pagestore.Family) (*pagestore.Entry, error) {
	return t.findMember(f, "member_ahead", int64(window.At(t.now)))
}

// Family implements [pagestore.Tx].
func (t *tx) Family(p *quota.Pool) (*pagestore.Family, error) {
	f := &pagestore.Family{Upstream: p.Upstream, Account: p.Account}
	r, err := t.one("family_find", p.Upstream, p.Account)
	if err == nil && r != nil {
		f.Members = int(r.Int(0))
		f.Course = pagestore.Course{Called: window.Instant(r.Int(1)), Leapt: window.Instant(r.Int(2)), Proven: window.Instant(r.Int(3))}
	}
	return f, err
}

// PutFamily implements [pagestore.Tx].
func (t *tx) PutFamily(f *pagestore.Family) error {
	return t.exec("family_save", f.Upstream, f.Account, int64(f.Members), int64(f.Called), int64(f.Leapt), int64(f.Proven))
}
