package storekit

import (
	"fmt"
	"slices"

	"github.com/headroom-quota/headroom/quota"
)

// badInput is bad input of one kind, which is its sentinel in package quota.
type badInput struct {
	text string
	kind error
}

func (e *badInput) Error() string { return e.text }
func (e *badInput) Unwrap() error { return e.kind }

// OtherCharges returns the error for an id whose receipt has other charges than the
// request. It matches [quota.ErrOtherCharges].
func OtherCharges(id string) error {
	_, id = quota.SplitID(id)
	return &badInput{fmt.Sprintf("id %q was used before with other charges; an id names one call", id), quota.ErrOtherCharges}
}

// NoReceipt returns the error for a token without a receipt. It matches
// [quota.ErrNoReceipt].
func NoReceipt(t quota.Token) error {
	_, id := quota.SplitID(t.ID)
	return &badInput{fmt.Sprintf("settle %q: no such reservation, or it was made more than %s ago", id, quota.ReceiptLife), quota.ErrNoReceipt}
}

// Ended returns the error for an id whose call has given its slot back. To grant the id
// again would be a call in flight without a slot. It matches [quota.ErrBadInput].
func Ended(id string) error {
	_, id = quota.SplitID(id)
	return quota.BadInput("id %q was used before, and its call has ended; a new call needs an id of its own", id)
}

// OtherWindows returns the error for a charge whose page has other windows under the
// same revision. It matches [quota.ErrOtherWindows].
func OtherWindows(c *quota.Charge) error {
	return &badInput{fmt.Sprintf("%s has other windows in the ledger under the same revision %d of the price book\nRaise the revision of the price book",
		c.Pool, c.Revision), quota.ErrOtherWindows}
}

// Released reports whether a reservation was settled to nothing. Its id is free again:
// the call was never sent, and another try is charged as if it were the first.
func Released(units []int64) bool {
	return !slices.ContainsFunc(units, func(u int64) bool { return u != 0 })
}
