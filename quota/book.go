package quota

import "github.com/headroom-quota/headroom/quota/book"

// Book is a price book: what calls cost, and how much may be spent. [book.Parse]
// reads one.
type Book = book.Book

// Policy is what to do when the right answer is not known.
type Policy = book.Policy

// The two policies; the zero value means [Refuse].
const (
	Refuse = book.Refuse
	Admit  = book.Admit
)
