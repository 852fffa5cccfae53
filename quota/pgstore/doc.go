// Package pgstore keeps a ledger in PostgreSQL.
package pgstore
