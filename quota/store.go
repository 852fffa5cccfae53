package quota

import (
	"context"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// Store keeps the pages of pools. It takes all charges of a request or none, and knows
// no price book, method or class. Each method is one atomic operation, decided by the
// store's own clock.
//
// A refusal is data, in the [Verdict]. An error means that the store failed, or that the
// request is invalid ([ErrBadInput], [ErrStaleBook]). To write a store, begin with
// packages storetest and storekit.
type Store interface {
	// Reserve takes every charge of the request, or none.
	Reserve(ctx context.Context, r Request) (Verdict, error)
	// Settle corrects a reservation to what the call really cost, by the name of each
	// pool that it charged. Lower units are given back, and higher ones are charged now.
	// Of a pool that the token says is counted at the end, all are moved to now: see
	// [Token.AtEnd]. A store asks [Token.CheckCost] first, unless it was settled before.
	// Slots stay, and are not named. Nil settles all pools to nothing, and gives the slots
	// back, too. It takes effect once. See [Units.InOrder]. A token may name a part of a
	// reservation: see storekit.Part.
	Settle(ctx context.Context, t Token, units Units) (Settlement, error)
	// Slots renews the slots of reservations: each counts from now for the length of its
	// window. If done is set, it gives them back instead, once. It reports for each token
	// whether its reservation had a slot until then. A slot that the store has lost, while
	// nobody renewed it, is taken again even past the limit, because its call is in flight.
	// Renewing also prolongs the life of the receipt, of a token without slots, too, and for a
	// part that of the whole. An unknown token is no error.
	Slots(ctx context.Context, tokens []Token, done bool) ([]bool, error)
	// Record charges units that are already spent, whatever the limits: corrections, and
	// calls that were made while the store was down. With an id it takes effect once. It
	// returns what it has recorded of each charge, also for a repeat. For negative
	// units these are the units that a window gave back. The labels of negative units
	// have a reason, and those of a reservation have none: a correction's spend may be
	// below 0, and the spend of calls is not.
	Record(ctx context.Context, r Request) (Units, error)
	// Block shuts pools until a time, or opens them.
	Block(ctx context.Context, b BlockRequest) error
	// Look reads the pages of pools. It changes nothing.
	Look(ctx context.Context, charges []Charge) ([]PageState, error)
	// Spend returns who spent what of an account's pools, in the order of [Spent.Compare].
	Spend(ctx context.Context, q SpendQuery) ([]Spent, error)
}

// Identified is a store that knows which ledger it holds. Calls admitted in an outage are
// charged to that ledger only. If two addresses have one identity, one is a copy.
type Identified interface {
	// Identity returns the identity of the ledger that holds an account's pools. The
	// store makes it at first use and keeps it with the data, so both are lost together.
	Identity(ctx context.Context, upstream, account string) (string, error)
}

// DefaultAccount is the account of a call that names none.
const DefaultAccount = book.DefaultAccount

// Pool names one allowance of one account in every store. A keyed pool has a page per
// key, and its Pool has a Name and a Key. A family's member has a Key and no Name. Names
// are 1 to 128 printable bytes.
type Pool struct {
	Upstream string // "youtube"; for a family its name
	Account  string // "default"
	Name     string // "units"; empty for a family's member
	Key      string // of a keyed pool's page, or of a family's member
}

// Charge is a request for units of one pool.
type Charge struct {
	Pool     Pool
	Units    int64
	Windows  []window.Limit // with headroom and class already subtracted
	Revision int64          // of the price book that laid the windows out
	Zone     *time.Location // for the days of its spend; nil is UTC
	MaxKeys  int            // of a family or a keyed pool: the most pages; 0 for other pools, and for keys of the price book
	// FamilyKeys is the MaxKeys of a member's family, also of a key of the price book. Zero
	// is MaxKeys.
	FamilyKeys int
	Window     int // of [Request.AtLeast]: the index of the window that is meant
	// Since is for Look only: it asks how many of the units were charged since then. Zero
	// does not ask.
	Since window.Instant
	Lease Lease // a process may take its units in blocks; only package leasestore reads it
}

// Lease says that a process may take units of a pool in blocks, and hand them out by itself.
// The zero value is that it may not.
type Lease struct {
	Life time.Duration // the longest time that a block lives
	Most int64         // units of the pool that the blocks of one process may have
}

// Request asks a store for charges of one account. Stores must not change it or keep its
// slices.
type Request struct {
	ID      string // chosen by the caller; empty leaves no receipt
	Charges []Charge
	Labels  Labels
	Fresh   bool      // the id is new: a store need not look for its receipt; of a family's member, the verdict has a Generation
	Crowded bool      // others wait for units of the account: blocks are small, and live shortly; only package leasestore reads it
	At      time.Time // Record only: when it happened; zero is now
	// AtLeast is for Record only: it records no more than what is missing so that at least
	// these units count since At in the window of each charge. The upstream has said so.
	// Late, repeated and reordered requests add nothing twice, so there is no ID. An At
	// that the window has left records nothing.
	AtLeast bool
	Since   time.Time // of AtLeast: units since then are among those that count; zero is At
	Restore bool      // Record only: a person says what was spent, so a forgotten page counts again
	// Generation is for Record of negative units only: they go back to At, where a grant with
	// this [Verdict.Generation] took them. A page that has changed since gives nothing back, and a
	// repeat gives back once more. Zero gives back the oldest units that count.
	Generation int64
}

// Labels say who spent.
type Labels struct {
	Method string
	Job    string
	Region string
	Class  string
	Reason string // of a correction
}

// Token names the receipt of a reservation. Only the caller of Reserve gets it. Settling
// and releasing take it. [Token.String] returns it as text.
type Token struct {
	Upstream string
	Account  string
	ID       string // the caller's
	Nonce    Nonce

	least  string  // units that settling does not give back; see Reservation.Token
	end    string  // the pools that AtEnd knows
	bill   string  // in money; see bill.text
	bounds *prices // of one that a caller over HTTP settles; see CheckCost
}

// Settlement is the result of settling.
type Settlement struct {
	Back    int64 // units given back to windows that still counted them
	Left    int64 // units that could not be given back, because their window has passed
	Charged int64 // units charged on top, now
	Repeat  bool  // it was settled before; this is the first result
}

// BlockRequest shuts pools, or opens them.
type BlockRequest struct {
	Charges []Charge      // the pools; their units do not matter
	Until   time.Time     // shut until then, by the store's clock
	For     time.Duration // or shut for this long from the store's now
	Reason  string        // for people; a ledger adds in front who gave it
	Open    bool          // open the pools instead
}

// PageState is what a store knows about one pool.
type PageState struct {
	Pool     Pool
	Known    bool      // false if it was never charged, or long ago
	Born     time.Time // when the store first knew it
	Now      time.Time // the store's clock
	Revision int64
	Blocked  time.Time // zero if it is open
	Reason   string    // of the block
	Windows  []WindowState
}

// WindowState is the state of one window of a [PageState]. Window is its display name;
// [WindowUsage] has its spec.
type WindowState struct {
	Window    string
	Used      int64
	Limit     int64
	NextUnits int64 // that come back next
	NextAt    time.Time
	ResetAt   time.Time // when all units that count now have come back; the end of a calendar's period
	Since     int64     // of Used: those since [Charge.Since], by the precision of the window
}

// SpendQuery selects spend of one account.
type SpendQuery struct {
	Upstream string
	Account  string
	Since    time.Time // the first day is that of this instant; zero is the oldest
	Until    time.Time // the last day is that of this instant; zero is now
	Hours    bool      // keep the hours apart, from that of Since on; [ByHour] sets it
}

// Spent is what one set of labels spent of a pool on one day.
type Spent struct {
	Pool Pool
	Day  string // 2026-11-20, in the zone of the pool's calendar
	// Hour is the start of the hour in UTC, if the query asks for hours. It is zero for the
	// spend of earlier versions, which kept days only.
	Hour   time.Time
	Labels Labels
	Model  string // of a budget: the case of the prices that the calls had; the ledger sets it, not the store
	Key    string // of a budget: its key, or those of other budgets of the calls; the ledger sets it
	Units  int64
	Calls  int64
}

// OtherLabels are the labels of spend beyond 2,000 sets of labels per pool and day.
var OtherLabels = Labels{Method: "other", Job: "other", Region: "other", Class: "other"}
