package main

import (
	"errors"
	"fmt"
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
)

// strict refuses what is no YAML, unknown keys, and values of another kind, each with
// its place.
func (s *settings) strict() error {
	if bad := s.badText(); bad != nil {
		return bad
	}
	if blank(string(s.text)) {
		return fmt.Errorf("%s:1:1: empty: a configuration has settings\n"+
			"To use the defaults, delete the file; to write an example: ingestor init --force", s.file)
	}
	file, err := parser.ParseBytes(s.text, 0)
	if err == nil {
		if bad := s.badValues(file); bad != nil {
			return bad
		}
		err = yaml.UnmarshalWithOptions(s.text, s.probe, yaml.Strict())
	}
	if err == nil {
		return nil
	}
	var syntax yaml.Error
	if !errors.As(err, &syntax) || syntax.GetToken() == nil {
		return fmt.Errorf("%s: %w", s.file, err)
	}
	message := syntax.GetMessage()
	var kind *yaml.TypeError
	var unknown *yaml.UnknownFieldError
	switch {
	case errors.As(err, &kind):
		message = wanted(kind.DstType)
	case errors.As(err, &unknown):
		message += "; `ingestor config schema` has those that there are"
	}
	return s.at(syntax.GetToken().Position, errors.New(message))
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

// badText refuses bytes that are no text.
func (s *settings) badText() error {
	if utf8.Valid(s.text) {
		return nil
	}
	for i, line := range strings.Split(string(s.text), "\n") {
		if !utf8.ValidString(line) {
			return fmt.Errorf("%s:%d: this is no text in UTF-8; save the file as such", s.file, i+1)
		}
	}
	return nil
}

// wanted says what a value must be.
func wanted(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "a length of time with its unit is wanted here, as 90s or 6h"
	case t.Kind() == reflect.Int || t.Kind() == reflect.Int64:
		return "a whole number is wanted here"
	case t.Kind() == reflect.Bool:
		return "true or false is wanted here"
	case t.Kind() == reflect.Slice:
		return "a list is wanted here, as [US, DE]"
	case t.Kind() == reflect.String:
		return "a text is wanted here"
	case t.Kind() == reflect.Map, t.Kind() == reflect.Struct:
		return "names with values are wanted here, as name: value"
	}
	return "this is of the wrong kind"
}

// badValues finds the first value that the decoder would take for another, or of
// which it would not say where it stands: lengths of time, halves where whole numbers
// are wanted, a second document, jobs without any.
func (s *settings) badValues(file *ast.File) error {
	if len(file.Docs) > 1 {
		return s.at(file.Docs[1].Start.Position, errors.New("a second document begins here, and nobody would read it; write one"))
	}
	for _, doc := range file.Docs {
		if jobs := child(doc.Body, "jobs"); jobs != nil && jobs.Value.Type() == ast.NullType {
			return s.at(jobs.Key.GetToken().Position, errors.New("there is no job; `ingestor init` writes some, and without this line there are built-in ones"))
		}
		if err := s.badValue(doc.Body, "", reflect.TypeFor[settings]()); err != nil {
			return err
		}
	}
	return nil
}

