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
	t := &tree{Kind: isMapping}
	names := &tree{Kind: isList, Flow: true}
	for _, name := range b.extends {
		names.Items = append(names.Items, text(name))
	}
	if len(names.Items) == 1 {
		names = names.Items[0]
	}
	t.Add("extends", names)
	if d := diff(b.base.tree(), b.tree()); d != nil {
		t.Entries = append(t.Entries, d.Entries...)
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
	t := &tree{Kind: isMapping, Flow: f.tags.Get("print") != "block"}
	switch {
	case f.record != nil:
		t.One = f.whole()
		var only *tree
		if alone := f.record.alone; alone != nil && !v.Field(alone.index).IsZero() {
			only = printScalar(reflect.Indirect(v.Field(alone.index)))
			t.Add(alone.tags.Get("alone"), only)
		}
		for _, key := range f.record.fields {
			if value := key.print(v.Field(key.index), false); value != nil {
				t.Add(key.key, value)
			}
		}
		if only != nil && len(t.Entries) == 1 {
			return only // with others, [Make] has it refused as an unknown key
		}
	case v.Kind() == reflect.Map:
		t.Flow = f.each.record == nil || f.each.record.alone != nil
		for _, name := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
			value := f.each.print(v.MapIndex(name), true)
			if value == nil {
				value = &tree{Kind: isNull}
			}
			t.Add(name.String(), value)
		}
	case v.Kind() == reflect.Slice:
		t.Kind, t.Flow = isList, f.each.record == nil
		for i := range v.Len() {
			t.Items = append(t.Items, f.each.print(v.Index(i), true))
		}
		if f.short == itemShort && len(t.Items) == 1 {
			return t.Items[0]
		}
	case v.IsZero() && !always:
		return nil
	default:
		return printScalar(v)
	}
	if len(t.Entries)+len(t.Items) == 0 && !always {
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
		return &tree{Kind: isFlag, Text: strconv.FormatBool(v.Bool())}
	}
	return text(v.String())
}

// diff is the overlay that makes one tree of another, or nil if they are equal.
// Keys that the new tree lacks are null in it.
func diff(old, made *tree) *tree {
	if old == nil || old.Kind != made.Kind {
		return made
	}
	if made.Kind != isMapping || made.One {
		if slices.Equal(render(old), render(made)) {
			return nil
		}
		return made
	}
	d := &tree{Kind: isMapping, Flow: made.Flow}
	for _, e := range made.Entries {
		before := old.Value(e.Key)
		if v := diff(before, e.Value); v != nil {
			d.Add(e.Key, v)
		}
	}
	for _, e := range old.Entries {
		if made.Value(e.Key) == nil {
			d.Add(e.Key, &tree{Kind: isNull})
		}
	}
	if len(d.Entries) == 0 {
		return nil
	}
	// In a method, pool and cost replace charge by themselves, and the reverse.
	switch o := made.Value("outage"); {
	case o == nil || o.Kind != isText:
	case d.Value("charge") != nil && d.Value("charge").Kind == isMapping && old.Value("pool") != nil:
		return d.Without("pool", "cost")
	case d.Value("cost") != nil && d.Value("cost").Kind == isNumber && old.Value("charge") != nil:
		return d.Without("charge")
	}
	return d
}

func render(t *tree) []byte {
	var out strings.Builder
	printBlock(&out, t, "")
	return []byte(out.String())
}

func printBlock(out *strings.Builder, t *tree, indent string) {
	for _, e := range t.Entries {
		fmt.Fprintf(out, "%s%s:", indent, quoted(e.Key))
		if len(e.Value.Entries)+len(e.Value.Items) > 0 && !e.Value.Flow {
			out.WriteByte('\n')
			printBlock(out, e.Value, indent+"  ")
			continue
		}
		out.WriteByte(' ')
		printFlow(out, e.Value)
		out.WriteByte('\n')
	}
	for _, item := range t.Items {
		out.WriteString(indent + "- ")
		printFlow(out, item)
		out.WriteByte('\n')
	}
	if t.Kind != isMapping && t.Kind != isList {
		printFlow(out, t)
	}
}

func printFlow(out *strings.Builder, t *tree) {
	comma := ""
	switch t.Kind {
	case isMapping:
		out.WriteByte('{')
		for _, e := range t.Entries {
			out.WriteString(comma + quoted(e.Key) + ": ")
			printFlow(out, e.Value)
			comma = ", "
		}
		out.WriteByte('}')
	case isList:
		out.WriteByte('[')
		for _, item := range t.Items {
			out.WriteString(comma)
			printFlow(out, item)
			comma = ", "
		}
		out.WriteByte(']')
	case isText:
		out.WriteString(quoted(t.Text))
	case isNull:
		out.WriteString("null")
	default:
		out.WriteString(t.Text)
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
