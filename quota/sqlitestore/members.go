package sqlitestore

import (
	"context"
	"database/sql/driver"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pagestore"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

func (t *tx) Member(f *pagestore.Family, key string) (*pagestore.Entry, error) {
	found, err := t.findMember(f, "member_find", key)
	if err != nil || found != nil {
		return found, err
	}
	e := &entry{member: true}
	e.Pool, e.Ref = quota.Pool{Upstream: f.Upstream, Account: f.Account, Name: f.Pool, Key: key}, e
	return &e.Entry, nil
}

func (t *tx) findMember(f *pagestore.Family, st string, args ...driver.Value) (*pagestore.Entry, error) {
	r, err := t.one(st, append([]driver.Value{f.Upstream, f.Account, f.Pool}, args...)...)
	if err != nil || r == nil {
		return nil, err
	}
	e := &entry{pageID: r.Int(0), member: true}
	e.Pool, e.Ref = quota.Pool{Upstream: f.Upstream, Account: f.Account, Name: f.Pool, Key: r.Text(3)}, e
	e.Listed, e.Reason = r.Int(2) != 0, r.Text(4)
	return &e.Entry, t.unpack(e, r.Blob(1))
}

func (t *tx) putMember(e *entry, c *quota.Charge) error {
	page, err := t.pack(e.Page)
	if err != nil {
		return err
	}
	if e.Pool.Name != "" {
		if err := t.rememberKeyed(e, c); err != nil {
			return err
		}
	}
	var names driver.Value
	if c != nil {
		names = storekit.WindowNames(c.Windows)
	}
	listed := int64(0)
	if e.Listed {
		listed = 1
	}
	values := []driver.Value{names, storekit.UsedText(e.Page), int64(max(e.Page.Latest, e.Behind)), page, listed, e.Reason}
	if e.pageID != 0 {
		return t.exec("member_save", append(values, e.pageID)...)
	}
	return t.exec("member_add", append(values, e.Pool.Upstream, e.Pool.Account, e.Pool.Name, e.Pool.Key)...)
}

// rememberKeyed finds the number under which a keyed pool counts its spend. The pool has
// no page of its own, so nothing of it can be forgotten.
func (t *tx) rememberKeyed(e *entry, c *quota.Charge) error {
	p := &e.Pool
	r, err := t.one("birth_find", p.Upstream, p.Account, p.Name)
	switch {
	case err != nil || r == nil && c == nil:
		return err
	case r == nil:
		e.id, err = t.insert("birth_add", p.Upstream, p.Account, p.Name, storekit.ZoneName(c.Zone), int64(0), int64(0))
		return err
	}
	if e.id = r.Int(0); c != nil && r.Text(1) != storekit.ZoneName(c.Zone) {
		return t.exec("birth_zone", e.id, storekit.ZoneName(c.Zone))
	}
	return nil
}

func (f *file) Keys(ctx context.Context, p quota.Pool, most int) (keys []string, all int, err error) {
	t, err := f.view(ctx)
	if err != nil {
		return nil, 0, err
	}
	err = t.read("member_keys", []driver.Value{p.Upstream, p.Account, p.Name, int64(most)}, func(r sqlitefile.Row) error {
		keys = append(keys, r.Text(0))
		return nil
	})
	if err == nil {
		var r sqlitefile.Row
		if r, err = t.one("member_count", p.Upstream, p.Account, p.Name); err == nil {
			all = int(r.Int(0))
		}
	}
	return keys, all, t.End(err)
}

func (t *tx) Drop(of *pagestore.Entry) error { return t.exec("member_drop", of.Ref.(*entry).pageID) }

func (t *tx) Oldest(f *pagestore.Family) (*pagestore.Entry, error) {
	return t.findMember(f, "member_oldest")
}

func (t *tx) Ahead(f *pagestore.Family) (*pagestore.Entry, error) {
	return t.findMember(f, "member_ahead", int64(window.At(t.now)))
}

func (t *tx) Family(p *quota.Pool) (*pagestore.Family, error) {
	f := &pagestore.Family{Upstream: p.Upstream, Account: p.Account, Pool: p.Name}
	r, err := t.one("family_find", p.Upstream, p.Account, p.Name)
	if err == nil && r != nil {
		f.Members = int(r.Int(0))
		f.Course = pagestore.Course{Called: window.Instant(r.Int(1)), Leapt: window.Instant(r.Int(2)), Proven: window.Instant(r.Int(3))}
	}
	return f, err
}

func (t *tx) PutFamily(f *pagestore.Family) error {
	return t.exec("family_save", f.Upstream, f.Account, f.Pool, int64(f.Members), int64(f.Called), int64(f.Leapt), int64(f.Proven))
}
