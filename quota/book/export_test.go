package book

// Keys are the keys that the price book knows, by what they belong to.
var Keys = bookKeys

// Rebase returns a book as if it had been written as an overlay of another.
func Rebase(b, base *Book, name string) *Book {
	c := *b
	c.base, c.extends = base, name
	return &c
}
