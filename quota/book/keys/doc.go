// Package keys has the price book as plain structs, with the same names as in YAML. A
// struct is a mapping, and a field is a key.
//
// Use it in a program that makes its own price book, for example from a database or for
// each customer. Write a [Book], and give it to book.Make. The same checks apply as to a
// file, and an error shows the line that is wrong. Programs that read a price book from a
// file do not need this package.
//
// The zero value of a field means that the book does not have the key. A few fields are
// pointers, because their zero says something: write Headroom: new(int64(0)). A list takes
// several values where YAML also takes one.
//
// The tag doc of a field says what the key means, and the tag range what it may be. A word
// in single quotes is a key or a value. docs/price-book.md has an example of each.
package keys