// badValue looks at a value, and at what is in it.
func (s *settings) badValue(n ast.Node, key string, t reflect.Type) error {
	if anchor, is := n.(*ast.AnchorNode); is {
		n = anchor.Value
	}
	switch {
	case n == nil || n.Type() == ast.NullType || n.Type() == ast.AliasType: // it was looked at where it stands
		return nil
	case t == reflect.TypeFor[time.Duration]():
		text, is := n.(*ast.StringNode)
		if !is {
			return s.at(n.GetToken().Position, errors.New(wanted(t)))
		}
		d, err := time.ParseDuration(text.Value)
		if err != nil {
			return s.at(n.GetToken().Position, noTime(text.Value))
		}
		return s.zero(n, key, d == 0)
	case t.Kind() == reflect.Int || t.Kind() == reflect.Int64:
		number, is := n.(*ast.IntegerNode)
		if !is {
			return s.at(n.GetToken().Position, errors.New(wanted(t)))
		}
		return s.zero(n, key, number.Value == uint64(0))
	case t.Kind() == reflect.String:
		if _, is := n.(ast.ScalarNode); !is {
			return s.at(n.GetToken().Position, errors.New(wanted(t)))
		}
	case t.Kind() == reflect.Slice:
		list, is := n.(*ast.SequenceNode)
		if !is {
			return s.at(n.GetToken().Position, errors.New(wanted(t)))
		}
		for _, one := range list.Values {
			if err := s.badValue(one, key, t.Elem()); err != nil {
				return err
			}
		}
	case t.Kind() == reflect.Map, t.Kind() == reflect.Struct:
		if entries(n) == nil && n.Type() != ast.MappingType {
			return s.at(n.GetToken().Position, errors.New(wanted(t)))
		}
		for _, entry := range entries(n) {
			if err := s.badValue(entry.Value, entry.Key.String(), inside(t, entry.Key.String())); err != nil {
				return err
			}
		}
	}
	return nil
}

// inside is the type of what stands under a key; of a key that is not known it is
// one that is not looked into.
func inside(t reflect.Type, key string) reflect.Type {
	if t.Kind() == reflect.Map {
		return t.Elem()
	}
	for _, f := range reflect.VisibleFields(t) {
		if f.IsExported() && !f.Anonymous && yamlName(f) == key {
			return f.Type
		}
	}
	return reflect.TypeFor[any]()
}

func noTime(text string) error {
	return fmt.Errorf("%q is no length of time; write it with its unit, as 90s or 6h", text)
}

// notZero are settings of which nothing is no sense; what is left out has a default.
var notZero = []string{"workers", "call_timeout", "pages", "max_lateness", "max_age"}

var errZero = errors.New("0 makes no sense here; leave it out for the default")

func (s *settings) zero(n ast.Node, key string, is bool) error {
	if is && slices.Contains(notZero, key) {
		return s.at(n.GetToken().Position, fmt.Errorf("%s: %w", key, errZero))
	}
	return nil
}

// yamlName is what a field is called in the file.
func yamlName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return name
}

// at is a fault at a place of the file, with the line and a caret.
func (s *settings) at(p *token.Position, err error) error {
	lines := strings.Split(string(s.text), "\n")
	quote := ""
	if p.Line >= 1 && p.Line <= len(lines) {
		line := strings.Map(func(r rune) rune {
			if unicode.IsControl(r) && r != '\t' { // a terminal would obey it
				return '\ufffd'
			}
			return r
		}, strings.TrimRight(lines[p.Line-1], "\r"))
		quote = "\n    " + line + "\n    " + strings.Repeat(" ", max(p.Column-1, 0)) + "^"
	}
	return fmt.Errorf("%s:%d:%d: %w%s", s.file, p.Line, p.Column, err, quote)
}

// place says where a fault stands: in the file, a flag or the environment.
func (s *settings) place(f ingest.Fault) error {
	path := strings.Split(f.Path, ".")
	if path[0] != "jobs" && path[0] != "accounts" {
		switch from := s.source(path[0]); {
		case from == fromDefault:
			return f
		case from != fromFile:
			return fmt.Errorf("%s: %w", from, f.Err)
		}
	}
	if s.file == "" {
		return f
	}
	if p := s.where(path); p != nil {
		return s.at(p, f)
	}
	return fmt.Errorf("%s: %w", s.file, f)
}

// where finds a setting in the file, or else what it belongs to.
func (s *settings) where(path []string) *token.Position {
	file, err := parser.ParseBytes(s.text, 0)
	if err != nil || len(file.Docs) == 0 {
		return nil
	}
	var found *token.Position
	node := file.Docs[0].Body
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

// child is the entry of a mapping, whatever the case of its key.
func child(n ast.Node, key string) *ast.MappingValueNode {
	for _, e := range entries(n) {
		if strings.EqualFold(e.Key.GetToken().Value, key) {
			return e
		}
	}
	return nil
}

// entries are those of a mapping.
func entries(n ast.Node) []*ast.MappingValueNode {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}
