package sqlitestore

import (
	"cmp"
	"database/sql/driver"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pagestore"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// tx is the [pagestore.Tx]: a transaction of a reader, or of the writer, which holds the file's write lock.
type tx struct {
	*sqlitefile.Session
	file *file
	now  time.Time // the store's clock, read while the lock is held
}

func (t *tx) exec(name string, args ...driver.Value) error {
	_, err := t.Exec(name, args...)
	return t.file.Fault("write to", err)
}

func (t *tx) insert(name string, args ...driver.Value) (int64, error) {
	id, err := t.Insert(name, args...)
	return id, t.file.Fault("write to", err)
}

func (t *tx) read(name string, args []driver.Value, each func(sqlitefile.Row) error) error {
	return t.file.Fault("read", t.Rows(name, args, each))
}

// one returns the row of a query, or nil if it has none.
func (t *tx) one(name string, args ...driver.Value) (sqlitefile.Row, error) {
	r, err := t.One(name, args...)
	return r, t.file.Fault("read", err)
}

// entry is a pool or a family's member with the other columns of its rows.
type entry struct {
	pagestore.Entry
	id     int64 // of its birth; 0 if it has none
	pageID int64 // of its page, or of the member; 0 if it has none
	born   window.Instant
	until  window.Instant // its spend may count until then
	zone   string
	member bool
	stamp  int64 // of the page; the page is valid while the row has this stamp
	was    state // of the stored page

	loaded  int64        // the transaction that has read the page, or written it
	changed bool         // the page must be saved at the end of the transaction
	names   driver.Value // of its windows, if they changed too
}

// state tells whether a page was laid out again or re-based.
type state struct{ generation, revision int64 }

func (e *entry) stored(p *window.Page) { e.Page, e.was = p, state{p.Generation, p.Revision} }

func (t *tx) Load(*pagestore.Scope) error { return nil }

func (t *tx) Now() time.Time { return t.now }

// Probe implements [pagestore.Prober].
func (t *tx) Probe() (broken, full error) { return t.file.TryWrite() }

func (t *tx) reads() bool { return t.Session != t.file.Writer }

func (t *tx) End(err error) error {
	if t.reads() {
		return cmp.Or(moved(t.file.Release(t.Session)), err)
	}
	if err == nil {
		err = t.savePages()
	}
	failed := t.file.End(err)
	if failed != nil {
		clear(t.file.known) // they may hold changes that were not written
	}
	if err == nil {
		failed = moved(t.file.Fault("write to", failed))
	}
	return failed
}

// Entry implements [pagestore.Tx]: by number if the writer found it before, and once in a
// transaction, which no other process can overlap.
func (t *tx) Entry(p *quota.Pool, restore bool) (*pagestore.Entry, error) {
	if t.reads() {
		return t.find(p, restore) // what is known belongs to the writer
	}
	e := t.file.known[*p]
	switch {
	case e == nil:
		return t.find(p, restore)
	case e.loaded == t.file.begun:
		if err := t.forgotten(e, restore); err != nil {
			return nil, err
		}
		return &e.Entry, nil
	}
	r, err := t.one("page_load", e.pageID, e.stamp)
	if err != nil {
		return nil, err
	}
	if r != nil && r.Int(0) != e.stamp {
		if err := t.unpack(e, r.Blob(2)); err != nil {
			return nil, err
		}
		e.stamp = r.Int(0)
	}
	if r == nil || e.Page.Born != e.born {
		return t.find(p, restore)
	}
	e.Reason, e.loaded = r.Text(1), t.file.begun
	return &e.Entry, nil
}

// find finds a pool by name. The pool is forgotten if its page is missing or replaced
// while earlier charges may still count. With restore that is no error.
func (t *tx) find(p *quota.Pool, restore bool) (*pagestore.Entry, error) {
	r, err := t.one("page_find", p.Upstream, p.Account, p.Name)
	if err != nil {
		return nil, err
	}
	e := &entry{
		id: r.Int(0), born: window.Instant(r.Int(1)), until: window.Instant(r.Int(2)), zone: r.Text(3),
		pageID: r.Int(4), stamp: r.Int(5),
	}
	e.Pool, e.Reason, e.Ref = *p, r.Text(6), e
	if e.pageID != 0 {
		if err := t.unpack(e, r.Blob(7)); err != nil {
			return nil, err
		}
	}
	if err := t.forgotten(e, restore); err != nil {
		return nil, err
	}
	if !t.reads() { // callers who share the transaction must share the page
		e.loaded, t.file.known[*p] = t.file.begun, e
	}
	return &e.Entry, nil
}

// forgotten returns an error if the page of a pool is missing or replaced while earlier
// charges may still count, unless they are being restored.
func (t *tx) forgotten(e *entry, restore bool) error {
	strange := e.Page == nil || e.Page.Born != e.born
	if e.id != 0 && strange && window.At(t.now) < e.until && !restore {
		return &quota.ForgottenError{Pool: e.Pool, Born: e.born.Time()}
	}
	return nil
}

func (t *tx) unpack(e *entry, b []byte) error {
	page := new(window.Page)
	if err := page.UnmarshalBinary(b); err != nil {
		return fmt.Errorf("read the page of %s in %s: it is damaged; delete its row from the table pools with sqlite3, "+
			"then put back what was spent with an adjustment: %w", e.Pool, t.file.Path, err)
	}
	e.stored(page)
	return nil
}

func (t *tx) Put(of *pagestore.Entry, c *quota.Charge) error {
	e := of.Ref.(*entry)
	if e.member {
		return t.putMember(e, c)
	}
	if err := t.remember(e, c); err != nil {
		return err
	}
	if c != nil && e.was.revision != of.Page.Revision {
		e.names = storekit.WindowNames(c.Windows)
	}
	e.stored(of.Page)
	if e.pageID == 0 {
		return t.savePage(e)
	}
	if !e.changed {
		e.changed = true
		t.file.changed = append(t.file.changed, e)
	}
	return nil
}

// savePages writes the pages that the transaction has changed.
func (t *tx) savePages() error {
	for _, e := range t.file.changed {
		if err := t.savePage(e); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) savePage(e *entry) error {
	page, p := e.Page, &e.Pool
	bytes, err := t.pack(page)
	if err != nil {
		return err
	}
	e.stamp = rand.Int64() | 1 // never 0, which means no stamp
	values := []driver.Value{page.Revision, int64(page.Latest), int64(page.Blocked), e.Reason, e.names, storekit.UsedText(page), e.stamp, bytes}
	e.names, e.changed, e.loaded = nil, false, t.file.begun
	if e.pageID != 0 {
		return t.exec("page_save", append(values, e.pageID)...)
	}
	e.pageID, err = t.insert("page_add", append(values, p.Upstream, p.Account, p.Name, int64(page.Born))...)
	return err
}

// pack returns the bytes of a page, which are valid until the next one.
func (t *tx) pack(page *window.Page) (bytes []byte, err error) {
	bytes, err = page.AppendBinary(t.file.page[:0])
	if err == nil {
		t.file.page = bytes
	}
	return bytes, err
}

// remember keeps births.counts_until later than all spend of the page. It adds an eighth, so
// that it seldom writes. It also saves the zone of the pool's days.
func (t *tx) remember(e *entry, c *quota.Charge) error {
	page, zone := e.Page, e.zone
	if c != nil {
		zone = storekit.ZoneName(c.Zone)
	}
	expires := page.Expires(page.Latest)
	if e.id != 0 && e.born == page.Born && e.until >= expires && e.was == (state{page.Generation, page.Revision}) && e.zone == zone {
		return nil
	}
	e.born, e.until, e.zone = page.Born, expires+(expires-page.Latest)/8, zone
	if e.id != 0 {
		return t.exec("birth_save", e.id, e.zone, int64(e.born), int64(e.until))
	}
	var err error
	e.id, err = t.insert("birth_add", e.Pool.Upstream, e.Pool.Account, e.Pool.Name, e.zone, int64(e.born), int64(e.until))
	return err
}
