// Package strictyaml reads YAML that people write, such as a price book or the settings:
// one document, in which every value has a place for error messages.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Kind is what a value is, in the words of error messages.
type Kind string

const (
	Mapping Kind = "a mapping"
	List    Kind = "a list"
	Number  Kind = "a number"
	Text    Kind = "text"
	Flag    Kind = "true or false"
	Null    Kind = "null"  // written out
	Unset   Kind = "empty" // a key with nothing behind it
)

// Place is where something stands: a file, and a line and a column in characters, both from 1.
type Place struct {
	In           *File
	Line, Column int
}

func (p Place) String() string { return fmt.Sprintf("%s:%d:%d", p.In.Name, p.Line, p.Column) }

// Node is a value and its place, without comments, quotes and styles.
type Node struct {
	Kind    Kind
	At      Place
	Text    string  // of a scalar
	Entries []Entry // of a mapping, in their order
	Items   []*Node // of a list

	// Parse leaves the rest to its callers.

	Gone   map[string]Place // entries that an overlay removed, and where it did
	Flow   bool             // to be printed on one line
	One    bool             // a mapping that an overlay replaces whole
	Faulty bool             // it has a fault, or something in it
	Lost   bool             // a mapping with a key that nobody can read: its keys say too little
}

// Entry is a key of a mapping with its value.
type Entry struct {
	Key   string
	At    Place
	Value *Node
}

// Get returns the entry of a key, or nil if there is none. A nil node has none.
func (n *Node) Get(key string) *Entry {
	if n == nil {
		return nil
	}
	for i := range n.Entries {
		if n.Entries[i].Key == key {
			return &n.Entries[i]
		}
	}
	return nil
}

// Value returns the value of a key, or nil if there is none.
func (n *Node) Value(key string) *Node {
	if e := n.Get(key); e != nil {
		return e.Value
	}
	return nil
}

// Keys returns the keys of a mapping.
func (n *Node) Keys() []string {
	if n == nil {
		return nil
	}
	keys := make([]string, len(n.Entries))
	for i, e := range n.Entries {
		keys[i] = e.Key
	}
	return keys
}

// Without returns a mapping that lacks some keys; n stays as it is.
func (n *Node) Without(keys ...string) *Node {
	c := *n
	c.Entries = slices.DeleteFunc(slices.Clone(n.Entries), func(e Entry) bool { return slices.Contains(keys, e.Key) })
	return &c
}

// Add appends an entry without a place.
func (n *Node) Add(key string, value *Node) {
	n.Entries = append(n.Entries, Entry{Key: key, Value: value})
}

// File is a text to parse.
type File struct {
	Name  string // of the file, for a message that names a second place
	Noun  string // what messages call the text, as "a price book"
	Plain bool   // anchors, merge keys, tags, and texts of several lines are refused
	// Fault takes each fault that Parse finds.
	Fault func(at Place, message string)

	lines   []string
	anchors map[string]*Node
	faults  int
}

const (
	// maxText bounds a text.
	maxText = 1 << 20
	// maxDepth bounds how deep its YAML is nested.
	maxDepth = 32
	// maxOpen bounds it before the parser sees it, which takes minutes and gigabytes
	// for a text of brackets. Brackets in quotes count too, so it is far higher.
	maxOpen = 1000
)

// Place returns a place in the file.
func (f *File) Place(line, column int) Place { return Place{f, line, column} }

// Line returns the text of a line, or "".
func (f *File) Line(n int) string {
	if n < 1 || n > len(f.lines) {
		return ""
	}
	return strings.TrimSuffix(f.lines[n-1], "\r")
}

func (f *File) fault(at Place, format string, args ...any) {
	f.faults++
	f.Fault(at, fmt.Sprintf(format, args...))
}

// Parse returns the document of a text. It returns nil after a fault, and without a fault
// if the text has no document.
func (f *File) Parse(data []byte) (n *Node) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some editors begin with it
	f.lines = strings.Split(string(data), "\n")
	f.anchors = map[string]*Node{}
	if len(data) > maxText {
		f.fault(f.Place(1, 1), "%s may have at most %d bytes, this has %d", f.Noun, maxText, len(data))
		return nil
	}
	if i := badByte(data); i >= 0 {
		f.fault(f.offset(data, i), "not text: %s is UTF-8 without control characters", f.Noun)
		return nil
	}
	if i := tooDeep(data); i >= 0 {
		f.fault(f.offset(data, i), "nested deeper than %s ever is", f.Noun)
		return nil
	}
	// The YAML parser is a library. If it panics, the reader of the message should look at the
	// file, so this is a fault of the file.
	defer func() {
		if p := recover(); p != nil {
			f.fault(f.Place(1, 1), "not YAML that can be read (%v)", p)
			n = nil
		}
	}()
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey()) // we report those ourselves, with both places
	if err != nil {
		f.syntax(err)
		return nil
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			f.fault(f.at(doc.Body), "%s is one YAML document; remove what begins here", f.Noun)
			return nil
		}
		body = doc.Body
	}
	if body == nil {
		return nil
	}
	if n = f.node(body, 0); f.faults > 0 {
		return nil
	}
	return n
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

func (f *File) offset(data []byte, i int) Place {
	begin := bytes.LastIndexByte(data[:i], '\n') + 1
	return f.Place(bytes.Count(data[:i], []byte("\n"))+1, utf8.RuneCount(data[begin:i])+1)
}

