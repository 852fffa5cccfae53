package book

import (
	"encoding/json"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"
)

const schemaFile = "../../costs.schema.json"

type schema = jsonschema.Schema

// makeSchema makes the JSON Schema of a price book from the tags of its keys.
func makeSchema(t *testing.T) []byte {
	s := &schema{
		Version: jsonschema.Version, Title: "Headroom price book", Ref: "#/$defs/book", Definitions: jsonschema.Definitions{},
		AnyOf: []*schema{{Required: []string{"revision"}}, {Required: []string{"extends"}}},
	}
	define(t, s.Definitions, bookField().record, false)
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

var null = &schema{Type: "null", Description: "Takes away what the extended book has."}

// define describes a record. In a list nothing is inherited: it is whole, and has no
// null.
func define(t *testing.T, defs jsonschema.Definitions, rec *record, inList bool) *schema {
	name := defName(rec)
	ref := &schema{Ref: "#/$defs/" + name}
	if defs[name] != nil {
		return ref
	}
	def := &schema{Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema}
	defs[name] = def
	for _, f := range rec.fields {
		all := alternatives(t, defs, f)
		if !inList && rec.name != "book" {
			all = append(all, null)
		}
		p := anyOf(all)
		p.Description, p.Examples = f.tags.Get("doc"), examples(t, f)
		if preset := f.preset + f.tags.Get("assumed"); preset != "" {
			p.Default = value(t, preset)
		}
		def.Properties.Set(f.key, p)
		if inList && f.required != "" {
			def.Required = append(def.Required, f.key)
		}
		if inList && f.oneof != "" {
			def.OneOf = append(def.OneOf, &schema{Required: []string{f.key}})
		}
	}
	return ref
}

// alternatives are the forms that a value may have.
func alternatives(t *testing.T, defs jsonschema.Definitions, f *field) []*schema {
	switch kind := f.typ.Kind(); {
	case f.form:
		return formsOf(f)
	case f.record != nil && f.record.alone != nil:
		return []*schema{scalarOf(f.record.alone), define(t, defs, f.record, true)}
	case f.record != nil && f.short != "":
		return append([]*schema{define(t, defs, f.record, false)}, alternatives(t, defs, f.child(f.short))...)
	case f.record != nil:
		return []*schema{define(t, defs, f.record, false)}
	case kind == reflect.Map:
		each := append(alternatives(t, defs, f.each), null)
		all := []*schema{{Type: "object", AdditionalProperties: anyOf(each), MinProperties: count(f, 0), MaxProperties: count(f, 1)}}
		for _, word := range f.words {
			all = append(all, &schema{Type: "string", Enum: []any{word}})
		}
		return all
	case kind == reflect.Slice && f.short == itemShort && f.each.record != nil:
		each := alternatives(t, defs, f.each)
		return append(each, &schema{Type: "array", Items: anyOf(each), MinItems: count(f, 0), MaxItems: count(f, 1)})
	case kind == reflect.Slice && f.each.record != nil:
		return []*schema{{Type: "array", Items: define(t, defs, f.each.record, true), MinItems: count(f, 0), MaxItems: count(f, 1)}}
	case kind == reflect.Slice:
		each := anyOf(alternatives(t, defs, f.each))
		list := &schema{Type: "array", Items: each, MinItems: count(f, 0), MaxItems: count(f, 1)}
		if f.short == "item" {
			return []*schema{each, list}
		}
		return []*schema{list}
	}
	return []*schema{scalarOf(f)}
}

func scalarOf(f *field) *schema {
	typ := f.typ
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch {
	case typ == durationType:
		return &schema{Type: "string"}
	case typ.Kind() == reflect.Bool && len(f.words) > 0:
		return &schema{Type: "boolean", Enum: []any{true}}
	case typ.Kind() == reflect.Bool:
		return &schema{Type: "boolean"}
	case typ.Kind() != reflect.String:
		return &schema{Type: "integer", Minimum: numeral(f.least), Maximum: numeral(f.most)}
	}
	s := &schema{Type: "string", Pattern: f.text.pattern}
	if f.text.phrase == "" {
		for _, word := range f.words {
			s.Enum = append(s.Enum, word)
		}
	}
	return s
}

// formsOf describes a value with a form of its own: text, besides a number if it has a
// range, or a mapping if it has a size.
func formsOf(f *field) []*schema {
	all := []*schema{{Type: "string", Pattern: f.text.pattern}}
	if f.tags.Get("range") != "" {
		all = append(all, &schema{Type: "integer", Minimum: numeral(f.least), Maximum: numeral(f.most)})
	}
	if f.tags.Get("size") != "" {
		all = append(all, &schema{Type: "object", MinProperties: count(f, 0), MaxProperties: count(f, 1)})
	}
	return all
}

func anyOf(all []*schema) *schema {
	if len(all) == 1 {
		one := *all[0]
		return &one
	}
	return &schema{AnyOf: all}
}

func numeral(n int64) json.Number { return json.Number(strconv.FormatInt(n, 10)) }

// count is one end of the size of a list or mapping, or nil if it has none.
func count(f *field, end int) *uint64 {
	ends := strings.Split(f.tags.Get("size")+"..", "..")
	if ends[end] == "" {
		return nil
	}
	n := uint64(bound(ends[end], 0))
	return &n
}

func examples(t *testing.T, f *field) (all []any) {
	for _, example := range split(f.tags.Get("example")) {
		all = append(all, value(t, example))
	}
	return all
}

// value is what a text stands for in YAML.
func value(t *testing.T, text string) (v any) {
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func defName(rec *record) string { return strings.ToLower(rec.name[:1]) + rec.name[1:] }

func TestBookSchemaIsCurrent(t *testing.T) {
	made := makeSchema(t)
	if *Update {
		if err := os.WriteFile(schemaFile, made, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(stored), string(made)); diff != "" {
		t.Errorf("costs.schema.json is stale: go test ./quota/book -run Schema -update (-stored +made):\n%s", diff)
	}
}
