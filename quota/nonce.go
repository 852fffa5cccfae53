package quota

import (
	"fmt"
	"io"
)

// Nonce is the secret of a receipt. It allows its holder to settle the reservation, so
// fmt and encoders hide its value.
type Nonce [16]byte

// Format implements [fmt.Formatter], for all verbs.
func (n Nonce) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, n.hidden()) }

func (n Nonce) MarshalText() ([]byte, error) { return []byte(n.hidden()), nil }

func (n Nonce) hidden() string {
	if n == (Nonce{}) {
		return "none"
	}
	return "(hidden)"
}