// syntax says what is wrong with text that is not YAML, and what to do about it.
func (f *File) syntax(err error) {
	var e yaml.Error
	if !errors.As(err, &e) {
		f.fault(f.Place(1, 1), "not YAML: %s", oneLine(err.Error()))
		return
	}
	at := f.place(e.GetToken())
	line, message := f.Line(at.Line), oneLine(e.GetMessage())
	indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	switch tab := strings.Index(indent, "\t"); {
	case tab >= 0:
		f.fault(f.Place(at.Line, tab+1), "a tab cannot indent YAML; use spaces")
		return
	case strings.Contains(line, "/{"):
		message += "; put quotes around a route that has braces"
	case strings.Contains(message, "not allowed in this context"):
		message += "; check the indentation of this line and the next"
	case strings.Contains(message, "unexpected key name"):
		message += "; write a space after each colon"
	}
	f.fault(at, "not YAML: %s", message)
}

func oneLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// place is where a token begins, and always in the file.
func (f *File) place(tk *token.Token) Place {
	if tk == nil || tk.Position == nil {
		return f.Place(1, 1)
	}
	line := min(max(tk.Position.Line, 1), len(f.lines))
	return f.Place(line, min(max(tk.Position.Column, 1), utf8.RuneCountInString(f.Line(line))+1))
}

func (f *File) at(n ast.Node) Place {
	switch n := n.(type) {
	case *ast.MappingNode:
		// A block mapping's own token is its first colon.
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return f.at(n.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return f.at(n.Key)
	}
	return f.place(n.GetToken())
}

// node turns what the parser made into a tree of our own.
func (f *File) node(n ast.Node, depth int) *Node {
	t := &Node{Kind: Text, At: f.at(n)}
	if depth > maxDepth {
		f.fault(t.At, "nested deeper than %s ever is", f.Noun)
		return t
	}
	if f.Plain {
		switch n.(type) {
		case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
			f.fault(t.At, "%s has no anchors and aliases; write the value out", f.Noun)
			return t
		case *ast.TagNode:
			f.fault(t.At, "%s has no tags; remove %s", f.Noun, n.GetToken().Value)
			return t
		case *ast.LiteralNode:
			f.fault(t.At, "%s has no text of several lines; write it on one", f.Noun)
			return t
		}
	}
	switch n := n.(type) {
	case *ast.AnchorNode:
		to := f.node(n.Value, depth)
		f.anchors[n.Name.GetToken().Value] = to
		return to
	case *ast.AliasNode:
		if to := f.anchors[n.Value.GetToken().Value]; to != nil {
			return to
		}
		f.fault(f.place(n.Value.GetToken()), "there is no anchor of this name above")
	case *ast.TagNode: // whoever reads the value knows its type
		return f.node(n.Value, depth)
	case *ast.MappingNode:
		t.Kind = Mapping
		f.entries(t, n.Values, depth)
	case *ast.MappingValueNode:
		t.Kind = Mapping
		f.entries(t, []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		t.Kind = List
		for _, v := range n.Values {
			t.Items = append(t.Items, f.node(v, depth+1))
		}
	case *ast.StringNode:
		t.Text = n.Value
		if n.GetToken().Type == token.StringType && tooLarge(t.Text) {
			t.Kind = Number // too large for the parser; whoever reads it says so
		}
	case *ast.LiteralNode:
		t.Text = n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode:
		t.Kind, t.Text = Number, n.GetToken().Value
	case *ast.BoolNode:
		t.Kind, t.Text = Flag, strings.ToLower(n.GetToken().Value)
	case *ast.NullNode:
		t.Kind = Null
		if n.GetToken().Type == token.ImplicitNullType {
			t.Kind = Unset
		}
	default:
		f.fault(t.At, "%s has no %s", f.Noun, strings.ToLower(fmt.Sprint(n.Type())))
	}
	return t
}

// tooLarge holds for whole numbers that fit no integer.
func tooLarge(s string) bool {
	_, err := strconv.ParseInt(s, 10, 64)
	return errors.Is(err, strconv.ErrRange)
}

// entries reads the entries of a mapping. What it says itself takes precedence over what is
// merged into it.
func (f *File) entries(t *Node, values []*ast.MappingValueNode, depth int) {
	seen := make(map[string]Place, len(values))
	var merged []Entry
	for _, v := range values {
		at := f.at(v.Key)
		name, text := v.Key.(*ast.StringNode)
		_, merge := v.Key.(*ast.MergeKeyNode)
		var key string
		switch {
		case merge && f.Plain:
			f.fault(at, "%s has no merge keys; write the values out, or use extends", f.Noun)
			continue
		case merge:
			from := f.node(v.Value, depth+1)
			if from.Kind != Mapping {
				f.fault(from.At, "write names with values here, such as name: value")
			}
			merged = append(merged, from.Entries...)
			continue
		case text:
			key = name.Value
		case f.Plain:
			f.fault(at, "a key must be text; put quotes around it")
			continue
		default:
			key = v.Key.GetToken().Value
		}
		if first, dup := seen[key]; dup {
			f.fault(at, "%q is given twice, the first time at %s; keep one", key, first)
			continue
		}
		seen[key] = at
		value := &Node{Kind: Unset, At: at}
		if v.Value != nil {
			value = f.node(v.Value, depth+1)
		}
		t.Entries = append(t.Entries, Entry{key, at, value})
	}
	for _, e := range merged {
		if t.Get(e.Key) == nil {
			t.Entries = append(t.Entries, e)
		}
	}
}
