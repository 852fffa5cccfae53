package book

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/internal/strictyaml"
	"github.com/headroom-quota/headroom/quota/book/keys"
)

// Format prints the book as YAML in one piece, in a fixed order. It includes the
// extended book, and writes out short forms and defaults. Reading it back gives an
// equal book.
func (b *Book) Format() []byte {
	return render(b.tree())
}

// Diff prints only what differs from the book that this one extends, as an
// overlay: reading it back gives an equal book. For a book that extends none, it
// prints the same as [Book.Format].
func (b *Book) Diff() []byte {
	if b == nil || b.base == nil {
		return b.Format()
	}
	t := &tree{kind: isMapping}
	names := &tree{kind: isList, flow: true}
	for _, name := range b.extends {
		names.items = append(names.items, text(name))
	}
	if len(names.items) == 1 {
		names = names.items[0]
	}
	t.add("extends", names)
	if d := diff(b.base.tree(), b.tree()); d != nil {
		t.entries = append(t.entries, d.entries...)
	}
	return render(t)
}

func (b *Book) tree() *tree {
	d := new(keys.Book)
	if b != nil && b.keys != nil {
		d = b.keys
	}
	return bookField().print(reflect.ValueOf(d).Elem(), true)
}

// print makes a tree of a value. It returns nil for an empty value, unless it must
// always be printed.
func (f *field) print(v reflect.Value, always bool) *tree {
	if f.form {
		return formOf(v).tree()
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v, always = v.Elem(), true
	}
	t := &tree{kind: isMapping, flow: f.tags.Get("print") != "block"}
	switch {
	case f.record != nil:
		t.one = f.whole()
		var only *tree
		if alone := f.record.alone; alone != nil && !v.Field(alone.index).IsZero() {
			only = printScalar(reflect.Indirect(v.Field(alone.index)))
			t.add(alone.tags.Get("alone"), only)
		}
		for _, key := range f.record.fields {
			if value := key.print(v.Field(key.index), false); value != nil {
				t.add(key.key, value)
			}
		}
		if only != nil && len(t.entries) == 1 {
			return only // with others, [Make] has it refused as an unknown key
		}
	case v.Kind() == reflect.Map:
		t.flow = f.each.record == nil || f.each.record.alone != nil
		for _, name := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
			value := f.each.print(v.MapIndex(name), true)
			if value == nil {
				value = &tree{kind: isNull}
			}
			t.add(name.String(), value)
		}
	case v.Kind() == reflect.Slice:
		t.kind, t.flow = isList, f.each.record == nil
		for i := range v.Len() {
			t.items = append(t.items, f.each.print(v.Index(i), true))
		}
		if f.short == itemShort && len(t.items) == 1 {
			return t.items[0]
		}
	case v.IsZero() && !always:
		return nil
	default:
		return printScalar(v)
	}
	if len(t.entries)+len(t.items) == 0 && !always {
		return nil
	}
	return t
}

func printScalar(v reflect.Value) *tree {
	switch {
	case v.Type() == durationType:
		return text(brief(time.Duration(v.Int())))
	case v.CanInt():
		return number(v.Int())
	case v.Kind() == reflect.Bool:
		return &tree{kind: isFlag, text: strconv.FormatBool(v.Bool())}
	}
	return text(v.String())
}

// diff is the overlay that makes one tree of another, or nil if they are equal.
// Keys that the new tree lacks are null in it.
func diff(old, made *tree) *tree {
	if old == nil || old.kind != made.kind {
		return made
	}
	if made.kind != isMapping || made.one {
		if slices.Equal(render(old), render(made)) {
			return nil
		}
		return made
	}
	d := &tree{kind: isMapping, flow: made.flow}
	for _, e := range made.entries {
		before := old.get(e.key)
		if v := diff(before, e.value); v != nil {
			d.add(e.key, v)
		}
	}
	for _, e := range old.entries {
		if made.get(e.key) == nil {
			d.add(e.key, &tree{kind: isNull})
		}
	}
	if len(d.entries) == 0 {
		return nil
	}
	// In a method, pool and cost replace charge by themselves, and the reverse.
	switch o := made.get("outage"); {
	case o == nil || o.kind != isText:
	case d.get("charge") != nil && d.get("charge").kind == isMapping && old.get("pool") != nil:
		return d.without("pool", "cost")
	case d.get("cost") != nil && d.get("cost").kind == isNumber && old.get("charge") != nil:
		return d.without("charge")
	}
	return d
}

func render(t *tree) []byte {
	var out strings.Builder
	printBlock(&out, t, "")
	return []byte(out.String())
}

func printBlock(out *strings.Builder, t *tree, indent string) {
	for _, e := range t.entries {
		fmt.Fprintf(out, "%s%s:", indent, quoted(e.key))
		printValue(out, e.value, indent)
	}
	for _, item := range t.items {
		out.WriteString(indent + "- ")
		printFlow(out, item)
		out.WriteByte('\n')
	}
	if t.kind != isMapping && t.kind != isList {
		printFlow(out, t)
	}
}

func printValue(out *strings.Builder, t *tree, indent string) {
	if block := len(t.entries)+len(t.items) > 0 && !t.flow; block {
		out.WriteByte('\n')
		printBlock(out, t, indent+"  ")
		return
	}
	out.WriteByte(' ')
	printFlow(out, t)
	out.WriteByte('\n')
}

func printFlow(out *strings.Builder, t *tree) {
	comma := ""
	switch t.kind {
	case isMapping:
		out.WriteByte('{')
		for _, e := range t.entries {
			out.WriteString(comma + quoted(e.key) + ": ")
			printFlow(out, e.value)
			comma = ", "
		}
		out.WriteByte('}')
	case isList:
		out.WriteByte('[')
		for _, item := range t.items {
			out.WriteString(comma)
			printFlow(out, item)
			comma = ", "
		}
		out.WriteByte(']')
	case isText:
		out.WriteString(quoted(t.text))
	case isNull:
		out.WriteString("null")
	default:
		out.WriteString(t.text)
	}
}

// quoted is [strictyaml.Quoted], but leaves percentages and durations as they are.
func quoted(s string) string {
	number, percent := strings.CutSuffix(s, "%")
	if percent && number != "" && strings.Trim(number, digits) == "" {
		return s
	}
	if d, err := time.ParseDuration(s); err == nil && brief(d) == s && strings.Trim(s, digits+"hms") == "" && strings.ContainsAny(s, "hms") {
		return s
	}
	return strictyaml.Quoted(s)
}

func brief(d time.Duration) string { return strictyaml.Duration(d) }
