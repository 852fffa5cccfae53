package quota

import "time"

// Verdict is the answer to a reservation, granted or refused. If a call charges several
// pools and windows, the verdict is about the one that decides: the one with the least
// left if granted, the last to come free if refused.
type Verdict struct {
	Allowed    bool
	ID         string
	Nonce      Nonce `json:"-"` // of the grant's receipt; see Token
	Generation int64 `json:"-"` // of the page of a family's member, which leaves no receipt; see [Request.Fresh]
	Pool       Pool
	Window     string // its display name
	Units      int64  // requested from Pool
	Used       int64  // in Window, after this call
	Limit      int64
	Remaining  int64
	RetryAfter time.Duration // the same call succeeds then, if no other call comes first; for a slot an estimate
	RetryAt    time.Time
	ResetAt    time.Time
	At         time.Time // when it was decided, by the store's clock
	BlockedBy  Blocker   // who shut it; the ledger sets it, not the store
	Reason     string    // of the block
	Blocked    bool      // refused because the pool is shut
	Probing    bool      `json:",omitempty"` // Blocked, because one call goes first after a block; the ledger sets it
	Place      int       `json:",omitempty"` // refused because others come first: its place among those that wait, from 2; else 0
	Repeat     bool      // the id was granted before; nothing was charged
	Impossible bool      // waiting does not help
	Overflow   bool      // the family or a keyed pool is full, and its new keys share a page
	Rebased    bool      // the store's clock was set back by more than a window, or has returned: used units count from now
	Outage     bool      // admitted while the ledger was down
}

// Token returns the token of the grant's receipt, which settling and releasing take. It
// is zero if there is no receipt.
func (v *Verdict) Token() Token {
	if v.Nonce == (Nonce{}) {
		return Token{}
	}
	return Token{Upstream: v.Pool.Upstream, Account: v.Pool.Account, ID: v.ID, Nonce: v.Nonce}
}
