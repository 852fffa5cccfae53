package draft

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/pb33f/go-yaml"
	"github.com/pb33f/libopenapi"
	"github.com/pb33f/libopenapi/datamodel"
	"github.com/pb33f/libopenapi/datamodel/high/base"
	"github.com/pb33f/libopenapi/orderedmap"
)

// described is what a description of an API says, in any version.
type described struct {
	servers []string
	schemes map[string]scheme
	limits  map[string]node // extensions, by where they stand
	calls   []describedCall
}

type scheme struct{ kind, where, name string }

type describedCall struct {
	verb, path, name string
	slow             bool     // it documents 429
	headers          []string // of that answer
	limits           node
}

// OpenAPI reads a description of an API: version 2.0, 3.0 or 3.1. Without a server in it, the
// API is at the only host that is known so far. Its references may lead to other files.
func (d *Draft) OpenAPI(from string, text []byte) error {
	var fields node
	if err := decode(text, &fields); err != nil {
		return fmt.Errorf("is neither JSON nor YAML: %w", err)
	}
	if fields["openapi"] == nil && fields["swagger"] == nil {
		return errors.New("is no OpenAPI document: it has neither openapi nor swagger")
	}
	doc, err := libopenapi.NewDocumentWithConfiguration(text, &datamodel.DocumentConfiguration{
		AllowFileReferences: true, BasePath: d.Folder, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	says, err := describe(doc)
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		if says == nil {
			return fmt.Errorf("cannot be read: %s", first)
		}
		if len(says.calls) == 0 { // the library has no path if one of them cannot be read
			says.calls = writtenOut(fields.get("paths"))
		}
		d.note("%s: a part of it cannot be read: %s", from, first)
	}
	host, below := says.server()
	if host = plainHost(host); host == "" && len(d.upstreams) == 1 {
		for host = range d.upstreams {
		}
	}
	if host == "" {
		return errors.New("names no server with a host\nName it with --host")
	}
	u := d.of(host, from)
	for _, name := range slices.Sorted(maps.Keys(says.schemes)) {
		s := says.schemes[name]
		k := APIKey{from: from + ": the security scheme " + name}
		switch {
		case s.kind == "apiKey" && s.where == "header":
			k.header = s.name
		case s.kind == "apiKey" && s.where == "query":
			k.query = s.name
		case slices.Contains([]string{"http", "oauth2", "basic", "openIdConnect"}, s.kind):
			k.header = "Authorization"
		}
		if u.key.header == "" && (k.header != "" || u.key.query == "" && k.query != "") {
			k.query = cmp.Or(k.query, u.key.query)
			u.key = k
		} else if k.header != "" && k.header != u.key.header {
			u.noteOnce(fmt.Sprintf("%s has its key in the header %s; the draft has %s", k.from, k.header, u.key.header))
		}
	}
	for _, where := range slices.Sorted(maps.Keys(says.limits)) {
		u.extensions(says.limits[where], from, where)
	}
	slices.SortStableFunc(says.calls, func(a, b describedCall) int { return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.verb, b.verb)) })
	for _, c := range says.calls {
		path, _, _ := strings.Cut(c.path, "?")
		r := u.route(c.verb, strings.TrimSuffix(below, "/")+path, from)
		r.name = cmp.Or(r.name, c.name)
		u.extensions(c.limits, from, c.verb+" "+path)
		if c.slow {
			u.refusals[429] = from + ": " + c.verb + " " + path + " documents 429"
			u.documented(c.headers, from)
		}
	}
	return nil
}

// server returns the host and the base path of the first server.
func (d *described) server() (host, below string) {
	for _, s := range d.servers {
		if u, err := url.Parse(s); err == nil && (u.Host != "" || host == "") {
			if host, below = u.Host, u.Path; host != "" {
				break
			}
		}
	}
	return host, below
}

