// Package ledger has the commands that show and change the ledger, and those that explain
// the price book.
package ledger
