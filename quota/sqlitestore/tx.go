package sqlitestore

import (
	"database/sql/driver"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pagestore"
	"github.com/headroom-quota/headroom/quota/window"
)

// tx is a transaction of the writer, which holds the file's write lock, or of a
// reader.
type tx struct {
	*session
	file *file
	now  time.Time // by the store's clock, read while the lock is held
}

// entry is a pool with what the file remembers beside its page, or a family's member.
type entry struct {
	pagestore.Entry
	id     int64 // of its birth; 0: none yet
	pageID int64 // of its page, or of the member; 0: there is none
	born   window.Instant
	until  window.Instant // something of it may count until then
	zone   string
	stamp  int64 // of the page: while it is the row's, so is the page
	was    state // of the page, as it is stored
}

// state tells whether a page was laid out again or re-based.
type state struct{ generation, revision int64 }

// stored notes the page of a row.
func (e *entry) stored(p *window.Page) { e.Page, e.was = p, state{p.Generation, p.Revision} }

// Load implements [pagestore.Tx].
func (t *tx) Load(*pagestore.Scope) error { return nil }

// Now implements [pagestore.Tx].
func (t *tx) Now() time.Time { return t.now }

func (t *tx) reads() bool { return t.session != t.file.writer }

// End implements [pagestore.Tx].
func (t *tx) End(err error) error {
	gone := moved(t.file.files.Check())
	if t.reads() {
		_ = t.do(rollback)
		t.file.readers <- t.session
		if gone != nil {
			return gone
		}
		return err
	}
	if err == nil {
		err = gone
	}
	if err == nil {
		err = t.exec(commit)
	}
	if err != nil {
		clear(t.file.known) // may be of what was not written
		_ = t.do(rollback)
	}
	return err
}

// Entry implements [pagestore.Tx]: by number if it was found before.
func (t *tx) Entry(p *quota.Pool, restore bool) (*pagestore.Entry, error) {
	e := t.file.known[*p]
	if e == nil || t.reads() {
		return t.find(p, restore)
	}
	r, err := t.one(pageLoad, e.pageID, e.stamp)
	if err != nil {
		return nil, err
	}
	if r != nil && r.int(0) != e.stamp {
		if err := t.unpack(e, r.blob(2)); err != nil {
			return nil, err
		}
		e.stamp = r.int(0)
	}
	if r == nil || e.Page.Born != e.born {
		return t.find(p, restore)
	}
	e.Reason = r.text(1)
	return &e.Entry, nil
}

// find finds a pool by name. It is forgotten if it was born, something of it may
// still count, and its page is gone or another one.
func (t *tx) find(p *quota.Pool, restore bool) (*pagestore.Entry, error) {
	r, err := t.one(pageFind, p.Upstream, p.Account, p.Name)
	if err != nil {
		return nil, err
	}
	e := &entry{
		id: r.int(0), born: window.Instant(r.int(1)), until: window.Instant(r.int(2)), zone: r.text(3),
		pageID: r.int(4), stamp: r.int(5),
	}
	e.Pool, e.Reason, e.Ref = *p, r.text(6), e
	if e.pageID != 0 {
		if err := t.unpack(e, r.blob(7)); err != nil {
			return nil, err
		}
	}
	strange := e.Page == nil || e.Page.Born != e.born
	if e.id != 0 && strange && window.At(t.now) < e.until && !restore {
		return nil, &quota.ForgottenError{Pool: *p, Born: e.born.Time()}
	}
	return &e.Entry, nil
}

// unpack reads the page of an entry.
func (t *tx) unpack(e *entry, b []byte) error {
	page := new(window.Page)
	if err := page.UnmarshalBinary(b); err != nil {
		return fmt.Errorf("read the page of %s in %s: it is damaged; delete its row from the table pools with sqlite3, "+
			"then put back what was spent with an adjustment: %w", e.Pool, t.file.path, err)
	}
	e.stored(page)
	return nil
}

// Put implements [pagestore.Tx].
func (t *tx) Put(of *pagestore.Entry, c *quota.Charge) error {
	e, page := of.Ref.(*entry), of.Page
	bytes, err := page.AppendBinary(t.page[:0])
	if err != nil {
		return err
	}
	t.page = bytes
	if of.Pool.Name == "" {
		return t.putMember(e, c, bytes)
	}
	if err := t.remember(e, c); err != nil {
		return err
	}
	e.stamp = rand.Int64() | 1 // never 0, which is none
	var names driver.Value
	if c != nil && e.was.revision != page.Revision {
		names = windowNames(c.Windows)
	}
	e.stored(page)
	values := []driver.Value{page.Revision, int64(page.Latest), int64(page.Blocked), of.Reason, names, usedText(page), e.stamp, bytes}
	if e.pageID != 0 {
		return t.exec(pageSave, append(values, e.pageID)...)
	}
	p := &of.Pool
	e.pageID, err = t.insert(pageAdd, append(values, p.Upstream, p.Account, p.Name, int64(page.Born))...)
	t.file.known[*p] = e
	return err
}

// remember keeps births.counts_until ahead of all that the page counts: by an
// eighth, so that it is seldom a write. It also keeps by whose days its spend is
// counted.
func (t *tx) remember(e *entry, c *quota.Charge) error {
	page, zone := e.Page, e.zone
	if c != nil {
		zone = zoneName(c.Zone)
	}
	expires := page.Expires(page.Latest)
	if e.id != 0 && e.born == page.Born && e.until >= expires && e.was == (state{page.Generation, page.Revision}) && e.zone == zone {
		return nil
	}
	e.born, e.until, e.zone = page.Born, expires+(expires-page.Latest)/8, zone
	if e.id != 0 {
		return t.exec(birthSave, e.id, e.zone, int64(e.born), int64(e.until))
	}
	var err error
	e.id, err = t.insert(birthAdd, e.Pool.Upstream, e.Pool.Account, e.Pool.Name, e.zone, int64(e.born), int64(e.until))
	return err
}

// zoneName is how the file names a zone.
func zoneName(zone *time.Location) string {
	if zone == nil || zone == time.UTC {
		return ""
	}
	return zone.String()
}

// windowNames and usedText are for people: "24h, day UTC" and "120, 80".
func windowNames(windows []window.Limit) string {
	names := make([]string, len(windows))
	for i, w := range windows {
		names[i] = w.Name
	}
	return strings.Join(names, ", ")
}

func usedText(page *window.Page) string {
	var b []byte
	for i, w := range page.Windows() {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = strconv.AppendInt(b, w.Used(page.Latest), 10)
	}
	return string(b)
}
