// Package month holds only a test: a month of a program that wants more than there is, with
// the ledger in each kind of store, and an upstream that counts by itself.
package month
