package book

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/headroom-quota/headroom/internal/strictyaml"
	"github.com/headroom-quota/headroom/quota/book/keys"
)

// bookNoun is what messages call a whole book.
const bookNoun = "the price book"

// scope is what messages call a mapping: pool "units" of account "staging".
type scope struct {
	noun  string
	name  string // "" if it has none
	part  bool   // the noun is the key that it is behind
	outer *scope // what it is part of; nil if the rest says enough
	among *tree  // the mapping by name that it is an entry of
}

func (s *scope) String() string {
	label := s.noun
	if s.name != "" {
		label += " " + strconv.Quote(s.name)
	}
	if s.outer != nil {
		label += " of " + s.outer.String()
	}
	return label
}

// inner is the outer scope of parts. Parts of an upstream are known without it.
func (s *scope) inner() *scope {
	if s.noun == bookNoun || s.noun == "upstream" {
		return nil
	}
	return s
}

// of is what messages call the value of a key that has parts itself.
func (s *scope) of(key string) string { return (&scope{noun: key, outer: s.inner()}).String() }

// decode reads a whole book into structs. Afterwards the reader knows where each
// value of them stands.
func (r *reader) decode(t *tree) *keys.Book {
	d := &keys.Book{}
	r.found = map[any]*entry{}
	r.read(bookField(), &entry{At: r.top.Place(1, 1), Value: t}, reflect.ValueOf(d).Elem(), &scope{noun: bookNoun})
	return d
}

// read reads the value of e into v. The scope is that of the mapping that has the
// value, or of the value itself if that is a record.
func (r *reader) read(f *field, e *entry, v reflect.Value, s *scope) {
	if f.record != nil && v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	r.found[v.Addr().Interface()] = e
	before := len(r.faults)
	switch kind := f.typ.Kind(); {
	case f.form:
		formOf(v).read(r, f, e.Value)
	case f.record != nil:
		r.readRecord(f, e, v, s)
	case kind == reflect.Map:
		r.readEntries(f, e, v, s)
	case kind == reflect.Slice:
		r.readItems(f, e, v, s)
	case kind == reflect.Pointer:
		n := reflect.New(f.typ.Elem())
		if r.scalar(f, e.Value, n.Elem(), f.key) {
			v.Set(n)
		}
	case s.part:
		r.scalar(f, e.Value, v, s.of(f.key))
	case f.noun != "" && f.noun == s.noun: // an entry
		r.scalar(f, e.Value, v, f.key+" of "+s.String())
	case f.noun != "":
		r.scalar(f, e.Value, v, f.noun)
	default:
		r.scalar(f, e.Value, v, f.key)
	}
	e.Value.Faulty = len(r.faults) > before
}

func (r *reader) readRecord(f *field, e *entry, v reflect.Value, s *scope) {
	e.Value = f.long(e.Value)
	t := e.Value
	if alone := f.record.alone; alone != nil && t.Kind != isMapping && t.Kind != isUnset {
		if alone.typ.Kind() == reflect.String {
			r.scalar(alone, t, v.Field(alone.index), s.noun)
		} else if t.Kind == isText || t.Kind == isList {
			r.fault(t.At, "%s must be a whole number, or a mapping of %s, is %s", s, list(f.record.keys, "and"), show(t))
		} else if n := reflect.New(alone.typ.Elem()); r.scalar(alone, t, n.Elem(), s.String()) {
			v.Field(alone.index).Set(n)
		}
		return
	}
	t.Lost = t.Kind != isMapping
	if t.Kind == isUnset && s.name != "" {
		r.fault(e.At, "%q has no value; write {} for one that is empty, or null to remove it", e.Key)
		return
	}
	if t.Lost {
		r.is(t, isMapping, s.String())
		return
	}
	var meant []string // the keys that misspelt ones were probably meant to be
	for i := range t.Entries {
		e := &t.Entries[i]
		key := f.child(e.Key)
		switch {
		case key == nil:
			keys := f.record.keys
			r.fault(e.At, "unknown key %q in %s%s", e.Key, s, orMean(e.Key, keys, "it may have "+strings.Join(keys, ", ")))
			t.Lost, meant = true, append(meant, strictyaml.Nearest(e.Key, keys))
		case e.Value.Kind == isUnset:
			r.fault(e.At, "%q has no value; write one, or null to fall back to the default", e.Key)
			t.Lost = true
		case key.record != nil:
			r.read(key, e, v.Field(key.index), &scope{noun: e.Key, part: true, outer: s.inner()})
		default:
			r.read(key, e, v.Field(key.index), s)
		}
	}
	r.complete(f.record, e, v, s, meant)
}

