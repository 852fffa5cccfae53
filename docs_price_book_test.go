package headroom_test

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// sections are the headings of docs/price-book.md, by the definition of the schema that
// each describes.
var sections = map[string]string{
	"book": "Book", "upstream": "Upstream", "credential": "API key", "refusal": "Refusal", "class": "Class",
	"account": "Account", "accountPool": "Account pool", "pool": "Pool", "window": "Window", "method": "Method",
	"family": "Family", "familyWindow": "Family window", "key": "Key",
}

// node is a part of a JSON Schema.
type node struct {
	Ref         string           `json:"$ref"`
	Defs        map[string]*node `json:"$defs"`
	Properties  map[string]*node `json:"properties"`
	Items       *node            `json:"items"`
	Every       additional       `json:"additionalProperties"`
	AnyOf       []*node          `json:"anyOf"`
	Default     any              `json:"default"`
	Description string           `json:"description"`
}

// additional is a schema, or false.
type additional struct{ *node }

func (a *additional) UnmarshalJSON(b []byte) error {
	if string(b) == "false" {
		return nil
	}
	return json.Unmarshal(b, &a.node)
}

// TestPriceBookPage compares docs/price-book.md with costs.schema.json: the same keys,
// with the same defaults, and an example of each key in its own section.
func TestPriceBookPage(t *testing.T) {
	var schema node
	if err := json.Unmarshal([]byte(read(t, "costs.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	page := map[string]string{} // by heading
	for _, part := range strings.Split("\n"+read(t, "docs/price-book.md"), "\n## ")[1:] {
		heading, text, _ := strings.Cut(part, "\n")
		page[heading] = text
	}
	if want := slices.Sorted(maps.Values(sections)); !slices.Equal(slices.Sorted(maps.Keys(page)), want) {
		t.Errorf("docs/price-book.md has the sections %q, want %q", slices.Sorted(maps.Keys(page)), want)
	}
	for name, def := range schema.Defs {
		heading := sections[name]
		if heading == "" {
			t.Errorf("docs/price-book.md has no section for %s of the schema", name)
			continue
		}
		described := map[string]string{} // the value column, by key
		for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([^\n|]*) \\| .+ \\|$").FindAllStringSubmatch(page[heading], -1) {
			described[row[1]] = row[2]
		}
		if got, want := slices.Sorted(maps.Keys(described)), slices.Sorted(maps.Keys(def.Properties)); !slices.Equal(got, want) {
			t.Errorf("section %s describes %q, the schema has %q", heading, got, want)
		}
		used := map[string]bool{}
		for _, m := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllStringSubmatch(page[heading], -1) {
			var book any
			if err := yaml.Unmarshal([]byte(m[1]), &book); err != nil {
				t.Fatal(err)
			}
			schema.collect(schema.Defs["book"], "book", book, used)
		}
		for key, property := range def.Properties {
			if !used[name+"."+key] {
				t.Errorf("section %s has no example of %s", heading, key)
			}
			if d := property.preset(); d != "" && !strings.Contains(described[key], "default `"+d+"`") {
				t.Errorf("section %s does not say that the default of %s is %s", heading, key, d)
			}
		}
	}
}

// collect notes which keys of which definitions a book uses.
func (s *node) collect(n *node, def string, value any, used map[string]bool) {
	if n == nil {
		return
	}
	if name, is := strings.CutPrefix(n.Ref, "#/$defs/"); is {
		s.collect(s.Defs[name], name, value, used)
	}
	for _, one := range n.AnyOf {
		s.collect(one, def, value, used)
	}
	switch value := value.(type) {
	case map[string]any:
		for key, v := range value {
			if p := n.Properties[key]; p != nil {
				used[def+"."+key] = true
				s.collect(p, "", v, used)
			} else {
				s.collect(n.Every.node, "", v, used)
			}
		}
	case []any:
		for _, v := range value {
			s.collect(n.Items, "", v, used)
		}
	}
}

// preset is the default of a property as the page writes it.
func (s *node) preset() string {
	if s.Default != nil {
		b, err := json.Marshal(s.Default)
		if err != nil {
			return err.Error()
		}
		return strings.Trim(string(b), `"`)
	}
	for _, one := range s.AnyOf {
		if d := one.preset(); d != "" {
			return d
		}
	}
	return ""
}
