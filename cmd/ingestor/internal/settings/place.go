package settings

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/internal/strictyaml"
)

// parse parses the text of the file and reads its values. It refuses invalid YAML,
// unknown keys, and values of another type, each with its place.
func (s *Settings) parse() error {
	var faults []error
	file := strictyaml.File{Name: filepath.Base(s.File), Noun: "a configuration", Fault: func(at strictyaml.Place, message string) {
		faults = append(faults, s.fault(at, message))
	}}
	s.tree = file.Parse(s.Text)
	switch {
	case faults != nil:
		return errors.Join(faults...)
	case unset(s.tree):
		return fmt.Errorf("%s:1:1: empty: a configuration has settings\n"+
			"To use the defaults, delete the file; to write an example: ingestor init --force", s.File)
	}
	if jobs := s.tree.Get("jobs"); jobs != nil && unset(jobs.Value) {
		return s.fault(jobs.At, "there is no job; without this line, the built-in jobs run")
	}
	return s.take(s.tree, "", reflect.StructField{Type: reflect.TypeFor[Settings]()}, reflect.ValueOf(s).Elem())
}

// Says reports whether the file has a value at a path of keys.
func (s *Settings) Says(path ...string) bool {
	node := s.tree
	for _, key := range path {
		node = node.Value(key)
	}
	return !unset(node)
}

// unset reports whether there is no value.
func unset(n *strictyaml.Node) bool {
	return n == nil || n.Kind == strictyaml.Null || n.Kind == strictyaml.Unset
}

// wanted says what a value of this type looks like.
func wanted(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "write a duration with its unit here, such as 90s or 6h"
	case t.Kind() == reflect.Int || t.Kind() == reflect.Int64:
		return "write a whole number here"
	case t.Kind() == reflect.Bool:
		return "write true or false here"
	case t.Kind() == reflect.Slice:
		return "write a list here, such as [US, DE]"
	case t.Kind() == reflect.String:
		return "write a text here"
	case t.Kind() == reflect.Map, t.Kind() == reflect.Struct:
		return "write names with values here, such as name: value"
	}
	return "this is of the wrong kind"
}

// take sets a value to that of a node. A key without a value changes nothing. Field says what is
// wanted.
func (s *Settings) take(n *strictyaml.Node, key string, field reflect.StructField, to reflect.Value) error {
	if unset(n) {
		return nil
	}
	switch t := field.Type; {
	case t.Kind() == reflect.Map || t.Kind() == reflect.Struct:
		if n.Kind == strictyaml.Mapping {
			return s.takeMapping(n, to)
		}
	case t.Kind() == reflect.Slice:
		if n.Kind == strictyaml.List {
			to.Set(reflect.MakeSlice(t, len(n.Items), len(n.Items)))
			for i, item := range n.Items {
				if err := s.take(item, key, reflect.StructField{Type: t.Elem()}, to.Index(i)); err != nil {
					return err
				}
			}
			return nil
		}
	case n.Kind != strictyaml.Mapping && n.Kind != strictyaml.List:
		value, err := scan(n, t)
		if err == nil {
			if to.Set(reflect.ValueOf(value).Convert(t)); refusesZero(field) && to.IsZero() {
				err = fmt.Errorf("%s: %w", key, errZero)
			}
		}
		return s.at(n.At, err)
	}
	return s.fault(n.At, wanted(field.Type))
}

// scan returns the value of a scalar. A text stays as it is written, also 007 and true.
func scan(n *strictyaml.Node, t reflect.Type) (any, error) {
	duration := t == reflect.TypeFor[time.Duration]()
	switch {
	case t.Kind() == reflect.String,
		n.Kind == strictyaml.Text && duration,
		n.Kind == strictyaml.Flag && t.Kind() == reflect.Bool:
		return FromText(t, n.Text)
	case n.Kind == strictyaml.Number && (t.Kind() == reflect.Int || t.Kind() == reflect.Int64 && !duration):
		if whole, err := strconv.ParseInt(n.Text, 0, 64); err == nil { // YAML has 0x10, too
			return whole, nil
		}
	}
	return nil, errors.New(wanted(t))
}

