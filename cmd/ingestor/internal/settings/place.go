package settings

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/quota/book"
)

// parse parses the text of the file and reads its values. It refuses invalid YAML,
// unknown keys, and values of another type, each with its place.
func (s *Settings) parse() error {
	if bad := s.badText(); bad != nil {
		return bad
	}
	if blank(string(s.Text)) {
		return s.empty()
	}
	var err error
	if s.tree, err = parser.ParseBytes(s.Text, 0); err != nil {
		var syntax yaml.Error
		if errors.As(err, &syntax) && syntax.GetToken() != nil {
			line := ""
			if lines := strings.Split(string(s.Text), "\n"); syntax.GetToken().Position.Line <= len(lines) {
				line = lines[max(syntax.GetToken().Position.Line-1, 0)]
			}
			return s.fault(syntax.GetToken(), book.NotYAML(line, syntax.GetMessage()))
		}
		return fmt.Errorf("%s: %w", s.File, err)
	}
	if len(s.tree.Docs) > 1 {
		return s.fault(s.tree.Docs[1].Start, "a second document begins here; write only one")
	}
	body := s.tree.Docs[0].Body
	if jobs := child(body, "jobs"); jobs != nil && jobs.Value.Type() == ast.NullType {
		return s.fault(jobs.Key.GetToken(), "there is no job; without this line, the built-in jobs run")
	}
	r := reader{Settings: s, anchors: map[string]ast.Node{}}
	said, err := r.read(body, "", reflect.StructField{Type: reflect.TypeFor[Settings]()})
	s.Said, _ = said.(map[string]any)
	if err == nil && said == nil {
		return s.empty()
	}
	return err
}

func (s *Settings) empty() error {
	return fmt.Errorf("%s:1:1: empty: a configuration has settings\n"+
		"To use the defaults, delete the file; to write an example: ingestor init --force", s.File)
}

// blank reports whether a text in YAML has nothing but comments.
func blank(text string) bool {
	for line := range strings.Lines(text) {
		if line, _, _ = strings.Cut(line, "#"); strings.Trim(line, " \t\r\n-") != "" {
			return false
		}
	}
	return true
}

