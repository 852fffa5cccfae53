// Package redisstore keeps a ledger in Redis or Valkey, for the processes of many
// machines: a single server, behind Sentinel, or a Cluster.
//
// Each operation is one script, so it is atomic, and the server's clock decides. A
// pool is one string of fixed size. Every key of an account shares a hash tag, so
// that a call's charges are in one slot; each key of a family has a tag of its
// own, so that clients spread over the slots. A family never has more pages than its
// most members and one that new keys share, and a member's page expires seconds after
// its windows.
//
// What Redis promises bounds what a ledger on it can. A write that survives is
// never over the limit. Asynchronous replication can lose the last writes at a
// failover, and a restart loses what was not on disk. Such a loss is an outage
// ([quota.ForgottenError]), never room in the pool, until a person puts back what was
// spent, to every process that can tell:
//
//   - A page that is gone or reborn while its windows cannot have run out is noticed
//     by every process that knew it; with [Options].Births, also by those of its
//     machine that start later.
//   - A page that was set back, because a replica was promoted that was behind or a
//     server was started from an old snapshot, is noticed by every process that had
//     seen it farther on, until somebody writes it. That is not noticed by a process
//     that has been started since. Nor is it by anybody once another process, which
//     had seen nothing of what was lost, has moved the page's time past it: where
//     many spend at once, the first to come back may well be such a one.
//   - What is lost of families, of receipts and of spend by label is not noticed.
//
// So that there is nothing to notice set appendonly yes with appendfsync always or, at
// the price of a second of spend at a crash, everysec; and where there are replicas
// min-replicas-to-write 1 and min-replicas-max-lag, by which a master that is cut off
// from them stops granting after that many seconds. WAIT is not used: it takes a round
// trip more for each call, cannot undo a grant that no replica has confirmed, and does
// not keep a replica from being promoted that has not. Set maxmemory-policy noeviction:
// the other policies silently forget spend. [Store.Check] warns of settings that are
// others.
//
// In a Cluster, the store asks for the cluster's state as soon as a master cannot be
// reached, does not answer in time, or says that it is not the master. However many calls
// fail, it begins to ask five times a second at most. A call that found no connection to its
// master has sent nothing: it waits for that answer and is sent to the new master, within
// the same [Options].Timeout. A call whose reply was lost is never sent again. So once a
// cluster has elected a new master, each caller loses one call at most. This needs no
// setting, and works with a client that [New] is given, too. Behind Sentinel, the client
// asks for the master at each new connection. A single server is found again by its name
// when its old connections end; one that lives on as a replica refuses one call on each.
//
// Spend is kept for 36 days, receipts for [quota.ReceiptLife].
package redisstore
