package sqlitestore

import (
	"database/sql/driver"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// birth is what the file remembers of a pool beside its page, and the page as this
// process has last seen it.
type birth struct {
	id     int64 // 0: none yet
	pageID int64 // 0: there is no page
	born   window.Instant
	until  window.Instant // something of it may count until then
	zone   string

	stamp int64 // of the page below: while it is the row's, so is the page
	page  *window.Page
}

// pool is a pool in a transaction.
type pool struct {
	pool   quota.Pool
	birth  *birth
	page   *window.Page // nil: there is none yet
	reason string       // of the block
	was    state
}

// state tells whether a page was laid out again or re-based.
type state struct{ generation, revision int64 }

func stateOf(p *window.Page) state {
	if p == nil {
		return state{}
	}
	return state{p.Generation, p.Revision}
}

// moved reports whether a page that was there is not as it was stored, beside
// what is counted in it.
func (p *pool) moved() bool { return p.was != state{} && p.was != stateOf(p.page) }

// pools finds the pools of charges. Forgotten ones are an error, unless they are
// to be taken up again.
func (t *tx) pools(charges []quota.Charge, restore bool) ([]*pool, error) {
	pools := make([]*pool, len(charges))
	for i := range charges {
		p, err := t.pool(charges[i].Pool, restore)
		if err != nil {
			return nil, err
		}
		pools[i] = p
	}
	return pools, nil
}

// pool finds one pool: by number if it was found before.
func (t *tx) pool(name quota.Pool, restore bool) (*pool, error) {
	if b := t.s.known[name]; b != nil && b.pageID != 0 {
		p := &pool{pool: name, birth: b, page: b.page}
		r, err := t.one(pageLoad, b.pageID, b.stamp)
		if err != nil {
			return nil, err
		}
		if r != nil && r.int(0) != b.stamp {
			if p.page, err = t.s.unpack(name, r.blob(2)); err != nil {
				return nil, err
			}
			b.stamp, b.page = r.int(0), p.page
		}
		if r != nil && p.page.Born == b.born {
			p.reason, p.was = r.text(1), stateOf(p.page)
			return p, t.s.check(name, p.page, t.now, restore)
		}
	}
	r, err := t.one(pageFind, name.Upstream, name.Account, name.Name)
	if err != nil {
		return nil, err
	}
	p, err := t.s.found(name, window.At(t.now), restore, r)
	if err != nil {
		return nil, err
	}
	t.s.known[name] = p.birth
	return p, nil
}

// found is what the statement pageFind says of a pool. The pool is forgotten if it
// was born, something of it may still count, and its page is gone or another one.
func (s *Store) found(name quota.Pool, now window.Instant, restore bool, r row) (*pool, error) {
	b := &birth{
		id: r.int(0), born: window.Instant(r.int(1)), until: window.Instant(r.int(2)), zone: r.text(3),
		pageID: r.int(4), stamp: r.int(5),
	}
	if b.pageID != 0 {
		var err error
		if b.page, err = s.unpack(name, r.blob(7)); err != nil {
			return nil, err
		}
	}
	strange := b.page == nil || b.page.Born != b.born
	if b.id != 0 && strange && now < b.until && !restore {
		return nil, &quota.ForgottenError{Pool: name, Born: b.born.Time()}
	}
	p := &pool{pool: name, birth: b, page: b.page, reason: r.text(6), was: stateOf(b.page)}
	return p, s.check(name, p.page, now.Time(), restore)
}

// unpack reads a page.
func (s *Store) unpack(name quota.Pool, b []byte) (*window.Page, error) {
	page := new(window.Page)
	if err := page.UnmarshalBinary(b); err != nil {
		return nil, fmt.Errorf("read the page of %s in %s: it is damaged; delete its row from the table pools with sqlite3, "+
			"then put back what was spent with an adjustment: %w", name, s.path, err)
	}
	return page, nil
}

// layOut lays out the pages of charges. All books are checked before any page is
// changed.
func (t *tx) layOut(charges []quota.Charge, pools []*pool) ([]*window.Page, error) {
	for i, p := range pools {
		if p.page == nil {
			continue
		}
		if err := quota.CheckBook(&charges[i], p.page); err != nil {
			return nil, err
		}
	}
	pages := make([]*window.Page, len(pools))
	for i, p := range pools {
		page, err := quota.LayOut(t.now, &charges[i], p.page)
		if err != nil {
			return nil, err
		}
		p.page, pages[i] = page, page
	}
	return pages, nil
}

// save writes the page of a pool down, and remembers its birth. The windows are
// those of its charge; a settlement does not know them.
func (t *tx) save(p *pool, windows []window.Limit) error {
	page, b, name := p.page, p.birth, &p.pool
	bytes, err := page.AppendBinary(t.w.page[:0])
	if err != nil {
		return err
	}
	t.w.page = bytes
	if t.s.births != nil {
		t.s.saved = append(t.s.saved, p)
	}
	stamp := rand.Int64() | 1 // never 0, which is none
	if err := t.remember(p); err != nil {
		return err
	}
	var names driver.Value
	if p.was.revision != page.Revision || b.pageID == 0 {
		names = windowNames(windows)
	}
	if b.pageID != 0 {
		err = t.exec(pageSave, b.pageID, page.Revision, int64(page.Latest), int64(page.Blocked), p.reason, names, usedText(page), stamp, bytes)
	} else {
		b.pageID, err = t.insert(pageAdd, name.Upstream, name.Account, name.Name,
			int64(page.Born), page.Revision, int64(page.Latest), int64(page.Blocked), p.reason, names, usedText(page), stamp, bytes)
	}
	b.stamp, b.page = stamp, page
	return err
}

// remember keeps births.counts_until ahead of all that the page counts: by an
// eighth, so that it is seldom a write.
func (t *tx) remember(p *pool) error {
	page, b := p.page, p.birth
	expires := page.Expires(page.Latest)
	if b.id != 0 && b.born == page.Born && b.until >= expires && !p.moved() {
		return nil
	}
	b.born, b.until = page.Born, expires+(expires-page.Latest)/8
	if b.id != 0 {
		return t.exec(birthSave, b.id, b.zone, int64(b.born), int64(b.until))
	}
	var err error
	b.id, err = t.insert(birthAdd, p.pool.Upstream, p.pool.Account, p.pool.Name, b.zone, int64(b.born), int64(b.until))
	return err
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
