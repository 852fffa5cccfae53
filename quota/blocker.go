package quota

import "strings"

// Blocker says who shut a pool; "" is that nobody knows, as an older version did not
// write it down.
type Blocker string

// Those who shut pools.
const (
	BlockedByUpstream Blocker = "upstream" // it has refused a call
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

// ByHand marks the reason of a block as a person's: for [Ledger.Block],
// [Ledger.BlockFor] and [Ledger.BlockUntilReset], which otherwise take it for the
// upstream's.
func ByHand(reason string) string { return handMark + reason }

// markReason is the text that a store keeps for the reason of a block.
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

// readReason is who shut a pool, and why, from the text that a store has kept.
func readReason(text string) (by Blocker, reason string) {
	if reason, is := strings.CutPrefix(text, byHand); is {
		return BlockedByPerson, reason
	}
	if reason, is := strings.CutPrefix(text, byUpstream); is {
		return BlockedByUpstream, reason
	}
	return "", text
}

// Words are for people, after "shut": "by the upstream", "by hand", or nothing.
func (b Blocker) Words() string {
	switch b {
	case BlockedByUpstream:
		return "by the upstream"
	case BlockedByPerson:
		return "by hand"
	}
	return ""
}

// attribute tells apart who shut the pool and why, in a store's verdict.
func (v *Verdict) attribute() { v.BlockedBy, v.Reason = readReason(v.Reason) }
