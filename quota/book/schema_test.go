package book_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota/book"
)

const schemaFile = "../../costs.schema.json"

// What follows mirrors the YAML of a price book, for editors. The descriptions
// are what they show; what only the program can check is left to it.

type schemaBook struct {
	Revision  int                       `json:"revision,omitempty" jsonschema:"minimum=1,maximum=2147483647,description=Raise it with every change of a window."`
	Extends   string                    `json:"extends,omitempty" jsonschema:"pattern=^builtin(/[A-Za-z0-9_.-]+)?$,description=The built-in price book that this one is a difference from."`
	Upstreams map[string]schemaUpstream `json:"upstreams,omitempty" jsonschema:"description=Metered APIs by name."`
	Families  map[string]schemaFamily   `json:"families,omitempty" jsonschema:"description=Limits per key by name: each key gets a page of its own on first use."`
}

type schemaUpstream struct {
	Hosts    []string                 `json:"hosts,omitempty" jsonschema:"description=Requests to these hosts are metered. Lower case; a port may follow."`
	Unpriced string                   `json:"unpriced,omitempty" jsonschema:"enum=refuse,enum=admit,default=refuse,description=What to do with a call that has no price."`
	APIKey   schemaCredential         `json:"api_key,omitempty" jsonschema:"description=How a call over HTTP says whose it is."`
	Resumed  string                   `json:"resumable,omitempty" jsonschema:"pattern=^[A-Za-z0-9._~-]+$,description=The query parameter that names an upload under way. A request that has it and a Content-Range costs nothing more."`
	Refusals []schemaRefusal          `json:"refusals,omitempty" jsonschema:"maxItems=64,description=What the upstream's own no means. The first that matches."`
	Classes  map[string]schemaClass   `json:"classes,omitempty" jsonschema:"description=Kinds of caller by name."`
	Accounts map[string]schemaAccount `json:"accounts,omitempty" jsonschema:"description=Whom the upstream counts by; without it there is one: default."`
	Pools    map[string]schemaPool    `json:"pools,omitempty" jsonschema:"description=Allowances by name."`
	Methods  map[string]schemaMethod  `json:"methods,omitempty" jsonschema:"description=Calls by name. A bare number is a cost."`
}

type schemaCredential struct {
	Header string `json:"header,omitempty" jsonschema:"description=The header that carries the key."`
	Query  string `json:"query,omitempty" jsonschema:"description=The query parameter that would carry it too: a URL that has it is refused because it shows the key."`
}

type schemaRefusal struct {
	Status     any    `json:"status" jsonschema:"description=Of the answer: one or a list of them."`
	Header     any    `json:"header,omitempty" jsonschema:"description=A header that the answer has or a mapping from its name to its value."`
	Reason     any    `json:"reason,omitempty" jsonschema:"description=A member named reason in the JSON of the body is this or one of these."`
	Body       any    `json:"body,omitempty" jsonschema:"description=The body has this or one of these in it."`
	Until      string `json:"until,omitempty" jsonschema:"description=The pools of the call are shut until then: reset or the name of a header with the time."`
	For        string `json:"for,omitempty" jsonschema:"description=They are shut for so long unless Retry-After says otherwise."`
	Credential bool   `json:"credential,omitempty" jsonschema:"enum=true,description=The key may not be used: no pool is shut."`
}

type schemaClass struct {
	KeepFree    any    `json:"keep_free,omitempty" jsonschema:"description=Units of each window's limit or a percentage (30%) that the class leaves free."`
	UseHeadroom bool   `json:"use_headroom,omitempty" jsonschema:"description=May draw on the headroom."`
	Outage      string `json:"outage,omitempty" jsonschema:"enum=refuse,enum=admit,description=Overrides the method's."`
}

type schemaAccount struct {
	Pools map[string]schemaAccountPool `json:"pools,omitempty" jsonschema:"description=Pools of which the account has other limits."`
}

type schemaAccountPool struct {
	Quota    int `json:"quota,omitempty" jsonschema:"minimum=1,maximum=2147483647,description=Units that the upstream grants this account."`
	Headroom int `json:"headroom,omitempty" jsonschema:"minimum=0,maximum=2147483647,description=What ordinary calls leave free of it."`
}

type schemaPool struct {
	Quota    int            `json:"quota,omitempty" jsonschema:"minimum=1,maximum=2147483647,description=Units that the upstream grants in a window."`
	Headroom int            `json:"headroom,omitempty" jsonschema:"minimum=0,maximum=2147483647,default=0,description=What ordinary calls leave free of it."`
	Windows  []schemaWindow `json:"windows,omitempty" jsonschema:"minItems=1,maxItems=16,description=Limits over time. All of them hold."`
}

