package book

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota/book/keys"
	"github.com/headroom-quota/headroom/quota/window"
)

// field is what the tags say of one key. The items of a list and the entries of a
// mapping by name are a field too, with the tags of the key that has them.
type field struct {
	tags   reflect.StructTag
	typ    reflect.Type
	index  int     // in its struct
	form   bool    // it reads and prints itself
	record *record // it is a mapping of keys
	each   *field  // it is a list or a mapping by name, and has these

	key, noun, short, required, oneof, preset string

	words       []string
	text        textKind
	badName     func(string) string
	least, most int64 // of a number or duration, or how many of each
}

// record is a mapping of keys: a struct of package keys.
type record struct {
	name   string // in the schema
	alone  *field // a scalar that may stand for it, or nil
	fields []*field
	keys   []string // of the fields
}

// forms are the types of package keys that have a form of their own, with the types of
// this package that read and print them.
var forms = map[reflect.Type]reflect.Type{
	reflect.TypeFor[keys.Span]():     reflect.TypeFor[*span](),
	reflect.TypeFor[keys.Most]():     reflect.TypeFor[*most](),
	reflect.TypeFor[keys.Share]():    reflect.TypeFor[*share](),
	reflect.TypeFor[keys.Header]():   reflect.TypeFor[*headerValue](),
	reflect.TypeFor[keys.Fallback](): reflect.TypeFor[*fallback](),
}

func formOf(v reflect.Value) form { return v.Addr().Convert(forms[v.Type()]).Interface().(form) }

// form is a value that has a form of its own, such as 30 or 30%.
type form interface {
	read(r *reader, f *field, t *tree)
	tree() *tree // nil if it is not set
}

// bounds are the limits that tags name.
var bounds = map[string]int64{"units": window.MaxUnits, "block": int64(MaxBlock), "windows": MaxWindows, "charges": MaxCharges}

// itemShort is the short form of a list: its only item.
const itemShort = "item"

// bookField describes a whole price book.
var bookField = sync.OnceValue(func() *field {
	return newField(reflect.TypeFor[keys.Book](), "", map[string]*record{})
})

// newField reads the tags of a field. It panics if they make no sense. The records
// that are known already are not made again, so that one may be part of itself.
func newField(typ reflect.Type, tags reflect.StructTag, known map[string]*record) *field {
	f := &field{
		tags: tags, typ: typ, words: split(tags.Get("words")), text: textKinds[tags.Get("is")], badName: nameKinds[tags.Get("names")],
		key: tags.Get("yaml"), noun: tags.Get("noun"), short: tags.Get("short"),
		required: tags.Get("required"), oneof: tags.Get("oneof"), preset: tags.Get("default"),
	}
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	f.form = forms[typ] != nil
	limits := tags.Get("range")
	switch kind := typ.Kind(); {
	case f.form:
	case kind == reflect.Struct:
		f.record = newRecord(typ, tags, known)
	case kind == reflect.Map, kind == reflect.Slice:
		f.each = newField(typ.Elem(), tags, known)
		if f.short == itemShort {
			f.each.short = ""
		}
		limits = tags.Get("size")
	}
	least, most, _ := strings.Cut(limits, "..")
	f.least, f.most = bound(least, 0), bound(most, math.MaxInt64)
	return f
}

func newRecord(typ reflect.Type, tags reflect.StructTag, known map[string]*record) *record {
	name := tags.Get("as")
	if name == "" {
		name = strings.ToLower(typ.Name()[:1]) + typ.Name()[1:]
	}
	if rec := known[name]; rec != nil {
		return rec
	}
	rec := &record{name: name}
	known[name] = rec
	without := split(tags.Get("without"))
	for i := range typ.NumField() {
		tags := typ.Field(i).Tag
		if alone := tags.Get("alone"); slices.Contains(without, alone) {
			continue
		} else if alone != "" {
			rec.alone = newField(typ.Field(i).Type, tags, known)
			rec.alone.index = i
			continue
		}
		if slices.Contains(without, tags.Get("yaml")) {
			continue
		}
		f := newField(typ.Field(i).Type, tags, known)
		f.index = i
		rec.fields, rec.keys = append(rec.fields, f), append(rec.keys, f.key)
	}
	return rec
}

// bound is a number, a duration or a name in bounds.
func bound(text string, missing int64) int64 {
	if text == "" {
		return missing
	}
	if n, known := bounds[text]; known {
		return n
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(fmt.Sprintf("a tag has the bound %q, which is no number, no duration and no name in bounds", text))
	}
	return int64(d)
}

func split(tag string) []string {
	return strings.FieldsFunc(tag, func(c rune) bool { return c == '|' })
}

// child returns the field of a key in a mapping, or nil if the mapping has no such key.
func (f *field) child(key string) *field {
	switch {
	case f == nil:
		return nil
	case f.record == nil:
		return f.each
	}
	if i := slices.IndexFunc(f.record.fields, func(f *field) bool { return f.key == key }); i >= 0 {
		return f.record.fields[i]
	}
	return nil
}

// whole reports whether a book that is laid over another one replaces the value
// whole: a list, and a mapping for which a number may stand.
func (f *field) whole() bool {
	return f != nil && (f.typ.Kind() == reflect.Slice || f.record != nil && f.record.alone != nil)
}

// long writes out the short form of a record, such as the cost of a method. In place of a
// mapping by name, a word stands for an empty entry [anyName].
func (f *field) long(t *tree) *tree {
	if f != nil && f.record == nil && f.each != nil && f.typ.Kind() == reflect.Map && t.Kind == isText && slices.Contains(f.words, t.Text) {
		return &tree{Kind: isMapping, At: t.At, Entries: []entry{{Key: anyName, At: t.At, Value: &tree{Kind: isMapping, At: t.At}}}}
	}
	if f == nil || f.record == nil || f.short == "" || t.Kind != isNumber {
		return t
	}
	return &tree{Kind: isMapping, At: t.At, Entries: []entry{{Key: f.short, At: t.At, Value: t}}}
}
