package quota

import "github.com/headroom-quota/headroom/quota/book"

// Book is a price book: what calls cost, and how much may be spent. [book.Parse]
// reads one.
type Book = book.Book

// Policy is what to do with a call while the ledger is down.
type Policy = book.Policy

// These are the two policies. The zero value means [Refuse].
const (
	Refuse = book.Refuse
	Admit  = book.Admit
)
