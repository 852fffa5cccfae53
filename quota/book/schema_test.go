package book_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/headroom-quota/headroom"
)

const schemaFile = "../../costs.schema.json"

func readSchema(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	var s map[string]any
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// The schema passes good books, and catches by itself the
// faults that an editor should mark.
func TestBookSchemaJudgesBooks(t *testing.T) {
	root := readSchema(t)
	judge := func(text []byte) error {
		var doc any
		if err := yaml.Unmarshal(text, &doc); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return obey(root, root, doc, "")
	}
	for _, name := range headroom.ListBuiltin() {
		text, _ := headroom.ReadBuiltin(name)
		if err := judge(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	overlay := `{extends: builtin, upstreams: {a: {methods: {m: 5, n: null, o: {route: [GET /a, GET /b]}}, pools: {p: null, q: {headroom: null}},
  classes: {c: {keep_free: 5}, d: {keep_free: 5%}}}, b: null}, families: {f: {keys: {a: 5, b: null}}}}`
	for _, text := range [][]byte{builtins["builtin.yaml"], []byte(overlay)} {
		if err := judge(text); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	}
	broken := brokenBooks(t)
	for _, name := range []string{
		"algorithm-unknown", "cost-negative", "cost-text", "key-unknown", "keep-free-100-percent", "list-where-a-mapping-should-be",
		"max-keys-zero", "method-charges-nothing", "quota-zero", "quota-enormous", "revision-missing", "route-lower-case-verb",
		"refusal-means-nothing", "refusal-means-two-things", "refusal-without-status", "refusal-key-unknown",
		"unpriced-unknown", "window-without-per", "windows-empty", "extends-file", "account-window-of-its-own",
	} {
		if text := broken[name]; text == nil || judge(text) == nil {
			t.Errorf("there is no broken book %s, or the schema lets it pass", name)
		}
	}
}

// obey checks a document against as much of JSON Schema as ours uses.
func obey(root, s map[string]any, doc any, at string) error {
	if ref, ok := s["$ref"].(string); ok {
		def, ok := root["$defs"].(map[string]any)[filepath.Base(ref)].(map[string]any)
		if !ok {
			return fmt.Errorf("%s: %s leads nowhere", at, ref)
		}
		if err := obey(root, def, doc, at); err != nil {
			return err
		}
	}
	if some, ok := s["anyOf"].([]any); ok && !slices.ContainsFunc(some, func(one any) bool {
		return obey(root, one.(map[string]any), doc, at) == nil
	}) {
		return fmt.Errorf("%s: none of the alternatives", at)
	}
	if some, ok := s["oneOf"].([]any); ok {
		holds := 0
		for _, one := range some {
			if obey(root, one.(map[string]any), doc, at) == nil {
				holds++
			}
		}
		if holds != 1 {
			return fmt.Errorf("%s: %d of the alternatives, not one", at, holds)
		}
	}
	if words, ok := s["enum"].([]any); ok && !slices.Contains(words, doc) {
		return fmt.Errorf("%s: %v is not one of %v", at, doc, words)
	}
	is := map[string]bool{}
	switch d := doc.(type) {
	case nil:
		is["null"] = true
	case bool:
		is["boolean"] = true
	case uint64, int64:
		is["integer"] = true
		n, _ := json.Marshal(d)
		var f float64
		_ = json.Unmarshal(n, &f)
		if least, ok := s["minimum"].(float64); ok && f < least {
			return fmt.Errorf("%s: %v is below %v", at, f, least)
		}
		if most, ok := s["maximum"].(float64); ok && f > most {
			return fmt.Errorf("%s: %v is above %v", at, f, most)
		}
	case string:
		is["string"] = true
		if p, ok := s["pattern"].(string); ok && !regexp.MustCompile(p).MatchString(d) {
			return fmt.Errorf("%s: %q is not %s", at, d, p)
		}
	case []any:
		is["array"] = true
		if least, ok := s["minItems"].(float64); ok && float64(len(d)) < least {
			return fmt.Errorf("%s: too few", at)
		}
		for i, item := range d {
			if of, ok := s["items"].(map[string]any); ok {
				if err := obey(root, of, item, fmt.Sprint(at, "/", i)); err != nil {
					return err
				}
			}
		}
	case map[string]any:
		is["object"] = true
		if least, ok := s["minProperties"].(float64); ok && float64(len(d)) < least {
			return fmt.Errorf("%s: too few", at)
		}
		need, _ := s["required"].([]any)
		for _, key := range need {
			if _, ok := d[key.(string)]; !ok {
				return fmt.Errorf("%s: %s is missing", at, key)
			}
		}
		known, _ := s["properties"].(map[string]any)
		for key, v := range d {
			of, ok := known[key].(map[string]any)
			if !ok {
				of, ok = s["additionalProperties"].(map[string]any)
			}
			if !ok && s["additionalProperties"] == false {
				return fmt.Errorf("%s: unknown key %s", at, key)
			}
			if ok {
				if err := obey(root, of, v, at+"/"+key); err != nil {
					return err
				}
			}
		}
	}
	if want, ok := s["type"].(string); ok && !is[want] {
		return fmt.Errorf("%s: %v is no %s", at, doc, want)
	}
	return nil
}
