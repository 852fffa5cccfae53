package quota

import "time"

// Verdict is the answer to a reservation, granted or refused. Where a call
// charges several pools and windows it speaks of the one that decides: the
// tightest if granted, the last to come free if refused.
type Verdict struct {
	Allowed    bool
	ID         string
	Nonce      Nonce `json:"-"` // of the grant's receipt: see Token
	Pool       Pool
	Window     string
	Units      int64 // asked of Pool
	Used       int64 // in Window, after this call
	Limit      int64
	Remaining  int64
	RetryAfter time.Duration // the same call succeeds then, if nobody else does anything
	RetryAt    time.Time
	ResetAt    time.Time
	At         time.Time // the instant that counts, by the store's clock
	Repeat     bool      // the id had been granted before; nothing was charged
	Blocked    bool      // refused because the pool is shut
	BlockedBy  Blocker   // by whom; stores leave it to the ledger
	Reason     string    // of the block
	Impossible bool      // no amount of waiting helps
	Overflow   bool      // a family is full: the page is shared by all new keys
	Rebased    bool      // the store's clock had been far ahead
	Outage     bool      // admitted while the ledger could not be reached
}

// Token names the receipt of a grant: settling and releasing take it. It is zero
// where there is none.
func (v *Verdict) Token() Token {
	if v.Nonce == (Nonce{}) {
		return Token{}
	}
	return Token{Upstream: v.Pool.Upstream, Account: v.Pool.Account, ID: v.ID, Nonce: v.Nonce}
}
