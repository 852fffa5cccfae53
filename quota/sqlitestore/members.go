package sqlitestore

import (
	"database/sql/driver"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pagestore"
	"github.com/headroom-quota/headroom/quota/window"
)

// member returns a member of a family, which may be new. The empty key has the page that
// new keys share when the family is full.
func (t *tx) member(p quota.Pool) (*pagestore.Entry, error) {
	found, err := t.findMember(p, "member_find", p.Upstream, p.Account, p.Key)
	if err != nil || found != nil {
		return found, err
	}
	e := &entry{}
	e.Pool, e.Ref = p, e
	return &e.Entry, nil
}

// findMember reads a member of the family of p. The result may be nil.
func (t *tx) findMember(p quota.Pool, st string, args ...driver.Value) (*pagestore.Entry, error) {
	r, err := t.one(st, args...)
	if err != nil || r == nil {
		return nil, err
	}
	e := &entry{pageID: r.Int(0)}
	e.Pool, e.Listed, e.Ref = p, r.Int(2) != 0, e
	e.Pool.Key = r.Text(3)
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
func (t *tx) Oldest(p quota.Pool) (*pagestore.Entry, error) {
	return t.findMember(p, "member_oldest", p.Upstream, p.Account)
}

// Ahead implements [pagestore.Tx].
func (t *tx) Ahead(p quota.Pool) (*pagestore.Entry, error) {
	return t.findMember(p, "member_ahead", p.Upstream, p.Account, int64(window.At(t.now)))
}

// Family implements [pagestore.Tx].
func (t *tx) Family(p quota.Pool) (*pagestore.Family, error) {
	f := &pagestore.Family{}
	r, err := t.one("family_find", p.Upstream, p.Account)
	if err == nil && r != nil {
		f.Members = int(r.Int(0))
		f.Course = pagestore.Course{Called: window.Instant(r.Int(1)), Leapt: window.Instant(r.Int(2)), Proven: window.Instant(r.Int(3))}
	}
	return f, err
}

// PutFamily implements [pagestore.Tx].
func (t *tx) PutFamily(p quota.Pool, f *pagestore.Family) error {
	return t.exec("family_save", p.Upstream, p.Account, int64(f.Members), int64(f.Called), int64(f.Leapt), int64(f.Proven))
}
