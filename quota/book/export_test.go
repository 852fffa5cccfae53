package book

import "flag"

// Update is set by go test -update.
var Update = flag.Bool("update", false, "rewrite golden files, the schema and the reference of keys")

// Rebase returns a book as if it had been written as an overlay of another.
func Rebase(b, base *Book, name string) *Book {
	c := *b
	c.base, c.extends = base, []string{name}
	return &c
}
