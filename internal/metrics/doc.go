// Package metrics tells Prometheus how a ledger and a catalog stand, and what the
// ledger of this process decided.
//
// What begins with ingestor_ comes from the catalog, and what begins with headroom_
// from the ledger. Pools, spend, runs and freshness are asked for when somebody asks,
// so what other processes did shows too; counters and the histogram know this process
// only. A time is an instant and never an age, because a file may be read later than
// it is written.
//
// No label holds what a stranger wrote, such as a client's address, a query or a
// title, and what callers name themselves has a stated cap.
package metrics