// takeMapping takes the values of a mapping into a struct, or into a map of structs, whose entries
// may not be empty.
func (s *Settings) takeMapping(n *strictyaml.Node, to reflect.Value) error {
	t := to.Type()
	if t.Kind() == reflect.Map {
		to.Set(reflect.MakeMap(t))
	}
	for _, e := range n.Entries {
		if t.Kind() == reflect.Struct {
			field, known := fieldOf(t, e.Key)
			if field.Name == "" {
				return s.fault(e.At, unknownField(e.Key, known))
			}
			if err := s.take(e.Value, e.Key, field, to.FieldByIndex(field.Index)); err != nil {
				return err
			}
			continue
		}
		if unset(e.Value) || e.Value.Kind == strictyaml.Mapping && len(e.Value.Entries) == 0 {
			return s.fault(e.At, wanted(t.Elem()))
		}
		one := reflect.New(t.Elem()).Elem()
		if err := s.take(e.Value, e.Key, reflect.StructField{Type: t.Elem()}, one); err != nil {
			return err
		}
		to.SetMapIndex(reflect.ValueOf(e.Key), one)
	}
	return nil
}

// unknownField says that there is no field of this name, and which one was probably meant.
func unknownField(key string, known []string) string {
	meant := ""
	if best := strictyaml.Nearest(key, known); best != "" {
		meant = fmt.Sprintf("; did you mean %q?", best)
	}
	return fmt.Sprintf("unknown field %q%s\nTo list the fields: ingestor config schema", key, meant)
}

// fieldOf returns the field of a struct with a name in YAML. If there is none, it returns the names of all.
func fieldOf(t reflect.Type, key string) (field reflect.StructField, known []string) {
	for _, f := range reflect.VisibleFields(t) {
		if name := yamlName(f); f.IsExported() && !f.Anonymous && name != "-" {
			if name == key {
				return f, nil
			}
			known = append(known, name)
		}
	}
	return field, known
}

var errZero = errors.New("0 makes no sense here; leave it out for the default")

// fault returns an error at a place of the file.
func (s *Settings) fault(at strictyaml.Place, message string) error {
	return s.at(at, errors.New(message))
}

// secretLine reports whether the last of some lines may hold a secret: it is of notify or ping, whose
// addresses often do.
func secretLine(lines []string) bool {
	for _, line := range slices.Backward(lines) {
		key, _, is := strings.Cut(line, ":")
		if is && line[0] != ' ' && line[0] != '\t' && line[0] != '#' && line[0] != '-' {
			key = strings.Trim(key, "{ \"'")
			return key == "notify" || key == "ping"
		}
	}
	return false
}

// at adds a place of the file to an error, with the line and a caret. Of nil it returns nil.
func (s *Settings) at(p strictyaml.Place, err error) error {
	if err == nil {
		return nil
	}
	lines := strings.Split(string(s.Text), "\n")
	quote := ""
	if p.Line >= 1 && p.Line <= len(lines) && !secretLine(lines[:p.Line]) {
		line := strings.Map(func(r rune) rune {
			if unicode.IsControl(r) && r != '\t' { // a terminal would interpret it
				return '\ufffd'
			}
			return r
		}, strings.TrimRight(lines[p.Line-1], "\r"))
		quote = "\n    " + line + "\n    " + strings.Repeat(" ", max(p.Column-1, 0)) + "^"
	}
	message, remedy, has := strings.Cut(err.Error(), "\n")
	if has {
		remedy = "\n" + remedy
	}
	return fmt.Errorf("%s:%d:%d: %s%s%s", s.File, p.Line, p.Column, message, quote, remedy)
}

// place adds to a fault where it comes from: a place of the file, a flag or a variable.
func (s *Settings) place(f ingest.Fault) error {
	path := strings.Split(f.Path, ".")
	if path[0] != "jobs" && path[0] != "accounts" && path[0] != "tokens" && path[0] != "keys" {
		switch from := s.Source(path[0]); {
		case from == FromDefault:
			return f
		case from != FromFile:
			return fmt.Errorf("%s: %w", from, f.Err)
		}
	}
	if s.tree == nil {
		return f
	}
	var found *strictyaml.Place // of the setting, or else of what contains it
	node := s.tree
	for _, key := range path {
		next := node.Get(key)
		if next == nil {
			break
		}
		found, node = &next.At, next.Value
		if node.Kind != strictyaml.Mapping && node.Kind != strictyaml.List {
			found = &node.At
		}
	}
	if found == nil {
		return fmt.Errorf("%s: %w", s.File, f)
	}
	return s.at(*found, f)
}
