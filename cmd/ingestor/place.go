package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/headroom-quota/headroom/ingest"
)

// strict refuses what is no YAML, unknown keys, and values of another kind, each with
// its place.
func (s *settings) strict() error {
	if bad := s.badTimes(); bad != nil {
		return bad
	}
	err := yaml.UnmarshalWithOptions(s.text, s.probe, yaml.Strict())
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

// wanted says what a value must be.
func wanted(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "a length of time with its unit is wanted here, as 90s or 6h"
	case t.Kind() == reflect.Int || t.Kind() == reflect.Int64:
		return "a whole number is wanted here"
	case t.Kind() == reflect.Bool:
		return "true or false is wanted here"
	}
	return "this is of the wrong kind"
}

// badTimes finds the first length of time in the file that is none: the decoder
// does not say where it stands.
func (s *settings) badTimes() error {
	file, err := parser.ParseBytes(s.text, 0)
	if err != nil {
		return nil
	}
	var bad error
	for _, doc := range file.Docs {
		ast.Walk(visit(func(n ast.Node) {
			v, ok := n.(*ast.MappingValueNode)
			if !ok || bad != nil || !slices.Contains(timeKeys, v.Key.String()) || v.Value == nil {
				return
			}
			text, ok := v.Value.(*ast.StringNode)
			if !ok {
				bad = s.at(v.Value.GetToken().Position, errors.New(wanted(reflect.TypeFor[time.Duration]())))
			} else if _, err := time.ParseDuration(text.Value); err != nil {
				bad = s.at(text.GetToken().Position, fmt.Errorf("%q is no length of time; write it with its unit, as 90s or 6h", text.Value))
			}
		}), doc.Body)
	}
	return bad
}

// visit is a function as an [ast.Visitor].
type visit func(ast.Node)

// Visit implements [ast.Visitor].
func (f visit) Visit(n ast.Node) ast.Visitor {
	f(n)
	return f
}

// timeKeys are the settings that are lengths of time.
var timeKeys = func() (keys []string) {
	for _, t := range []reflect.Type{reflect.TypeFor[ingest.Config](), reflect.TypeFor[ingest.Job]()} {
		for f := range t.Fields() {
			if f.Type == reflect.TypeFor[time.Duration]() {
				keys = append(keys, yamlName(f))
			}
		}
	}
	return keys
}()

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
		line := strings.TrimRight(lines[p.Line-1], "\r")
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
	var entries []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		entries = n.Values
	case *ast.MappingValueNode:
		entries = []*ast.MappingValueNode{n}
	}
	for _, e := range entries {
		if strings.EqualFold(e.Key.GetToken().Value, key) {
			return e
		}
	}
	return nil
}
