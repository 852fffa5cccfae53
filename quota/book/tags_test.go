package book

import (
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// records returns every mapping of keys, by its name in the schema.
func records() map[string]*record {
	all := map[string]*record{}
	var walk func(f *field)
	walk = func(f *field) {
		if f.each != nil {
			walk(f.each)
		}
		if f.record == nil || all[f.record.name] != nil {
			return
		}
		all[f.record.name] = f.record
		for _, key := range f.record.fields {
			walk(key)
		}
	}
	walk(bookField())
	return all
}

// Every tag is known, and says something that the reader understands.
func TestTagsMakeSense(t *testing.T) {
	known := strings.Fields("yaml doc example required oneof default assumed range words is size names noun short without as print alone")
	tag := regexp.MustCompile(`(\w+):"(?:[^"\\]|\\.)*"`)
	for name, rec := range records() {
		seen := map[string]bool{}
		for _, f := range rec.fields {
			t.Run(name+"."+f.key, func(t *testing.T) {
				if f.key == "" || seen[f.key] {
					t.Errorf("key %q is empty, or there are two", f.key)
				}
				seen[f.key] = true
				for _, m := range tag.FindAllStringSubmatch(string(f.tags), -1) {
					if !slices.Contains(known, m[1]) || f.tags.Get(m[1]) == "" {
						t.Errorf("tag %s is unknown or empty", m[1])
					}
				}
				if doc := f.tags.Get("doc"); !strings.HasSuffix(doc, ".") {
					t.Errorf("doc %q is no sentence", doc)
				}
				if is := f.tags.Get("is"); is != "" && f.text.phrase == "" {
					t.Errorf("there is no kind of text %q", is)
				}
				if names := f.tags.Get("names"); names != "" && f.badName == nil {
					t.Errorf("there is no kind of name %q", names)
				}
				parts := f.each != nil && f.each.record != nil
				if parts && (f.noun == "" || f.typ.Kind() == reflect.Map && f.badName == nil) {
					t.Error("its entries lack a noun or a kind of name")
				}
				if parts && f.short != "" && f.short != itemShort && f.each.child(f.short) == nil {
					t.Errorf("its entries have no key %q for the short form", f.short)
				}
				if !parts && f.record == nil && f.typ.Kind() != reflect.Bool && f.tags.Get("example") == "" && (len(f.words) == 0 || f.text.phrase != "") {
					t.Error("it lacks an example")
				}
				for _, value := range append(split(f.tags.Get("example")), f.preset, f.tags.Get("assumed")) {
					if value != "" {
						readValue(t, f, value)
					}
				}
			})
		}
	}
}

// readValue checks that a key may have a value, and that the value is printed again.
func readValue(t *testing.T, f *field, value string) {
	t.Helper()
	text := f.key + ": " + value
	r := newReader("tag")
	r.found = map[any]*entry{}
	tree := r.parse([]byte(text))
	if tree == nil {
		t.Error(r.err())
		return
	}
	v := reflect.New(f.typ).Elem()
	r.read(f, &tree.Entries[0], v, &scope{noun: f.key})
	if err := r.err(); err != nil {
		t.Error(err)
	} else if f.print(v, false) == nil {
		t.Errorf("%s is not printed", value)
	}
}

// The values that the reader leaves to package window are those that its tags show.
func TestWindowsHaveTheDefaultsOfTheirTags(t *testing.T) {
	b, err := Parse("costs.yaml", []byte("revision: 1\nfamilies: {a: {quota: 1, windows: [{per: 24h}, {per: day}]}}\n"+
		"upstreams: {a: {pools: {b: {windows: [{in_flight: 1}]}, c: {quota: 1, windows: [{per: 24h}], by: {body: d}}}}}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	ring, day := b.Families["a"].Windows[0], b.Families["a"].Windows[1]
	slots := b.Upstreams["a"].Pools["b"].Windows[0]
	got := map[string]string{
		"ttl": brief(slots.Per), "algorithm": string(ring.Algorithm), "zone": day.Zone.String(), "lag": brief(day.Lag), "headroom": "0",
		"settle_factor": strconv.FormatInt(b.Upstreams["a"].Pools["c"].SettleFactor, 10),
		"max_keys":      strconv.Itoa(b.Upstreams["a"].Pools["c"].MaxKeys),
	}
	for _, f := range append(records()["window"].fields, records()["pool"].fields...) {
		if assumed := f.tags.Get("assumed"); assumed != "" && got[f.key] != assumed {
			t.Errorf("the default of %s is %s, its tag has %s", f.key, got[f.key], assumed)
		}
	}
}

type nodeYAML struct {
	Name  string               `yaml:"name" is:"header" oneof:"name: a name"`
	Count *int64               `yaml:"count" range:"0..9" oneof:"count: a number"`
	First *nodeYAML            `yaml:"first"`
	More  map[string]*nodeYAML `yaml:"more" names:"narrow" noun:"node" short:"count"`
	Words map[string][]string  `yaml:"words" noun:"word"`
}

// A key is a field with tags, also one that holds what it is part of.
func TestRecordsMayHaveThemselves(t *testing.T) {
	f := newField(reflect.TypeFor[nodeYAML](), "", map[string]*record{})
	read := func(text string) (*nodeYAML, error) {
		r := newReader("f")
		r.found = map[any]*entry{}
		var n nodeYAML
		r.read(f, &entry{Value: r.parse([]byte(text))}, reflect.ValueOf(&n).Elem(), &scope{noun: "a node"})
		return &n, r.err()
	}
	const text = "{name: a, first: {count: 0}, more: {b: {name: c}, d: {count: 5}}, words: {e: [f, g]}}"
	n, err := read(strings.Replace(text, "{count: 5}", "5", 1))
	if err != nil {
		t.Fatal(err)
	}
	if n.First == nil || valueOf(n.More["d"].Count) != 5 {
		t.Errorf("%+v", n)
	}
	var out strings.Builder
	printFlow(&out, f.print(reflect.ValueOf(n).Elem(), true))
	if out.String() != text {
		t.Errorf("printed as %s, want %s", out.String(), text)
	}
	_, err = read("{name: a, first: {}, more: {B: {name: c, count: 10}}, words: {e: 7}}")
	for _, want := range []string{
		"f:1:18: first of a node has none of name and count; write one of name: a name, count: a number",
		`f:1:29: more of a node: name "B" may have 1 to 64 lower-case letters`,
		`f:1:29: node "B" of a node has name and count; write one of`,
		"f:1:49: count must be a whole number from 0 to 9, is 10",
		`f:1:66: words of word "e" of a node must be text, is 7`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
}