type schemaWindow struct {
	Per       string `json:"per" jsonschema:"description=How far back it looks (24h or 10m) or a period of the calendar: minute or hour or day or week or month."`
	Quota     int    `json:"quota,omitempty" jsonschema:"minimum=1,maximum=2147483647,description=A quota of its own. Without it the pool's."`
	Headroom  int    `json:"headroom,omitempty" jsonschema:"minimum=0,maximum=2147483647,description=A headroom of its own. Beside a quota of its own it is 0 if left out."`
	Algorithm string `json:"algorithm,omitempty" jsonschema:"enum=ring,enum=log,enum=counter,default=ring,description=How a sliding window counts."`
	Precision string `json:"precision,omitempty" jsonschema:"description=Length of a bucket of a ring. Without it a 1440th of per but at least 1s and at most a 10th of per."`
	Zone      string `json:"zone,omitempty" jsonschema:"default=UTC,description=Whose calendar: an IANA name such as America/Los_Angeles."`
	Lag       string `json:"lag,omitempty" jsonschema:"default=1m,description=Charges this near a boundary of the calendar count on both sides."`
}

type schemaMethod struct {
	Route  any            `json:"route,omitempty" jsonschema:"description=How it looks in HTTP: verb and path or a list of them. Braces stand for one segment."`
	Pool   string         `json:"pool,omitempty" jsonschema:"description=The pool it charges."`
	Cost   int            `json:"cost,omitempty" jsonschema:"minimum=0,maximum=2147483647,description=Units per call."`
	Charge map[string]int `json:"charge,omitempty" jsonschema:"description=Units per call by pool if it charges several; instead of pool and cost."`
	Outage string         `json:"outage,omitempty" jsonschema:"enum=refuse,enum=admit,default=refuse,description=What to do while the ledger cannot be reached."`
	Source string         `json:"source,omitempty" jsonschema:"description=Where the price comes from."`
}

type schemaFamily struct {
	Quota   int                  `json:"quota,omitempty" jsonschema:"minimum=1,maximum=2147483647,description=Units per key in a window."`
	Windows []schemaFamilyWindow `json:"windows,omitempty" jsonschema:"minItems=1,maxItems=16,description=Limits over time. All of them hold."`
	MaxKeys int                  `json:"max_keys,omitempty" jsonschema:"minimum=1,maximum=10000000,default=100000,description=Pages at most; further keys share one."`
	Keys    map[string]schemaKey `json:"keys,omitempty" jsonschema:"description=Keys with limits of their own. A bare number is a quota."`
}

type schemaFamilyWindow struct {
	Per       string `json:"per" jsonschema:"description=How far back it looks (1m) or a period of the calendar: minute or hour or day or week or month."`
	Quota     int    `json:"quota,omitempty" jsonschema:"minimum=1,maximum=2147483647,description=A quota of its own. Without it the family's."`
	Algorithm string `json:"algorithm,omitempty" jsonschema:"enum=ring,enum=log,enum=counter,default=ring,description=How a sliding window counts."`
	Precision string `json:"precision,omitempty" jsonschema:"description=Length of a bucket of a ring. Without it a 1440th of per but at least 1s and at most a 10th of per."`
	Zone      string `json:"zone,omitempty" jsonschema:"default=UTC,description=Whose calendar: an IANA name such as America/Los_Angeles."`
	Lag       string `json:"lag,omitempty" jsonschema:"default=1m,description=Charges this near a boundary of the calendar count on both sides."`
}

type schemaKey struct {
	Quota   int                  `json:"quota,omitempty" jsonschema:"minimum=1,maximum=2147483647,description=Units in a window."`
	Windows []schemaFamilyWindow `json:"windows,omitempty" jsonschema:"minItems=1,maxItems=16,description=Windows of its own instead of the family's."`
}

// schemaNames are the definitions by what [book.Keys] calls them.
var schemaNames = map[string]string{
	"price book": "schemaBook", "upstream": "schemaUpstream", "class": "schemaClass", "account": "schemaAccount",
	"account pool": "schemaAccountPool", "pool": "schemaPool", "window": "schemaWindow", "method": "schemaMethod",
	"API key": "schemaCredential", "refusal": "schemaRefusal",
	"family": "schemaFamily", "family window": "schemaFamilyWindow", "key": "schemaKey",
}

