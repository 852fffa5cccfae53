package book

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

const pageFile = "../../docs/price-book.md"

var (
	tableRows  = regexp.MustCompile(`(?m)^\| key \| value \| meaning \|\n(?:\|.*\n)+`)
	yamlBlocks = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	quotedCode = regexp.MustCompile(`'([^' ]+(?: [^' ]+)?)'`)
	capitals   = regexp.MustCompile(`[A-Z]`)
)

// TestPriceBookPage compares docs/price-book.md with the tags: a section for each
// mapping, with a table of its keys, and examples that use each of them.
func TestPriceBookPage(t *testing.T) {
	page, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split(string(page), "\n## ")
	found := map[string]int{}
	for i, section := range sections[1:] {
		heading, _, _ := strings.Cut(section, "\n")
		found[heading] = i + 1
	}
	for _, rec := range records() {
		i, has := found[headingOf(rec)]
		if !has {
			t.Errorf("docs/price-book.md has no section %s", headingOf(rec))
			continue
		}
		delete(found, headingOf(rec))
		sections[i] = tableRows.ReplaceAllLiteralString(sections[i], tableOf(rec))
		if !strings.Contains(sections[i], tableOf(rec)) {
			t.Errorf("section %s has no table of keys", headingOf(rec))
		}
		used := map[string]bool{}
		for _, m := range yamlBlocks.FindAllStringSubmatch(sections[i], -1) {
			example := parseExample(t, m[1])
			bookField().uses(example, used)
		}
		for _, f := range rec.fields {
			if !used[rec.name+"."+f.key] {
				t.Errorf("section %s has no example of %s", headingOf(rec), f.key)
			}
		}
	}
	for _, guide := range []string{"Built-in books", "Price a new API in ten minutes"} {
		delete(found, guide)
	}
	if len(found) > 0 {
		t.Errorf("docs/price-book.md has sections of nothing: %q", slices.Collect(maps.Keys(found)))
	}
	want := strings.Join(sections, "\n## ")
	if *Update {
		if err := os.WriteFile(pageFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := gocmp.Diff(want, string(page)); diff != "" {
		t.Errorf("docs/price-book.md is stale: go test ./quota/book -run Page -update (-want +got):\n%s", diff)
	}
}

// parseExample checks an example, and returns it as it is written.
func parseExample(t *testing.T, text string) *tree {
	t.Helper()
	builtins := func(name string) ([]byte, bool) {
		file := "../../costs.yaml"
		if other, ok := strings.CutPrefix(name, "builtin/"); ok {
			file = "builtin/" + other + ".yaml"
		}
		text, err := os.ReadFile(file)
		return text, err == nil
	}
	if _, err := Parse("example", []byte(text), &Options{Builtins: builtins}); err != nil {
		t.Error(err)
	}
	return newReader("example").parse([]byte(text))
}

// uses notes which keys a book uses.
func (f *field) uses(t *tree, used map[string]bool) {
	if f.each != nil && f.typ.Kind() == reflect.Slice && t.Kind == isMapping {
		f = f.each // the only item
	}
	t = f.long(t)
	for _, e := range t.Entries {
		if f.record != nil {
			used[f.record.name+"."+e.Key] = true
		}
		if child := f.child(e.Key); child != nil {
			child.uses(e.Value, used)
		}
	}
	for _, item := range t.Items {
		f.each.uses(item, used)
	}
}

// tableOf is the table of a record's keys.
func tableOf(rec *record) string {
	var out strings.Builder
	out.WriteString("| key | value | meaning |\n|---|---|---|\n")
	for _, f := range rec.fields {
		preset := f.preset + f.tags.Get("assumed")
		if preset != "" {
			preset = "; default `" + preset + "`"
		}
		fmt.Fprintf(&out, "| `%s` | %s%s | %s |\n", f.key, f.describe(), preset, quotedCode.ReplaceAllString(f.tags.Get("doc"), "`$1`"))
	}
	return out.String()
}

// describe says what may stand behind a key.
func (f *field) describe() string {
	typ := f.typ
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch kind := typ.Kind(); {
	case f.form && f.tags.Get("range") != "":
		return f.amount() + ", or " + f.text.phrase
	case f.form && len(f.words) > 0:
		return f.text.phrase + ", or `" + strings.Join(f.words, "`, `") + "`"
	case f.form && f.tags.Get("size") != "":
		return f.text.phrase + ", or `{name: value}`"
	case f.record != nil && f.record.alone != nil:
		return f.record.alone.describe() + ", or " + link(f.record, "")
	case f.record != nil && f.short != "":
		return link(f.record, "") + ", or its " + f.short
	case f.record != nil:
		return link(f.record, "")
	case kind == reflect.Map && f.each.record != nil && len(f.words) > 0:
		return "`" + strings.Join(f.words, "`, `") + "`, or name: " + f.each.describe()
	case kind == reflect.Map && f.each.record != nil:
		return "name: " + f.each.describe()
	case kind == reflect.Map && f.each.each != nil:
		return f.noun + ": name: " + f.each.each.describe() + ", for " + sizeText(f) + " " + f.noun + "s"
	case kind == reflect.Map:
		return f.noun + ": " + f.each.describe() + ", for " + sizeText(f) + " " + f.noun + "s"
	case kind == reflect.Slice && f.short == itemShort && f.each.record != nil:
		return f.each.describe() + ", or a list of " + sizeText(f)
	case kind == reflect.Slice && f.each.record != nil:
		return "list of " + sizeText(f) + " " + link(f.each.record, "s")
	case kind == reflect.Slice && f.short == "item":
		return f.each.describe() + ", or a list"
	case kind == reflect.Slice:
		return "list of " + cmp.Or(f.noun, f.each.describe()) + "s"
	case kind == reflect.Bool && len(f.words) == 0:
		return "`true` or `false`"
	case typ.Kind() == reflect.Int64 || typ.Kind() == reflect.Int:
		return f.amount()
	}
	words := make([]string, len(f.words))
	for i, word := range f.words {
		words[i] = "`" + word + "`"
	}
	if f.text.phrase != "" {
		words = append(words, f.text.phrase)
	}
	return list(words, "or")
}

// amount describes a number or a duration.
func (f *field) amount() string {
	what := "number"
	least, most, _ := strings.Cut(f.tags.Get("range"), "..")
	switch {
	case f.typ == durationType || f.typ == reflect.PointerTo(durationType):
		what = "duration"
		if most == "block" {
			most = brief(MaxBlock)
		}
	case most == "units":
		what, most = "units", ""
	}
	if least != "0" && least != "0s" {
		what += " from " + least
	}
	if most != "" {
		what += " to " + most
	}
	return what
}

// sizeText describes how many parts something has.
func sizeText(f *field) string {
	if f.least == 0 {
		return fmt.Sprint("up to ", f.most)
	}
	return fmt.Sprint(f.least, " to ", f.most)
}

// headingOf is the heading of a record's section: Account pool of accountPool.
func headingOf(rec *record) string {
	words := strings.ToLower(capitals.ReplaceAllString(defName(rec), " $0"))
	return strings.Replace(strings.ToUpper(words[:1])+words[1:], "Api", "API", 1)
}

// link leads to the section of a record.
func link(rec *record, plural string) string {
	heading := headingOf(rec)
	text := heading
	if !strings.HasPrefix(text, "API") {
		text = strings.ToLower(text)
	}
	return fmt.Sprintf("[%s%s](#%s)", text, plural, strings.ReplaceAll(strings.ToLower(heading), " ", "-"))
}
