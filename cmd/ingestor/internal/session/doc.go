// Package session has what one start of the program opens, once and when it is needed: the
// settings, the log, the ledger and the catalog.
package session
