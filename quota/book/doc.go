// Package book reads price books. A price book is data, usually costs.yaml. It
// says what the calls of an upstream cost, how much may be spent, and what the
// upstream's refusals mean.
//
// A call charges one pool or several. A [Pool] has one [Window] or several, each
// with a quota and a headroom that ordinary calls leave free. A [Class] of callers
// may leave more free, or draw on the headroom. A [Family] limits each key by
// itself. [Book.Match] finds the [Method] that an HTTP request calls. A [Refusal]
// gives the meaning of a refusal by the upstream.
//
// [Parse] reads a book and checks all of it. It reports every fault, with file,
// line and column, as an [Error]. A book may extend a built-in one, and then says
// only what differs: see [Options]. [Book.Format] prints a book in one piece, and
// [Book.Diff] prints only the difference.
//
// [Make] does the same for a book that a program has written as structs, see package keys.
// [Book.Keys] returns the structs of a book.
//
// A ledger, see package quota, spends by a book. Most programs load theirs with
// Load of package headroom, which knows the built-in books.
package book
