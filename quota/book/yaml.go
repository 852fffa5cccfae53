package book

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	// maxBook bounds the text of a price book.
	maxBook = 1 << 20
	// maxDepth bounds how deep its YAML is nested.
	maxDepth = 32
	// maxOpen bounds it before the parser sees it, which takes minutes and gigabytes
	// for a book of brackets. Brackets in quotes count too, so it is far higher.
	maxOpen = 1000
)

// parse reads the text of a book, or returns nil and has collected why not.
func (r *reader) parse(data []byte) (t *tree) {
	top := place{r.top, 1, 1}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if len(data) > maxBook {
		r.fault(top, "a price book may have at most %d bytes, this has %d", maxBook, len(data))
		return nil
	}
	if i := badByte(data); i >= 0 {
		r.fault(r.offset(data, i), "not text: a price book is UTF-8 without control characters")
		return nil
	}
	if i := tooDeep(data); i >= 0 {
		r.fault(r.offset(data, i), "nested deeper than a price book ever is")
		return nil
	}
	// The YAML parser is a library. If it panics, the reader of the message should look at the
	// file, so this is a fault of the file.
	defer func() {
		if p := recover(); p != nil {
			r.fault(top, "not YAML that can be read (%v)", p)
			t = nil
		}
	}()
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey()) // we report those ourselves, with both places
	if err != nil {
		r.yamlFault(err)
		return nil
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			r.fault(r.at(doc.Body), "a price book is one YAML document; remove what begins here")
			return nil
		}
		body = doc.Body
	}
	if body == nil {
		r.fault(top, "empty: a price book begins with revision: 1 or extends: builtin")
		return nil
	}
	before := len(r.faults)
	if t = r.tree(body, 0); t.kind != isMapping {
		r.fault(t.at, "a price book is a mapping of revision, extends, upstreams and families, this is %s", t.kind)
	}
	if len(r.faults) > before {
		return nil
	}
	return t
}

// badByte returns the offset of the first byte that is no text, or -1.
func badByte(data []byte) int {
	for i := 0; i < len(data); {
		c, n := utf8.DecodeRune(data[i:])
		if c == utf8.RuneError && n == 1 || c < ' ' && !strings.ContainsRune("\t\n\r", c) || c == 0x7f {
			return i
		}
		i += n
	}
	return -1
}

// tooDeep returns the offset of the first byte that opens more than there is to
// open, brackets or lists in lists on one line, or -1.
func tooDeep(data []byte) int {
	brackets, dashes := 0, 0
	for i, c := range data {
		switch c {
		case '[', '{':
			brackets++
		case ']', '}':
			brackets = max(brackets-1, 0)
		case '-':
			dashes++
		case ' ':
		default:
			dashes = 0
		}
		if brackets > maxOpen || dashes > maxOpen {
			return i
		}
	}
	return -1
}

// offset is the place of a byte.
func (r *reader) offset(data []byte, i int) place {
	begin := bytes.LastIndexByte(data[:i], '\n') + 1
	return place{r.top, bytes.Count(data[:i], []byte("\n")) + 1, utf8.RuneCount(data[begin:i]) + 1}
}

// yamlFault says what is wrong with text that is not YAML.
func (r *reader) yamlFault(err error) {
	at := place{r.top, 1, 1}
	var e yaml.Error
	if !errors.As(err, &e) {
		r.fault(at, "not YAML: %s", oneLine(err.Error()))
		return
	}
	if tk := e.GetToken(); tk != nil && tk.Position != nil {
		at = r.clamp(tk.Position.Line, tk.Position.Column)
	}
	text := r.top.lines[at.line-1]
	if lead := indent(text); strings.Contains(lead, "\t") {
		at.col = strings.Index(lead, "\t") + 1
	}
	why := NotYAML(text, e.GetMessage())
	if why != tabbed {
		why = "not YAML: " + why
	}
	r.fault(at, "%s", why)
}

const tabbed = "a tab cannot indent YAML; use spaces"

