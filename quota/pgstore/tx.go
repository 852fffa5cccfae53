package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pagestore"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// tx is the [pagestore.Tx], in two round trips: Load begins it, locks and reads; End writes and
// commits. Every entry exists once in it, since several callers share it. Writes wait for
// End, or for a read that Load did not foresee.
type tx struct {
	b      *server
	ctx    context.Context
	conn   *pgxpool.Conn
	cancel context.CancelFunc
	reads  bool  // it only reads
	begun  bool  // the server has a transaction
	failed error // nothing more can be asked
	now    time.Time

	pools    map[quota.Pool]*entry
	members  map[quota.Pool]*entry
	families map[quota.Pool]*family
	receipts map[pagestore.ReceiptID]*pagestore.Receipt // not asked for yet; nil has none

	today storekit.Today
	writes
}

func newTx(ctx context.Context, b *server, conn *pgxpool.Conn) *tx {
	return &tx{
		b: b, ctx: ctx, conn: conn,
		pools: make(map[quota.Pool]*entry), members: make(map[quota.Pool]*entry), families: make(map[quota.Pool]*family),
		receipts: make(map[pagestore.ReceiptID]*pagestore.Receipt),
	}
}

// entry is a pool or a family's member with the other columns of its rows.
type entry struct {
	pagestore.Entry
	member bool
	number int64 // of its birth; 0 has no row yet
	known  bool  // its birth has a row, or will have one
	stored bool  // so has its page
	born   window.Instant
	until  window.Instant // its spend may count until then
	zone   string
	was    state  // of the stored page
	names  string // of its windows, to write; "" keeps them

	dirty   bool // it waits in writes
	birth   bool // so does its birth
	dropped bool
	damaged error // its page cannot be read
}

// state tells whether a page was laid out again or re-based.
type state struct{ generation, revision int64 }

// family is a family or a keyed pool with what was read beside it.
type family struct {
	pagestore.Family
	known  bool // the pool's birth has a row
	zone   string
	oldest *entry // what Oldest returns; nil if it must read
	none   bool   // there is no oldest member
	dirty  bool   // it waits in writes
	birth  bool   // so does the pool's birth
}

// stale makes the next Oldest read.
func (f *family) stale() { f.oldest, f.none = nil, false }

func (t *tx) Now() time.Time { return t.now }

// Room implements [pagestore.Tx]. A transaction that fails is rolled back, so there is always room.
func (t *tx) Room(*quota.Request) error { return nil }

// Entry implements [pagestore.Tx]. A pool is forgotten if its page is missing or replaced
// while earlier charges may still count. With restore that is no error.
func (t *tx) Entry(p *quota.Pool, restore bool) (*pagestore.Entry, error) {
	e := t.pools[*p]
	if e == nil && valid(p.Upstream) && valid(p.Account) && valid(p.Name) {
		if err := t.ask(t.pages(*p)); err != nil {
			return nil, err
		}
		e = t.pools[*p]
	}
	if e == nil {
		e = t.entry(*p)
	}
	if e.damaged != nil {
		return nil, e.damaged
	}
	strange := e.Page == nil || e.Page.Born != e.born
	if e.known && strange && window.At(t.now) < e.until && !restore {
		return nil, &quota.ForgottenError{Pool: *p, Born: e.born.Time()}
	}
	return &e.Entry, nil
}

func (t *tx) entry(p quota.Pool) *entry {
	e := &entry{}
	e.Pool, e.Ref = p, e
	t.pools[p] = e
	return e
}

// unpack reads the page of an entry, which may be nil. A damaged page is the error of those
// who ask for it, not of all callers in the transaction.
func (t *tx) unpack(e *entry, b []byte) {
	if b == nil {
		return
	}
	page := new(window.Page)
	if err := page.UnmarshalBinary(b); err != nil {
		e.damaged = fmt.Errorf("read the page of %s in %s: it is damaged; delete its row from headroom_ledger.pools with psql, "+
			"then put back what was spent with an adjustment: %w", e.Pool, t.b.where, err)
		return
	}
	e.Page, e.stored, e.was = page, true, state{page.Generation, page.Revision}
}

