package quota

import (
	"context"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// Store keeps the pages of pools. It knows no price book, no method and no
// class: it takes charges, all or none. Each method is one atomic operation,
// decided by the store's own clock.
//
// A refusal is data, in the [Verdict]; an error means that the store itself
// failed, or that what it was asked makes no sense ([ErrBadInput],
// [ErrStaleBook]). The package storetest has the suite that every store passes.
type Store interface {
	// Reserve takes every charge of the request, or none.
	Reserve(ctx context.Context, r Request) (Verdict, error)
	// Settle corrects a reservation to what the call really cost, by the name of
	// each pool that it charged: down gives back, up charges now. Nil settles all
	// of them to nothing. It takes effect once. See [CheckSettle].
	Settle(ctx context.Context, t Token, units Units) (Settlement, error)
	// Record charges what is already gone, whatever the limits: corrections,
	// and calls that were made while the store could not be reached. With an
	// id it takes effect once. It returns what it has recorded of each charge,
	// also if it did so before: of negative units, those that a window gave back.
	Record(ctx context.Context, r Request) (Units, error)
	// Block shuts pools until a time, or opens them.
	Block(ctx context.Context, b BlockRequest) error
	// Look reads the pages of pools and changes nothing.
	Look(ctx context.Context, charges []Charge) ([]PageState, error)
	// Spend reads who spent what of an account's pools.
	Spend(ctx context.Context, q SpendQuery) ([]Spent, error)
}

// Identified is a store that can say which ledger it holds. Debts of an outage are
// paid to that ledger only, and two addresses with one identity are a copy.
type Identified interface {
	// Identity returns the identity of the ledger that holds an account's pools. The
	// store makes it at first use and keeps it with the data, so that it is lost when
	// they are.
	Identity(ctx context.Context, upstream, account string) (string, error)
}

// DefaultAccount is the account of whoever names none.
const DefaultAccount = book.DefaultAccount

// Pool names one allowance of one account in every store. A family's member is
// a pool with a Key. Names are 1 to 128 printable bytes; no two of them are mistaken
// for each other.
type Pool struct {
	Upstream string // "youtube"; for a family its name
	Account  string // "default"
	Name     string // "units"; empty for a family's member
	Key      string // whose page of a family it is
}

// Charge is what one pool is asked for.
type Charge struct {
	Pool     Pool
	Units    int64
	Windows  []window.Limit // effective: headroom and class already taken off
	Revision int64          // of the price book that laid the windows out
	Zone     *time.Location // whose days its spend is counted by; nil is UTC
	MaxKeys  int            // of a family: pages at most; 0 for a pool that is listed
}

// Request asks a store for charges of one account. Stores do not change it and
// keep no part of its slices.
type Request struct {
	ID      string // the caller's name for it; empty leaves no receipt
	Charges []Charge
	Labels  Labels
	Fresh   bool      // the id was made for this request: a store need not look for its receipt
	At      time.Time // Record only: when it happened; zero is now
	Restore bool      // Record only: a person says what was spent; a page that was forgotten counts again
}

// Labels say who spent.
type Labels struct {
	Method string
	Job    string
	Region string
	Class  string
	Reason string // of a correction
}

// Token names the receipt of a reservation. Only who made the reservation has
// it: settling and releasing take it. [Token.String] is its text.
type Token struct {
	Upstream string
	Account  string
	ID       string // the caller's
	Nonce    Nonce
}

// Settlement is what settling did.
type Settlement struct {
	Back    int64 // units given back to windows that still counted them
	Left    int64 // units that were to be given back, but whose window has passed
	Charged int64 // units charged on top, now
	Repeat  bool  // it had been settled before: this is what was done then
}

// BlockRequest shuts pools, or opens them.
type BlockRequest struct {
	Charges []Charge      // the pools; their units do not matter
	Until   time.Time     // shut until then, by the store's clock
	For     time.Duration // or for so long from the store's now
	Reason  string        // in plain words, for those who wonder; a ledger puts who gave it in front
	Open    bool          // opens instead
}

// PageState is what a store knows of one pool.
type PageState struct {
	Pool     Pool
	Known    bool      // false: never charged, or long ago
	Born     time.Time // when the store first knew it
	Now      time.Time // the store's clock
	Revision int64
	Blocked  time.Time // zero if it is open
	Reason   string    // of the block
	Windows  []WindowState
}

// WindowState is one window of a [PageState].
type WindowState struct {
	Window    string
	Used      int64
	Limit     int64
	NextUnits int64 // come back next
	NextAt    time.Time
	ResetAt   time.Time // when nothing that counts now counts any more; a calendar's boundary
}

// SpendQuery selects spend of one account.
type SpendQuery struct {
	Upstream string
	Account  string
	Since    time.Time // days that begin at or after the day of this instant; zero is all there are
	Until    time.Time // and at or before the day of this one; zero is now
}

// Spent is what one set of labels spent of a pool on one day.
type Spent struct {
	Pool   Pool
	Day    string // 2026-11-20, in the zone of the pool's calendar
	Labels Labels
	Units  int64
	Calls  int64
}

// OtherLabels is where the spend of too many sets of labels is put together.
var OtherLabels = Labels{Method: "other", Job: "other", Region: "other", Class: "other"}
