package book

import (
	"reflect"

	"github.com/headroom-quota/headroom/quota/book/keys"
)

// Make checks a price book that a program has written as structs, and makes a Book of it.
// It prints the structs as YAML and reads that with [Parse], so that the same checks apply.
// Errors name the file "book.Make" and show the line that is wrong. Nil options are the
// zero value. Later changes of the structs do not change the Book.
//
// A nil entry of a map removes what an extended book has, as null does in YAML.
func Make(b *keys.Book, o *Options) (*Book, error) {
	if b == nil {
		b = new(keys.Book)
	}
	return Parse("book.Make", render(bookField().print(reflect.ValueOf(b).Elem(), true)), o)
}

// Keys returns the book as structs: in one piece, with short forms and defaults written
// out, as [Book.Format] prints it. [Make] makes an equal book of them. They are a copy, for
// the caller to change.
func (b *Book) Keys() *keys.Book {
	return newReader("").decode(b.tree())
}
