// Package counting compares the ledger with Google's own count of the units.
package counting