// describe reads a document; nil if nothing can be read. With an error, a part of it is missing.
func describe(doc libopenapi.Document) (*described, error) {
	d := &described{schemes: map[string]scheme{}, limits: map[string]node{}}
	if strings.HasPrefix(doc.GetVersion(), "2") {
		model, err := doc.BuildV2Model()
		if model == nil {
			return nil, err
		}
		m := &model.Model
		d.general(m.Info, m.Extensions)
		d.servers = []string{"//" + m.Host + m.BasePath}
		if m.SecurityDefinitions != nil {
			for name, s := range all(m.SecurityDefinitions.Definitions) {
				d.schemes[name] = scheme{s.Type, s.In, s.Name}
			}
		}
		if m.Paths == nil {
			return d, err
		}
		for path, item := range all(m.Paths.PathItems) {
			d.limits[path] = ours(item.Extensions)
			for verb, op := range all(item.GetOperations()) {
				c := describedCall{verb: strings.ToUpper(verb), path: path, name: op.OperationId, limits: ours(op.Extensions)}
				if op.Responses != nil {
					for code, answer := range all(op.Responses.Codes) {
						c.answers(code, names(answer.Headers))
					}
				}
				d.calls = append(d.calls, c)
			}
		}
		return d, err
	}
	model, err := doc.BuildV3Model()
	if model == nil {
		return nil, err
	}
	m := &model.Model
	d.general(m.Info, m.Extensions)
	for _, s := range m.Servers {
		text := s.URL
		for name, v := range all(s.Variables) {
			text = strings.ReplaceAll(text, "{"+name+"}", v.Default)
		}
		d.servers = append(d.servers, text)
	}
	if m.Components != nil {
		for name, s := range all(m.Components.SecuritySchemes) {
			d.schemes[name] = scheme{s.Type, s.In, s.Name}
		}
	}
	if m.Paths == nil {
		return d, err
	}
	for path, item := range all(m.Paths.PathItems) {
		d.limits[path] = ours(item.Extensions)
		for verb, op := range all(item.GetOperations()) {
			c := describedCall{verb: strings.ToUpper(verb), path: path, name: op.OperationId, limits: ours(op.Extensions)}
			if op.Responses != nil {
				for code, answer := range all(op.Responses.Codes) {
					c.answers(code, names(answer.Headers))
				}
			}
			d.calls = append(d.calls, c)
		}
	}
	return d, err
}

// writtenOut are the calls of paths as they stand there, without those to which a reference leads.
func writtenOut(paths node) (calls []describedCall) {
	for _, path := range paths.keys() {
		for verb := range paths.get(path) {
			if op := paths.get(path).get(verb); slices.Contains([]string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}, verb) {
				c := describedCall{verb: strings.ToUpper(verb), path: path, name: op.text("operationId"), limits: op}
				for code := range op.get("responses") {
					c.answers(code, op.get("responses").get(code).get("headers").keys())
				}
				calls = append(calls, c)
			}
		}
	}
	return calls
}

// answers notes a documented answer.
func (c *describedCall) answers(code string, headers []string) {
	if code == "429" {
		c.slow, c.headers = true, headers
	}
}

func (d *described) general(info *base.Info, limits *extended) {
	d.limits["the document"] = ours(limits)
	if info != nil {
		d.limits["info"] = ours(info.Extensions)
	}
}

type extended = orderedmap.Map[string, *yaml.Node]

// ours are extensions as plain values.
func ours(of *extended) node {
	values := node{}
	for name, n := range all(of) {
		var v any
		if n.Decode(&v) == nil {
			values[name] = v
		}
	}
	return values
}

// all goes through a map that may be nil.
func all[V any](m *orderedmap.Map[string, V]) iter.Seq2[string, V] {
	if m == nil {
		return func(func(string, V) bool) {}
	}
	return m.FromOldest()
}

func names[V any](m *orderedmap.Map[string, V]) []string {
	found := []string{}
	for name := range all(m) {
		found = append(found, name)
	}
	slices.Sort(found)
	return found
}
