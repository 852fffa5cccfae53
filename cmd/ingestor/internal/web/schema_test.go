package web_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// document is an OpenAPI document, of which [document.check] knows as much of JSON Schema
// as it uses. A keyword that it does not know is a fault, and so is a property of
// an answer that is not described.
type document map[string]any

// at follows a path of keys.
func (d document) at(keys ...string) map[string]any {
	v := map[string]any(d)
	for _, k := range keys {
		v, _ = v[k].(map[string]any)
	}
	return v
}

// resolved follows a reference, if it is one.
func (d document) resolved(v map[string]any) map[string]any {
	to, ok := v["$ref"].(string)
	if !ok {
		return v
	}
	found := d.at(strings.Split(strings.TrimPrefix(to, "#/"), "/")...)
	if found == nil {
		panic("there is no " + to)
	}
	return found
}

// check returns what is wrong with a value.
func (d document) check(schema map[string]any, value any, at string) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, at+": "+fmt.Sprintf(format, args...)) }
	schema = d.resolved(schema)
	if rule := schema["type"]; rule != nil && !slices.Contains(list(rule), typeOf(value)) && (typeOf(value) != "integer" || !slices.Contains(list(rule), "number")) {
		fault("%v is no %v", value, rule)
		return faults
	}
	for _, keyword := range slices.Sorted(maps.Keys(schema)) {
		rule := schema[keyword]
		switch keyword {
		case "description", "required", "type":
		case "anyOf", "oneOf":
			matching := 0
			var why []string
			for _, one := range rule.([]any) {
				not := d.check(one.(map[string]any), value, at)
				if why = append(why, not...); not == nil {
					matching++
				}
			}
			if matching == 0 || matching > 1 && keyword == "oneOf" {
				fault("%d of %s: %v", matching, keyword, why)
			}
		case "const":
			if value != rule {
				fault("%v is not %v", value, rule)
			}
		case "enum":
			if !slices.ContainsFunc(rule.([]any), func(v any) bool { return reflect.DeepEqual(v, value) }) {
				fault("%v is not one of %v", value, rule)
			}
		case "minimum":
			if value.(float64) < rule.(float64) {
				fault("%v is below %v", value, rule)
			}
		case "maximum":
			if value.(float64) > rule.(float64) {
				fault("%v is above %v", value, rule)
			}
		case "minLength":
			if len(value.(string)) < int(rule.(float64)) {
				fault("%q is too short", value)
			}
		case "maxLength":
			if len(value.(string)) > int(rule.(float64)) {
				fault("%q is too long", value)
			}
		case "pattern":
			if text, ok := value.(string); ok && !regexp.MustCompile(rule.(string)).MatchString(text) {
				fault("%q is not as %v", text, rule)
			}
		case "format":
			if text, ok := value.(string); ok && !formatted(text, rule.(string)) {
				fault("%q is no %v", text, rule)
			}
		case "items":
			for i, item := range value.([]any) {
				faults = append(faults, d.check(rule.(map[string]any), item, fmt.Sprintf("%s[%d]", at, i))...)
			}
		case "properties":
			faults = append(faults, d.properties(schema, value.(map[string]any), at)...)
		case "additionalProperties":
			for name, v := range value.(map[string]any) {
				faults = append(faults, d.check(rule.(map[string]any), v, at+"."+name)...)
			}
		default:
			fault("the test does not know the keyword %s", keyword)
		}
	}
	return faults
}

func (d document) properties(schema, value map[string]any, at string) (faults []string) {
	known := schema["properties"].(map[string]any)
	for _, name := range list(schema["required"]) {
		if _, there := value[name]; !there {
			faults = append(faults, at+": "+name+" is missing")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(value)) {
		if known[name] == nil {
			faults = append(faults, at+": "+name+" is not described")
			continue
		}
		faults = append(faults, d.check(known[name].(map[string]any), value[name], at+"."+name)...)
	}
	return faults
}

// list is a string, or a list of them.
func list(v any) (all []string) {
	if text, ok := v.(string); ok {
		return []string{text}
	}
	items, _ := v.([]any)
	for _, item := range items {
		all = append(all, item.(string))
	}
	return all
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64:
		if v == math.Trunc(v) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

func formatted(text, format string) bool {
	switch format {
	case "date-time":
		at, err := time.Parse(time.RFC3339Nano, text)
		return err == nil && at.Year() > 1
	case "uri":
		u, err := url.Parse(text)
		return err == nil && u.IsAbs()
	}
	return false
}

// parsed is a body of JSON.
func (r *rig) parsed(body string) (v any) {
	r.Helper()
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		r.Fatalf("%v: %s", err, body)
	}
	return v
}
