// Package notify tells people when something of the quota or of the jobs needs them, and once
// more when it is over.
//
// Any number of processes watch the same ledger and catalog. What they have seen, and what of it
// is still to be told, is one text in the catalog, of which each version has one writer. So each
// event begins once, and each message has one sender. A sender takes a message for a minute. If it
// dies, another process sends the message again, with the same id.
//
// Nothing here delays a call or a run.
package notify
