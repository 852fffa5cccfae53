// Package redisstore keeps a ledger in Redis or Valkey, for the processes of many
// machines: a single server, behind Sentinel, or a Cluster.
//
// Each operation is one script, so it is atomic, and the server's clock decides. A
// pool is one string of fixed size. Every key of an account shares a hash tag, so
// that a call's charges are in one slot; each key of a family has a tag of its
// own, so that clients spread over the slots.
//
// What Redis promises bounds what a ledger on it can. A write that survives is
// never over the limit. Asynchronous replication can lose the last writes at a
// failover, and a server without persistence loses all at a restart; a page that
// is gone or reborn while its windows cannot have run out is noticed, and is an
// outage ([quota.ForgottenError]), never an empty pool. For a budget that must
// hold across failovers set appendonly yes, appendfsync always or everysec, and
// min-replicas-to-write. Set maxmemory-policy noeviction: the other policies
// silently forget spend. [Store.Check] warns of settings that are others.
//
// Spend is kept for 36 days, receipts for [quota.ReceiptLife].
package redisstore
