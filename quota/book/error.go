package book

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	var pad strings.Builder
	col := 1
	for _, c := range e.Source {
		if col++; col > e.Column {
			break
		}
		if c != '\t' {
			c = ' '
		}
		pad.WriteRune(c)
	}
	return fmt.Sprintf("%s\n%s | %s\n%s | %s^", head, number, e.Source, strings.Repeat(" ", len(number)), pad.String())
}

func (e *Error) Is(target error) bool { return target == ErrBadInput }

// badInputError is bad input that stands nowhere in particular.
type badInputError struct{ text string }

func (e *badInputError) Error() string        { return e.text }
func (e *badInputError) Is(target error) bool { return target == ErrBadInput }

// BadInput returns an error that matches [ErrBadInput]. The text says what is wrong and
// how to correct it.
func BadInput(format string, args ...any) error { return &badInputError{fmt.Sprintf(format, args...)} }

// source is the text of one price book, for places and error messages.
type source struct {
	name  string
	lines []string
}

func newSource(name string, data []byte) *source {
	lines := strings.Split(string(data), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSuffix(line, "\r")
	}
	return &source{name: name, lines: lines}
}

// place is where something stands.
type place struct {
	in        *source
	line, col int
}

func (p place) String() string { return fmt.Sprintf("%s:%d:%d", p.in.name, p.line, p.col) }

// maxFaults bounds what one reading reports: a mistake near the top of a file
// can make all of it wrong.
const maxFaults = 10

// reader reads one price book and collects its faults.
type reader struct {
	top    *source        // the book itself, as opposed to those it extends
	found  map[any]*entry // what pointers to the values of the book's structs stand for
	faults []*Error
}

func (r *reader) fault(at place, format string, args ...any) {
	e := &Error{File: at.in.name, Line: at.line, Column: at.col, Message: fmt.Sprintf(format, args...)}
	if at.line >= 1 && at.line <= len(at.in.lines) {
		e.Source = at.in.lines[at.line-1]
	}
	r.faults = append(r.faults, e)
}

// blame picks the place to blame among values that contradict each other: one in
// the book itself, because what it extends was right before.
func (r *reader) blame(values ...any) place {
	var first *tree
	for _, x := range values {
		switch t := r.written(x); {
		case t == nil:
		case t.at.in == r.top:
			return t.at
		case first == nil:
			first = t
		}
	}
	return first.at
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