// schema makes the JSON Schema of a price book.
func schema(t *testing.T) []byte {
	t.Helper()
	s := (&jsonschema.Reflector{Anonymous: true}).Reflect(schemaBook{})
	s.Title = "Headroom price book"
	s.AnyOf = []*jsonschema.Schema{{Required: []string{"revision"}}, {Required: []string{"extends"}}}
	defs := s.Definitions
	set := func(def, key string, alternatives ...*jsonschema.Schema) {
		p, _ := defs[def].Properties.Get(key)
		defs[def].Properties.Set(key, &jsonschema.Schema{Description: p.Description, AnyOf: alternatives})
	}
	route := &jsonschema.Schema{Type: "string", Pattern: "^[A-Z]+ /"}
	set("schemaMethod", "route", route, &jsonschema.Schema{Type: "array", Items: route})
	set("schemaClass", "keep_free",
		&jsonschema.Schema{Type: "integer", Minimum: "0", Maximum: "2147483647"},
		&jsonschema.Schema{Type: "string", Pattern: "^[0-9]{1,2}%$"})

	status := &jsonschema.Schema{Type: "integer", Minimum: "200", Maximum: "599"}
	phrase := &jsonschema.Schema{Type: "string"}
	one := uint64(1)
	set("schemaRefusal", "status", status, &jsonschema.Schema{Type: "array", Items: status, MinItems: &one})
	set("schemaRefusal", "header", phrase, &jsonschema.Schema{Type: "object", MinProperties: &one, MaxProperties: &one})
	for _, key := range []string{"reason", "body"} {
		set("schemaRefusal", key, phrase, &jsonschema.Schema{Type: "array", Items: phrase, MinItems: &one})
	}
	for _, key := range []string{"until", "for", "credential"} {
		defs["schemaRefusal"].OneOf = append(defs["schemaRefusal"].OneOf, &jsonschema.Schema{Required: []string{key}})
	}

	charge, _ := defs["schemaMethod"].Properties.Get("charge")
	least, most := uint64(1), uint64(16)
	charge.MinProperties, charge.MaxProperties = &least, &most
	cost, _ := defs["schemaMethod"].Properties.Get("cost")
	limit, _ := defs["schemaKey"].Properties.Get("quota")
	costCopy, limitCopy := *cost, *limit
	bare := map[string]*jsonschema.Schema{"methods": &costCopy, "keys": &limitCopy}
	charge.AdditionalProperties.Minimum, charge.AdditionalProperties.Maximum = cost.Minimum, cost.Maximum

	null := &jsonschema.Schema{Type: "null", Description: "Takes away what the extended book has."}
	for name, def := range defs {
		if name == "schemaWindow" || name == "schemaFamilyWindow" || name == "schemaRefusal" {
			continue // lists are replaced whole: there is nothing to take away
		}
		for p := def.Properties.Oldest(); p != nil; p = p.Next() {
			v := p.Value
			if each := v.AdditionalProperties; v.Type == "object" && each != nil {
				v.AdditionalProperties = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{each, null}}
				if b := bare[p.Key]; b != nil {
					v.AdditionalProperties.AnyOf = append(v.AdditionalProperties.AnyOf, b)
				}
			}
			if name == "schemaBook" {
				continue
			}
			p.Value = &jsonschema.Schema{Description: v.Description, AnyOf: []*jsonschema.Schema{v, null}}
			if len(v.AnyOf) > 0 {
				p.Value.AnyOf = append(slices.Clone(v.AnyOf), null)
			}
			v.Description = ""
		}
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range schemaNames { // what is Go about the names stays here
		text = bytes.ReplaceAll(text, []byte(name+`"`), []byte(string(name[6]|0x20)+name[7:]+`"`))
	}
	return append(text, '\n')
}

func TestBookSchemaIsCurrent(t *testing.T) {
	made := schema(t)
	if *update {
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

// The schema and the reader know the same keys.
func TestBookSchemaHasTheKeysOfTheReader(t *testing.T) {
	defs := readSchema(t)["$defs"].(map[string]any)
	if len(schemaNames) != len(book.Keys) || len(defs) != len(schemaNames) {
		t.Errorf("%d kinds of mapping in the reader, %d in the schema", len(book.Keys), len(defs))
	}
	for what, keys := range book.Keys {
		name := schemaNames[what]
		def, ok := defs[string(name[6]|0x20)+name[7:]].(map[string]any)
		if !ok {
			t.Errorf("the schema has no %s", what)
			continue
		}
		known := slices.Sorted(maps.Keys(def["properties"].(map[string]any)))
		if want := slices.Sorted(slices.Values(keys)); !slices.Equal(known, want) {
			t.Errorf("%s: the schema knows %q, the reader %q", what, known, want)
		}
		if def["additionalProperties"] != false {
			t.Errorf("%s: the schema lets unknown keys pass", what)
		}
	}
}

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

// What the schema says of books: it passes good ones, and catches by itself the
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
	for _, name := range []string{"builtin", "builtin/youtube-2025"} {
		text, _ := headroom.Builtin(name)
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
		return fmt.Errorf("%s: %v is none of %v", at, doc, words)
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
