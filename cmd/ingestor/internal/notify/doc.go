// Package notify tells people when something of the quota or of the jobs needs them, and once
// more when it is over.
//
// Any number of processes watch the same ledger and catalog. One text in the catalog has the events that
// they know, and what is still to be told of them. Each version of the text has one writer. So each
// event begins once, and each message has one sender. A sender takes a message for a minute. If it
// dies, another process sends the message again, with the same id.
//
// Nothing here delays a call or a run.
package notify
