package pagestore

import (
	"context"
	"time"

	"github.com/headroom-quota/headroom/quota"
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
}

// Scope names all that a transaction will ask for: for one request, or for
// several that are combined. A backend over a network locks the accounts and fetches
// all of it in one round trip. A settlement names its receipt only: what it asks for are
// the pages of that, too.
type Scope struct {
	Charges  []quota.Charge
	Receipts []ReceiptID
}

// ReceiptID finds a receipt: ids of two accounts may be the same.
type ReceiptID struct{ Upstream, Account, ID string }

// Tx is a transaction. An error of reading fails one request. An error of writing
// fails the transaction, and End is told of it.
type Tx interface {
	// Load is called once, first, if [Options.Combine] is set: stores whose callers take
	// turns have nothing to gain by it.
	Load(s *Scope) error
	// Now returns the clock that decides, read once the transaction has its locks.
	Now() time.Time
	// Entry returns the page of a pool that is not a family's member. If there is none,
	// the entry has no page. It stays valid until End. Restore takes up a page
	// again that was forgotten; else such a page is a [quota.ForgottenError].
	Entry(p *quota.Pool, restore bool) (*Entry, error)
	// Put writes an entry down. The charge is what its page is laid out for, and
	// nil if a settlement changed it.
	Put(e *Entry, c *quota.Charge) error

	// Receipt returns the receipt of an id in an account that is not older than
	// [quota.ReceiptLife], or nil.
	Receipt(upstream, account, id string) (*Receipt, error)
	// Room says why a grant of a request could not be written down. It is asked
	// before a page changes, for a backend that cannot undo that.
	Room(r *quota.Request) error
	// Charge writes down who spent what of each entry, and leaves a receipt if the
	// request has an id.
	Charge(r *quota.Request, entries []*Entry, nonce quota.Nonce) error
	// Amend writes down that a receipt was settled, and corrects the spend.
	Amend(r *Receipt) error

	// Family returns what is known of a member's family. It stays valid until End.
	Family(p *quota.Pool) (*Family, error)
	// PutFamily writes it down.
	PutFamily(f *Family) error
	// Member returns the page of a key. If there is none, the entry has no page. The
	// empty key is the page that new keys share when the family is full.
	Member(f *Family, key string) (*Entry, error)
	// Oldest returns the member that was charged longest ago, without those that the
	// price book lists, or nil.
	Oldest(f *Family) (*Entry, error)
	// Ahead returns the member that was charged at the latest instant after now, or nil.
	Ahead(f *Family) (*Entry, error)
	// Drop forgets a member.
	Drop(e *Entry) error

	// End commits, or undoes everything if err is not nil. It returns err, or why
	// the commit failed.
	End(err error) error
}

// Entry is the page of one pool, or of one member of a family, with what stands
// beside it.
type Entry struct {
	Pool   quota.Pool
	Page   *window.Page // nil: there is none
	Reason string       // of the block
	Listed bool         // of a member: it has a place in the price book
	Ref    any          // for the backend

	// What a charge takes of it: the units that are recorded, and the instant at which
	// they count. A correction gives back no more than was used.
	Units int64
	At    window.Instant

	at      window.Instant // the instant that counts now
	rebased bool           // its clock had been far ahead
	moved   bool           // it is not as it was stored, beside what is counted in it
	laidOut bool           // for the windows of the charge
	fits    bool           // the charge
}

// Family is what a store knows of a family beside its members.
type Family struct {
	Upstream string
	Account  string
	Members  int // without those that the price book lists
	Course
	Ref any // for the backend

	busy window.Instant // when the oldest member was found busy; not stored
}

// Receipt is what a grant leaves under the caller's id.
type Receipt struct {
	Nonce    quota.Nonce
	Taken    []Taken
	Settled  bool
	Released bool             // settled to nothing: the call never left, and its id may be tried again
	Done     quota.Settlement // of all charges, if settled
}

// Taken is one charge of a receipt.
type Taken struct {
	Pool       string
	Units      int64          // that were asked for
	Recorded   int64          // of them, or what they were settled to
	At         window.Instant // when it counted
	Generation int64          // of the page then
	Done       quota.Settlement
	Ref        int64 // for the backend
}