// complete reports keys that a record must have, unless a misspelt one was meant to be
// it, and fills in defaults.
func (r *reader) complete(rec *record, e *entry, v reflect.Value, s *scope, meant []string) {
	t := e.Value
	where := e.At
	if s.part {
		where = t.At
	}
	var given, all, ways []string
	for _, f := range rec.fields {
		has := t.Value(f.key) != nil || slices.Contains(meant, f.key)
		if f.oneof != "" {
			all, ways = append(all, f.key), append(ways, f.oneof)
			if has {
				given = append(given, f.key)
			}
		}
		if has {
			continue
		}
		at, removed := t.Gone[f.key]
		if removed {
			r.found[v.Field(f.index).Addr().Interface()] = &entry{At: at}
		} else {
			at = where
		}
		if f.required != "" {
			r.fault(at, "%s has no %s%s", s, f.key, s.orMean(f.required))
		}
		switch v := v.Field(f.index); {
		case f.preset == "":
		case v.CanInt():
			v.SetInt(bound(f.preset, 0))
		default:
			v.SetString(f.preset)
		}
	}
	if ways == nil || len(given) == 1 {
		return
	}
	has := list(given, "and")
	switch {
	case len(all) == 1:
		r.fault(where, "%s has no %s; write %s", s, all[0], ways[0])
		return
	case given == nil:
		has = "none of " + list(all, "and")
	}
	r.fault(where, "%s has %s; write one of %s", s, has, strings.Join(ways, ", "))
}

// orMean suggests the name of another entry, or else says what to do.
func (s *scope) orMean(otherwise string) string {
	if s.among == nil {
		return "; " + otherwise
	}
	return orMean(s.name, s.among.Without(s.name).Keys(), otherwise)
}

func (r *reader) readEntries(f *field, e *entry, v reflect.Value, s *scope) {
	t := e.Value
	if t.Kind != isMapping {
		r.is(t, isMapping, s.of(f.key))
		return
	}
	if !r.count(f, len(t.Entries), t.At, s.of(f.key)) {
		return
	}
	v.Set(reflect.MakeMapWithSize(f.typ, len(t.Entries)))
	for i := range t.Entries {
		e := &t.Entries[i]
		if f.badName != nil {
			if why := f.badName(e.Key); why != "" {
				r.fault(e.At, "%s: name %q %s", s.of(f.key), e.Key, why)
			}
		}
		in := &scope{noun: f.noun, name: e.Key, outer: s.inner(), among: t}
		x := reflect.New(f.each.typ).Elem()
		r.read(f.each, e, x, in)
		v.SetMapIndex(reflect.ValueOf(e.Key), x)
	}
}

// readItems reads a list. A scalar stands for a list that has only this one.
func (r *reader) readItems(f *field, e *entry, v reflect.Value, s *scope) {
	t := e.Value
	items := t.Items
	switch records := f.each.record != nil; {
	case t.Kind != isList && records && f.short == itemShort:
		items = []*tree{t}
	case t.Kind != isList && records:
		r.is(t, isList, s.of(f.key))
		return
	case t.Kind != isList:
		items = []*tree{t}
	case records && !r.count(f, len(items), t.At, s.String()):
		return
	case len(items) == 0 && f.least > 0:
		r.fault(t.At, "%s is empty; write at least one%s", f.key, map[bool]string{true: ", or leave it out"}[f.required == ""])
	}
	if f.each.record != nil {
		s = &scope{noun: "a " + f.noun, outer: s.inner()}
	}
	v.Set(reflect.MakeSlice(f.typ, len(items), len(items)))
	for i, item := range items {
		r.read(f.each, &entry{At: item.At, Value: item}, v.Index(i), s)
	}
}

// count checks how many a list or a mapping by name has.
func (r *reader) count(f *field, n int, at place, label string) bool {
	ok := int64(n) >= f.least && int64(n) <= f.most
	if !ok {
		r.fault(at, "%s must have %d to %d %ss, has %d", label, f.least, f.most, f.noun, n)
	}
	return ok
}

// written is what stands in the book for the value that x points to, or nil.
func (r *reader) written(x any) *tree {
	if e := r.found[x]; e != nil {
		return e.Value
	}
	return nil
}

// given says whether the book has the value that x points to.
func (r *reader) given(x any) bool { return r.written(x) != nil }

// readable says whether the keys of a record could all be read. Otherwise one
// that is missing may be there and misspelt.
func (r *reader) readable(x any) bool { return !r.written(x).Lost }

// sound says whether values and all that they have are without fault.
func (r *reader) sound(values ...any) bool {
	return !slices.ContainsFunc(values, func(x any) bool { t := r.written(x); return t != nil && t.Faulty })
}

func (r *reader) place(x any) place { return r.written(x).At }

// missing is the place of what is not there: where it was removed, or else what
// it is missing from.
func (r *reader) missing(x, from any) place {
	if e := r.found[x]; e != nil {
		return e.At
	}
	return r.found[from].At
}

// names returns the names in the mapping that x points to, in the order in which
// they stand there.
func (r *reader) names(x any) []string { return r.written(x).Keys() }

// Make checks a price book that a program has written as structs, and makes a Book of it.
// It prints the structs as YAML and reads that with [Parse], so that the same checks apply.
// Errors name the file "book.Make" and show the line that is wrong. Nil options are the
// zero value. Later changes of the structs do not change the Book.
//
// A nil entry of a map removes what an extended book has, as null does in YAML.
func Make(b *keys.Book, o *Options) (*Book, error) {
	b = cmp.Or(b, new(keys.Book))
	return Parse("book.Make", render(bookField().print(reflect.ValueOf(b).Elem(), true)), o)
}

// Keys returns the book as structs: in one piece, with short forms and defaults written
// out, as [Book.Format] prints it. [Make] makes an equal book of them. They are a copy, for
// the caller to change.
func (b *Book) Keys() *keys.Book {
	return newReader("").decode(b.tree())
}