// NotYAML says why a line is not YAML, from the message of the parser, and what to do about it.
func NotYAML(line, message string) string {
	remedy := ""
	switch {
	case strings.Contains(indent(line), "\t"):
		return tabbed
	case strings.Contains(line, "/{"):
		remedy = "; put quotes around a route that has braces"
	case strings.Contains(message, "not allowed in this context"):
		remedy = "; check the indentation of this line and the next"
	case strings.Contains(message, "unexpected key name"):
		remedy = "; write a space after each colon"
	}
	return oneLine(message) + remedy
}

// indent is the white space at the beginning of a line.
func indent(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }

func oneLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// clamp makes a place that is in the file of what the parser says.
func (r *reader) clamp(line, col int) place {
	line = min(max(line, 1), len(r.top.lines))
	col = min(max(col, 1), utf8.RuneCountInString(r.top.lines[line-1])+1)
	return place{r.top, line, col}
}

// at is where a node begins.
func (r *reader) at(n ast.Node) place {
	switch n := n.(type) {
	case *ast.MappingNode:
		// A block mapping's own token is its first colon.
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return r.at(n.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return r.at(n.Key)
	}
	tk := n.GetToken()
	if tk == nil || tk.Position == nil {
		return place{r.top, 1, 1}
	}
	return r.clamp(tk.Position.Line, tk.Position.Column)
}

// tree turns what the parser made into a tree of our own.
func (r *reader) tree(n ast.Node, depth int) *tree {
	t := &tree{kind: isText, at: r.at(n)}
	if depth > maxDepth {
		r.fault(t.at, "nested deeper than a price book ever is")
		return t
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		t.kind = isMapping
		r.entries(t, n.Values, depth)
	case *ast.MappingValueNode:
		t.kind = isMapping
		r.entries(t, []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		t.kind = isList
		for _, v := range n.Values {
			t.items = append(t.items, r.tree(v, depth+1))
		}
	case *ast.StringNode:
		t.text = n.Value
		if n.GetToken().Type == token.StringType && tooLarge(t.text) {
			t.kind = isNumber // too large for the parser; whoever reads it says so
		}
	case *ast.IntegerNode:
		t.kind, t.text = isNumber, n.GetToken().Value
	case *ast.FloatNode:
		t.kind, t.text = isNumber, n.GetToken().Value
	case *ast.BoolNode:
		t.kind, t.text = isFlag, fmt.Sprint(n.Value)
	case *ast.NullNode:
		t.kind = isNull
		if n.GetToken().Type == token.ImplicitNullType {
			t.kind = isUnset
		}
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		r.fault(t.at, "a price book has no anchors and aliases; write the value out")
	case *ast.TagNode:
		r.fault(t.at, "a price book has no tags; remove %s", n.GetToken().Value)
	case *ast.LiteralNode:
		r.fault(t.at, "a price book has no text of several lines; write it on one")
	default:
		r.fault(t.at, "a price book has no %s", strings.ToLower(fmt.Sprint(n.Type())))
	}
	return t
}

// tooLarge holds for whole numbers that fit no integer.
func tooLarge(s string) bool {
	_, err := strconv.ParseInt(s, 10, 64)
	return errors.Is(err, strconv.ErrRange)
}

func (r *reader) entries(t *tree, values []*ast.MappingValueNode, depth int) {
	seen := make(map[string]place, len(values))
	for _, v := range values {
		at := r.at(v.Key)
		key, ok := v.Key.(*ast.StringNode)
		if !ok {
			if _, merge := v.Key.(*ast.MergeKeyNode); merge {
				r.fault(at, "a price book has no merge keys; write the values out, or use extends")
			} else {
				r.fault(at, "a key must be text; put quotes around it")
			}
			continue
		}
		if first, dup := seen[key.Value]; dup {
			r.fault(at, "%q is given twice, the first time at %s; keep one", key.Value, first)
			continue
		}
		seen[key.Value] = at
		value := &tree{kind: isUnset, at: at}
		if v.Value != nil {
			value = r.tree(v.Value, depth+1)
		}
		t.entries = append(t.entries, entry{key.Value, at, value})
	}
}
