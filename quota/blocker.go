package quota

import "strings"

// Blocker says who shut a pool. It is empty if an older version shut it, which did not
// record who did.
type Blocker string

// An upstream or a person can shut a pool.
const (
	BlockedByUpstream Blocker = "upstream" // the upstream has refused a call
	BlockedByPerson   Blocker = "person"   // see ByHand
)

// A store keeps one text for a block. It begins with who shut the pool, in words that
// read well where only the text is shown.
const (
	byUpstream = "by the upstream: "
	byHand     = "by hand: "
)

// handMark marks a reason as a person's until the ledger writes it down. It cannot be
// printed, so no upstream's message begins with it.
const handMark = "\x00"

// ByHand marks a reason as a person's. [Ledger.Block], [Ledger.BlockFor] and
// [Ledger.BlockUntilReset] take any other reason as the upstream's.
func ByHand(reason string) string { return handMark + reason }

// markReason returns the text that a store keeps for the reason of a block.
func markReason(reason string) (string, error) {
	plain, hand := strings.CutPrefix(reason, handMark)
	if !printable(plain, maxReason) {
		return "", BadInput("reason %.40q must be at most %d printable bytes", plain, maxReason)
	}
	if hand {
		return byHand + plain, nil
	}
	return byUpstream + plain, nil
}

// readReason returns who shut a pool, and why, from the text that a store has kept.
func readReason(text string) (by Blocker, reason string) {
	if reason, is := strings.CutPrefix(text, byHand); is {
		return BlockedByPerson, reason
	}
	if reason, is := strings.CutPrefix(text, byUpstream); is {
		return BlockedByUpstream, reason
	}
	return "", text
}

// Words returns the words that follow "shut": "by the upstream", "by hand", or nothing.
func (b Blocker) Words() string {
	switch b {
	case BlockedByUpstream:
		return "by the upstream"
	case BlockedByPerson:
		return "by hand"
	}
	return ""
}

// attribute separates who shut the pool from the reason, in a store's verdict.
func (v *Verdict) attribute() { v.BlockedBy, v.Reason = readReason(v.Reason) }
