// Package redisstore keeps a ledger in Redis or Valkey, for the processes of many
// machines. It works with a single server, with Sentinel and with a Cluster.
//
// Each operation is one script, so it is atomic, and the server's clock decides. A pool is
// one string of fixed size. All keys of an account share a hash tag, so the charges of a
// call are in one slot. Members of a family share the tag of their partition, so clients
// spread over the slots. A family has at most its maximum of pages, and one more in each
// partition that new keys share. A member's page expires soon after its windows.
//
// A ledger in Redis is as durable as Redis. Writes that survive are never over the limit.
// A failover with asynchronous replication can lose the last writes, and a restart loses
// what was not on disk. A process that notices such a loss reports an outage
// ([quota.ForgottenError]) until a person puts back what was spent:
//
//   - Every process that knew a page notices if the page is missing or new although its
//     windows still count. With [Options].Births, later processes of its machine notice it,
//     too.
//   - Every process that saw the later state of a page notices an older copy, as after the
//     promotion of a replica that was behind or a start from an old snapshot. It must do so
//     before the page is written again. A process that started since does not notice. No
//     process does once another process, without that knowledge, has written the page. If
//     many processes spend at once, that may be the first to come back.
//   - No process notices the loss of families, of receipts and of spend by label.
//
// To prevent losses, set appendonly yes with appendfsync always. With everysec, a crash
// loses about a second of spend. With replicas, also set min-replicas-to-write 1 and
// min-replicas-max-lag: then a master that is cut off from its replicas stops granting
// after that many seconds. WAIT is not used. It costs a round trip for each call, cannot
// undo a grant that no replica has confirmed, and does not prevent the promotion of a
// replica that is behind. Set maxmemory-policy noeviction, because other policies silently
// lose spend. [Store.Check] warns about other settings.
//
// In a Cluster, the store asks for the cluster's state if a master is down, does not answer
// in time, or is no longer the master. It asks at most five times a second. A call that
// found no connection has sent nothing. It waits for the state and goes to the new master,
// within the same [Options].Timeout. A call whose reply was lost is never sent again. So
// after an election each caller loses at most one call. This needs no setting, and also
// works with a client given to [New]. With Sentinel, the client asks for the master at each
// new connection. A single server is found again by its name when its old connections end.
// If the old server lives on as a replica, it refuses one call on each connection.
//
// Spend is kept for 36 days, and receipts for [quota.ReceiptLife].
package redisstore
