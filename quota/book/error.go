package book

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/internal/strictyaml"
)

// ErrBadInput matches every error of this package. Package quota has it under the
// same name.
var ErrBadInput = errors.New("bad input")

// Error is a fault in a price book, and where it stands. It matches
// [ErrBadInput].
type Error struct {
	File    string // the name given to [Parse], or of the book it extends
	Line    int    // from 1
	Column  int    // from 1, in characters
	Message string // what is wrong, and what to do
	Source  string // the line itself
}

// Error gives place and message, then the line with a caret under the column.
func (e *Error) Error() string {
	head := fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
	if e.Source == "" {
		return head
	}
	number := fmt.Sprintf("%5d", e.Line)
	before := []rune(e.Source)
	for i, c := range before {
		if c != '\t' {
			before[i] = ' '
		}
	}
	pad := string(before[:min(max(e.Column-1, 0), len(before))])
	return fmt.Sprintf("%s\n%s | %s\n%s | %s^", head, number, e.Source, strings.Repeat(" ", len(number)), pad)
}

func (e *Error) Is(target error) bool { return target == ErrBadInput }

// badInputError is bad input that stands nowhere in particular.
type badInputError struct{ text string }

func (e *badInputError) Error() string        { return e.text }
func (e *badInputError) Is(target error) bool { return target == ErrBadInput }

// BadInput returns an error that matches [ErrBadInput]. The text says what is wrong and
// how to correct it.
func BadInput(format string, args ...any) error { return &badInputError{fmt.Sprintf(format, args...)} }

// maxFaults bounds what one reading reports: a mistake near the top of a file
// can make all of it wrong.
const maxFaults = 10

// reader reads one price book and collects its faults.
type reader struct {
	top    *strictyaml.File // the book itself, as opposed to those it extends
	found  map[any]*entry   // what pointers to the values of the book's structs stand for
	faults []*Error
}

func newReader(name string) *reader {
	r := &reader{}
	r.top = &strictyaml.File{Name: name, Noun: "a price book", Plain: true, Fault: func(at place, message string) { r.fault(at, "%s", message) }}
	return r
}

func (r *reader) fault(at place, format string, args ...any) {
	r.faults = append(r.faults, &Error{File: at.In.Name, Line: at.Line, Column: at.Column, Message: fmt.Sprintf(format, args...), Source: at.In.Line(at.Line)})
}

// blame picks the place to blame among values that contradict each other: one in
// the book itself, because what it extends was right before.
func (r *reader) blame(values ...any) place {
	var first *tree
	for _, x := range values {
		switch t := r.written(x); {
		case t == nil:
		case t.At.In == r.top:
			return t.At
		case first == nil:
			first = t
		}
	}
	return first.At
}

// twice is where to say that a value was given before, and the place to name.
func (r *reader) twice(x, before any) (at, other place) {
	at, other = r.blame(x, before), r.place(before)
	if at == other {
		other = r.place(x)
	}
	return at, other
}

// err is all the faults, in the order in which they stand in the files.
func (r *reader) err() error {
	slices.SortStableFunc(r.faults, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	r.faults = slices.CompactFunc(r.faults, func(a, b *Error) bool { return *a == *b })
	var all []error
	for i, e := range r.faults {
		if i == maxFaults {
			all = append(all, BadInput("and %d more", len(r.faults)-i))
			break
		}
		all = append(all, e)
	}
	if len(all) == 1 {
		return all[0]
	}
	return errors.Join(all...)
}
