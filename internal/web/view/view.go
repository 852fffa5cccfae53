// Package view is what people and programs are shown of a ledger and a catalog: the
// same JSON from the commands and from the server.
package view

import "time"

// Instant is an instant for JSON, where none is null.
func Instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
