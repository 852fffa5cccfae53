package pagestore

import (
	"context"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// Backend keeps pages, receipts and spend, and decides nothing.
type Backend interface {
	// Begin starts a transaction that no other can overlap, in this process or
	// another one, if both ask for the same data. A busy backend is tried until
	// the context ends or its own patience does, of which the caller has used up
	// waited already.
	Begin(ctx context.Context, waited time.Duration) (Tx, error)
	// View starts a transaction that only reads: Load, Now, Entry and End are called.
	View(ctx context.Context) (Tx, error)
	// Spend reads who spent what. The order does not matter.
	Spend(ctx context.Context, q quota.SpendQuery) ([]quota.Spent, error)
	// Keys lists the keys of a keyed pool: see [quota.KeyLister].
	Keys(ctx context.Context, p quota.Pool, most int) (keys []string, all int, err error)
}

// Scope names all that a transaction will ask for: for one request, or for
// several that are combined. A backend over a network locks the accounts and fetches
// all of it in one round trip. A settlement names its receipt only: what it asks for are
// the pages of that, too.
type Scope struct {
	Charges  []quota.Charge
	Receipts []ReceiptID
}

// ReceiptID names a receipt. Two accounts may use the same id.
type ReceiptID struct{ Upstream, Account, ID string }

// Tx is a transaction. A read error fails one request. A write error fails the
// transaction, and is passed to End.
type Tx interface {
	// Load is called once, first, if [Options.Combine] is set. Stores whose callers take
	// turns need no Load.
	Load(s *Scope) error
	// Now returns the store's time, read after the transaction has its locks.
	Now() time.Time
	// Entry returns the page of a pool without a key. The entry of a new pool has no page. It stays valid until End. For a page that the store has lost,
	// Entry returns a [quota.ForgottenError], or a new page if restore is set.
	Entry(p *quota.Pool, restore bool) (*Entry, error)
	// Put stores an entry. The page is laid out for the charge, which is nil if a
	// settlement changed the page.
	Put(e *Entry, c *quota.Charge) error

	// Receipt returns the receipt of an id in an account that is not older than
	// [quota.ReceiptLife], or nil.
	Receipt(upstream, account, id string) (*Receipt, error)
	// Room returns an error if there is no room to store a grant. It is called before a
	// page changes, for backends that cannot undo a change.
	Room(r *quota.Request) error
	// Charge stores who spent what of each entry, and a receipt if the request has an id.
	Charge(r *quota.Request, entries []*Entry, nonce quota.Nonce) error
	// Amend stores that a receipt was settled, and corrects the spend.
	Amend(r *Receipt) error
	// AmendPart stores that a part of a reservation was settled: a receipt of its own,
	// whose charges are the part's. It corrects the spend of the reservation. The last
	// receipt that was asked for is that of the whole, which stays as it is.
	AmendPart(r *Receipt, t *quota.Token, p *storekit.Part) error

	// Keep stores when the slots of a receipt count and which were given back, if it has
	// any. The receipt then lives for [quota.ReceiptLife] from now.
	Keep(r *Receipt) error
	// Family returns the family of a member, or the keyed pool of a page. It stays valid
	// until End.
	Family(p *quota.Pool) (*Family, error)
	// PutFamily stores a family.
	PutFamily(f *Family) error
	// Member returns the page of a key. The entry of a new key has no page. The empty key
	// is the page that new keys share if the family is full. The entry stays valid until
	// End; those of Oldest and Ahead until the next call of one of them.
	Member(f *Family, key string) (*Entry, error)
	// Oldest returns the member that was charged longest ago, without those that the
	// price book lists, or nil.
	Oldest(f *Family) (*Entry, error)
	// Ahead returns the member that was charged at the latest instant after now, or nil.
	Ahead(f *Family) (*Entry, error)
	// Drop removes a member.
	Drop(e *Entry) error

	// End commits, or undoes everything if err is not nil. It returns err, or why
	// the commit failed.
	End(err error) error
}

// Prober is a [Tx] that can try to write, and changes nothing: see [quota.Ledger.Ready]. A disk without room
// for more leaves the transaction as it is; other errors break it.
type Prober interface{ Probe() (broken, full error) }

// Entry is the page of one pool or of one member of a family, with its data. A page of a
// keyed pool is a member, and its pool is the family.
type Entry struct {
	Pool   quota.Pool
	Page   *window.Page   // nil if the pool is new
	Reason string         // of the block
	Family *Family        // for a member, set by the engine
	Listed bool           // for a member: the price book lists it
	Behind window.Instant // for a member: Oldest comes to it as if it was charged then
	Ref    any            // for the backend

	// Units are what a charge has recorded in the page, and At is when they count. A
	// correction gives back at most what was used.
	Units int64
	At    window.Instant

	at      window.Instant // the instant that counts now
	rebased bool           // the clock had been far ahead
	moved   bool           // the page changed in more than its counts since it was stored
	laidOut bool           // for the windows of the charge
	fits    bool           // the charge

	again    bool // for a member: its page was made again, for a slot
	known    bool // for a member: it has a page already
	overflow bool // the page is shared by new keys
}

// Family is what a store knows about a family, or about a keyed pool, apart from its
// members.
type Family struct {
	Upstream string
	Account  string
	Pool     string // of a keyed pool; "" is a family
	Members  int    // not counting those that the price book lists
	Course
	Ref any // for the backend

	busy window.Instant // when the oldest member was found busy; not stored
}

// Receipt is what a grant leaves under the caller's id.
type Receipt struct {
	Nonce    quota.Nonce
	Taken    []Taken
	Settled  bool
	Released bool             // settled to nothing: the call was never sent, and its id can be used again
	Done     quota.Settlement // of all charges, if settled
}

// released reports whether nothing is left of what a settled receipt has taken.
func (r *Receipt) released() bool {
	return r.Settled && !slices.ContainsFunc(r.Taken, func(t Taken) bool { return t.Recorded != 0 })
}

// Taken is one charge of a receipt. A slot leaves no spend, and settling leaves the slot.
// Its Recorded is 0 after it was given back.
type Taken struct {
	Slot       bool
	Pool       string
	Key        string         // of a keyed pool
	Overflow   bool           // the key shared a page
	Units      int64          // requested
	Recorded   int64          // that were recorded, or settled to
	At         window.Instant // at which they counted
	Generation int64          // of the page at that time
	Done       quota.Settlement
	Ref        int64 // for the backend
}

// Calls returns how many calls the spend counts of a settled charge. A released call was not
// made.
func (t *Taken) Calls() int64 {
	if t.Recorded == 0 && t.Units > 0 {
		return 0
	}
	return 1
}

// ReceiptRows collects the receipt of an id, for a backend with a row for each charge. The
// latest row comes first. The zero value is ready for use.
type ReceiptRows struct {
	Receipt *Receipt // nil: there is none, or it is too old
	over    bool     // it is complete or too old, and the other rows are older
}

// Add adds a row, which was made at an instant and has the Done of its charge.
func (r *ReceiptRows) Add(now time.Time, made window.Instant, nonce []byte, settled bool, t Taken) {
	var n quota.Nonce
	if r.over || len(nonce) != len(n) {
		return
	}
	copy(n[:], nonce)
	got := r.Receipt
	switch {
	case got == nil && window.At(now).Sub(made) > quota.ReceiptLife, got != nil && got.Nonce != n:
		r.over = true
		return
	case got == nil:
		got = &Receipt{Nonce: n, Settled: settled, Released: settled}
		r.Receipt = got
	}
	got.Released = got.Released && t.Recorded == 0
	got.Done.Add(t.Done)
	got.Taken = slices.Insert(got.Taken, 0, t)
}