func (t *tx) Put(of *pagestore.Entry, c *quota.Charge) error {
	e := of.Ref.(*entry)
	if e.member {
		t.putMember(e, c)
		return nil
	}
	zone := e.zone
	if c != nil {
		zone = storekit.ZoneName(c.Zone)
	}
	if c != nil && (e.was.revision != e.Page.Revision || e.was == state{}) {
		e.names = storekit.WindowNames(c.Windows)
	}
	if !e.dirty {
		e.dirty = true
		t.dirty = append(t.dirty, e)
	}
	// The birth outlasts all spend of the page by an eighth, so that it is seldom written.
	expires := e.Page.Expires(e.Page.Latest)
	if e.known && e.born == e.Page.Born && e.until >= expires && e.was == (state{e.Page.Generation, e.Page.Revision}) && e.zone == zone {
		return nil
	}
	e.known, e.zone, e.born, e.until = true, zone, e.Page.Born, expires+(expires-e.Page.Latest)/8
	if !e.birth {
		e.birth = true
		t.births = append(t.births, e)
	}
	return nil
}

// Receipt implements [pagestore.Tx]. What Load has read is used once: the engine changes it.
func (t *tx) Receipt(upstream, account, id string) (*pagestore.Receipt, error) {
	key := pagestore.ReceiptID{Upstream: upstream, Account: account, ID: id}
	got, loaded := t.receipts[key]
	if !loaded && valid(upstream) && valid(account) && valid(id) {
		if err := t.ask(t.findReceipts(key)); err != nil {
			return nil, err
		}
		got = t.receipts[key]
	}
	delete(t.receipts, key)
	return got, nil
}

// Charge implements [pagestore.Tx]: a row of the table reservations for each charge.
func (t *tx) Charge(r *quota.Request, entries []*pagestore.Entry, nonce quota.Nonce) error {
	secret, l := []byte{}, &r.Labels
	if r.ID != "" {
		secret = nonce[:]
		delete(t.receipts, pagestore.ReceiptID{Upstream: r.Charges[0].Pool.Upstream, Account: r.Charges[0].Pool.Account, ID: r.ID})
	}
	for i, e := range entries {
		c := &r.Charges[i]
		if r.AtLeast && e.Units == 0 {
			continue
		}
		day := ""
		if !c.Windows[0].Spec.InFlight() { // a slot leaves no spend on any day
			day = t.today.Of(e.At, c.Zone)
		}
		t.charged = append(t.charged, e.Ref.(*entry))
		t.charges = append(t.charges, []any{
			e.Pool.Upstream, e.Pool.Account, e.Pool.Name, r.ID, secret, t.micros(), int64(e.At), day, e.Units, c.Units, e.Page.Generation,
			l.Method, l.Job, l.Region, l.Class, l.Reason, c.Pool.Key, e.Pool.Key != c.Pool.Key,
		})
	}
	t.b.pruneSoon(t.now)
	return nil
}

func (t *tx) micros() int64 { return int64(window.At(t.now)) }

func (t *tx) Amend(r *pagestore.Receipt) error {
	for i := range r.Taken {
		c := &r.Taken[i]
		t.settled = append(t.settled, []any{c.Ref, c.Recorded, c.Calls(), c.Done.Back, c.Done.Left, c.Done.Charged})
	}
	return nil
}

func (t *tx) AmendPart(r *pagestore.Receipt, of *quota.Token, p *storekit.Part) error {
	nonce := of.Nonce // the caller's is used again
	for i := range r.Taken {
		c := &r.Taken[i]
		t.parts = append(t.parts, []any{
			c.Ref, of.ID, nonce[:], t.micros(), c.Recorded - c.Units, c.Units, p.MoreCalls(i, c.Recorded), c.Done.Back, c.Done.Left, c.Done.Charged,
		})
	}
	return nil
}

func (t *tx) Keep(r *pagestore.Receipt) error {
	for i := range r.Taken {
		c := &r.Taken[i]
		t.kept = append(t.kept, []any{c.Ref, t.micros(), int64(c.At), c.Recorded, c.Generation})
	}
	return nil
}

func (t *tx) End(err error) error {
	if t.cancel != nil {
		defer t.cancel()
	}
	if t.conn == nil {
		return err
	}
	defer t.conn.Release() // ends a connection that is still in a transaction
	if t.reads || !t.begun {
		return err
	}
	err = cmp.Or(err, t.failed)
	if err == nil {
		batch := &pgx.Batch{}
		if err = t.queue(batch); err == nil {
			batch.Queue("COMMIT")
			return t.b.fault("write to", t.send(batch))
		}
	}
	if !t.conn.Conn().IsClosed() {
		_, _ = t.conn.Exec(t.ctx, "ROLLBACK") // or the connection ends, and with it the transaction
	}
	return err
}

// valid reports whether PostgreSQL can hold a name. It has no other names: a page, and so a
// receipt, is only made for names that are valid.
func valid(name string) bool { return utf8.ValidString(name) && !strings.Contains(name, "\x00") }