// badText returns an error if the file is not text.
func (s *Settings) badText() error {
	if utf8.Valid(s.Text) {
		return nil
	}
	for i, line := range strings.Split(string(s.Text), "\n") {
		if !utf8.ValidString(line) {
			return fmt.Errorf("%s:%d: this line is not UTF-8 text; save the file as UTF-8", s.File, i+1)
		}
	}
	return nil
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

// reader reads the values of a file, each as the type of the field that it is for.
type reader struct {
	*Settings
	anchors map[string]ast.Node
}

// read returns the value of a node, for viper: a map, a list, a text, a number, a duration,
// or nil for a key without a value. Field says what is wanted.
func (r *reader) read(n ast.Node, key string, field reflect.StructField) (any, error) {
	switch n := n.(type) {
	case *ast.AnchorNode:
		value, err := r.read(n.Value, key, field)
		r.anchors[n.Name.GetToken().Value] = n.Value
		return value, err
	case *ast.AliasNode:
		to := r.anchors[n.Value.GetToken().Value]
		if to == nil {
			return nil, r.fault(n.Value.GetToken(), "there is no anchor of this name above")
		}
		return r.read(to, key, field)
	case *ast.TagNode: // the field says the type
		return r.read(n.Value, key, field)
	case nil, *ast.NullNode:
		return nil, nil
	}
	switch t := field.Type; t.Kind() {
	case reflect.Map, reflect.Struct:
		return r.mapping(n, t)
	case reflect.Slice:
		list, is := n.(*ast.SequenceNode)
		if !is {
			break
		}
		all := []any{}
		for _, one := range list.Values {
			value, err := r.read(one, key, reflect.StructField{Type: t.Elem()})
			if err != nil {
				return nil, err
			}
			all = append(all, value)
		}
		return all, nil
	default:
		if scalar, is := n.(ast.ScalarNode); is {
			value, err := scan(scalar, t)
			if err == nil && refusesZero(field) && reflect.ValueOf(value).IsZero() {
				err = fmt.Errorf("%s: %w", key, errZero)
			}
			return value, r.at(n.GetToken().Position, err)
		}
	}
	return nil, r.fault(n.GetToken(), wanted(field.Type))
}

// scan returns the value of a scalar. A text stays as it is written, also 007 and true.
func scan(n ast.ScalarNode, t reflect.Type) (any, error) {
	text, fits := n.GetToken().Value, t.Kind() == reflect.String
	switch n := n.(type) {
	case *ast.LiteralNode:
		text = n.Value.Value
	case *ast.StringNode:
		fits = fits || t == reflect.TypeFor[time.Duration]()
	case *ast.BoolNode:
		fits = fits || t.Kind() == reflect.Bool
	case *ast.IntegerNode:
		if t.Kind() == reflect.Int || t.Kind() == reflect.Int64 && t != reflect.TypeFor[time.Duration]() {
			text, fits = fmt.Sprint(n.Value), true
		}
	}
	if !fits {
		return nil, errors.New(wanted(t))
	}
	return FromText(nil, t, text)
}

// mapping returns the values of a mapping, for a struct or for a map of structs.
func (r *reader) mapping(n ast.Node, t reflect.Type) (any, error) {
	if entries(n) == nil && n.Type() != ast.MappingType {
		return nil, r.fault(n.GetToken(), wanted(t))
	}
	all, merged := map[string]any{}, map[string]any{}
	for _, e := range entries(n) {
		key := e.Key.GetToken().Value
		if _, is := e.Key.(*ast.MergeKeyNode); is {
			value, err := r.read(e.Value, key, reflect.StructField{Type: t})
			if err != nil {
				return nil, err
			}
			more, is := value.(map[string]any)
			if !is {
				return nil, r.fault(e.Value.GetToken(), wanted(t))
			}
			maps.Copy(merged, more)
			continue
		}
		field, known := fieldOf(t, key)
		if !known {
			return nil, r.fault(e.Key.GetToken(), unknownField(t, key))
		}
		value, err := r.read(e.Value, key, field)
		if err != nil {
			return nil, err
		}
		if more, is := value.(map[string]any); value == nil || is && len(more) == 0 {
			if t.Kind() == reflect.Map { // viper would leave it out
				return nil, r.fault(e.Key.GetToken(), wanted(field.Type))
			}
		}
		if value != nil {
			all[key] = value
		}
	}
	maps.Copy(merged, all)
	return merged, nil
}

// unknownField says that a struct has no field of this name, and which one was probably meant.
func unknownField(t reflect.Type, key string) string {
	var known []string
	for _, f := range reflect.VisibleFields(t) {
		if f.IsExported() && !f.Anonymous && yamlName(f) != "-" {
			known = append(known, yamlName(f))
		}
	}
	meant := ""
	if best := book.Nearest(key, known); best != "" {
		meant = fmt.Sprintf("; did you mean %q?", best)
	}
	return fmt.Sprintf("unknown field %q%s\nTo list the fields: ingestor config schema", key, meant)
}

// fieldOf returns the field of a key.
func fieldOf(t reflect.Type, key string) (reflect.StructField, bool) {
	if t.Kind() == reflect.Map {
		return reflect.StructField{Type: t.Elem()}, true
	}
	for _, f := range reflect.VisibleFields(t) {
		if f.IsExported() && !f.Anonymous && yamlName(f) == key && key != "-" {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

var errZero = errors.New("0 makes no sense here; leave it out for the default")

// fault returns an error at the place of a token.
func (s *Settings) fault(t *token.Token, message string) error {
	return s.at(t.Position, errors.New(message))
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
func (s *Settings) at(p *token.Position, err error) error {
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
	if p := s.where(path); p != nil {
		return s.at(p, f)
	}
	return fmt.Errorf("%s: %w", s.File, f)
}

// where returns the place of a setting in the file, or else the place of what contains it.
func (s *Settings) where(path []string) *token.Position {
	var found *token.Position
	node := s.tree.Docs[0].Body
	for _, key := range path {
		next := child(node, key)
		if next == nil {
			break
		}
		found, node = next.Key.GetToken().Position, next.Value
		if _, scalar := node.(ast.ScalarNode); scalar && node.GetToken() != nil {
			found = node.GetToken().Position
		}
	}
	return found
}

// child returns the entry of a mapping, or nil.
func child(n ast.Node, key string) *ast.MappingValueNode {
	for _, e := range entries(n) {
		if e.Key.GetToken().Value == key {
			return e
		}
	}
	return nil
}

// entries returns the entries of a mapping.
func entries(n ast.Node) []*ast.MappingValueNode {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}
