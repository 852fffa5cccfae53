// Package leasestore is a decorator for a [quota.Store]. It takes units from the store in
// blocks and hands them out in the process, so that most calls need no round trip. It
// does so for pools, and for keys of families, whose charges have a [quota.Lease]. It passes
// everything else on.
//
// # Why no limit is passed
//
// A block is one reservation of the store for many calls. The store counts all of its
// units from the instant at which the block was taken, and never grants more than the
// limits. Only the time at which a unit leaves for the upstream differs: it is later than
// the time at which the unit was counted. A block therefore ends before its units would
// have to count for longer than the store counts them:
//
//   - A ring counts units until they have left its window, and for its Late longer. A
//     lease of the price book adds its life to Late, so the ring has ceil(life/precision)
//     more buckets. A block of a ring without Late lives until the end of its bucket. All
//     of this is the rule of a [quota.Hold]: units that count until t must leave by t - per.
//   - A calendar counts units in the period in which they were taken. A block ends a lag
//     before the end of the period.
//   - A counter of a family counts units in the fixed window in which they were taken. A block
//     ends with that window, so the counter still equals its formula for what was sent.
//   - A log, a bucket, slots, and a counter of a pool leave no time at all. They have no blocks.
//
// The life of a block runs from before its request left, by the wall clock or the monotonic
// clock, whichever shows more. A wall clock that was set back ends the block. The store's
// own clock decides only at which instant the units count, and near which boundary.
//
// A block belongs to one set of pools with their limits, windows and revision, and to one
// set of labels. A class that leaves a part free has other limits, so it has blocks of its
// own. A changed limit applies at once, and the spend of a block is the spend of its labels.
//
// # Receipts
//
// A call with an id of its own ([quota.Request.Fresh] is false) always asks the store,
// because another process may repeat the id. The store then finds the receipt or leaves one.
//
// A fresh id is never repeated. A call with such an id, or without one, may be served from
// a block. If it needs a receipt, its id becomes that of a part of the block: see
// [storekit.Part]. The token is made from the secret of the block. The store can check it
// without having heard of the call, so the call can be settled through any process, also
// after this one has ended. Settling and releasing always go to the store, because only the
// store knows whether another process was first.
//
// # Writes and crashes
//
// The store knows the units, the labels and the time of a block before the first of its
// calls leaves. When a block ends, the store gets back the units that were not handed out,
// and the number of calls. Both go out in the background, as a part that is settled once,
// and again after a pause if the store did not answer. Accounts do not wait for each other,
// because they may be on different servers. After a crash, the rest of the block counts as
// spent, and its calls count as one. So a crash loses units, but never frees any. A request
// for a block whose answer was lost is asked for again and then released.
//
// # Keys of families
//
// A hot key has blocks, as a pool has. A key is hot from the second call within half a life on.
// Any other key costs what it costs without this package: its calls ask the store, and it leaves
// nothing in the process. The line of a hot key is forgotten after two lives without a call.
//
// A family leaves no receipts and no spend, so its blocks leave none. What a block had left goes back
// to the instant of its grant: see [quota.Request.Generation]. That is asked for once, because a
// repeat would give back twice. If the answer to that, or to a block, is lost, the units count as
// spent. A caller that leaves while its block is being taken strands nothing: this process waits
// for the block and gives it back. Keys that share a page, because the family is full, have no
// blocks.
//
// # Differences from the store itself
//
//   - A block, a correction, a higher revision or a lower limit of another process is known
//     when the next block is taken: within the life of a block. This process knows its own
//     at once.
//   - Before a refusal, this process gives back all that its blocks have of the pools and
//     asks the store again. Units that other processes have in blocks, or that another call
//     is just taking, count as used. They may come back before the time to retry.
//   - Used of a granted verdict is what the store had counted when the block was taken,
//     without the units of it that were not handed out yet. Units of the block before it may
//     still be on their way back. Of several pools, the verdict is about the one that had the
//     least left then. Looking at a pool gives back the blocks of this process first.
//   - The spend of a call counts in the hour in which its block was taken.
//   - The receipt of a block lives for [quota.ReceiptLife], so the last call of a block can
//     be settled for that time less the life of the block.
//   - A report of the upstream that units count at least is compared with a count that has
//     the blocks of other processes in it. The next report corrects that.
//
// # How large a block is
//
// The first call asks the store. From the second within half a life on, a block is for as
// many calls as came in a life lately, at most eight times as many as the last one. All
// blocks of a process have at most [quota.Lease.Most] units of a pool. No block takes more
// than a 16th of what is left, so blocks shrink to single calls as the limit comes near.
//
// While others wait for the units ([quota.Request.Crowded]), a block has at most 2% of the limit and lives
// for 2 s at most. A block of this process that is larger ends at the next call.
//
// A block of which nothing is left is settled too, because only that counts its calls in the
// spend. So a block costs the store two requests, and a process with less than two calls in
// half a life gains nothing.
package leasestore
