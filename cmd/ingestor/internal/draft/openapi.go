package draft

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// described is a description of an API, which may be in several files.
type described struct {
	files map[string]node // by their paths
	lost  error           // of the first reference that cannot be followed
}

// part is a part of a description, and the file that it is in.
type part struct {
	node
	file string
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
	whole := part{fields, filepath.Join(d.Folder, from)}
	says := &described{files: map[string]node{whole.file: fields}}
	host, below := says.server(whole)
	if host = plainHost(host); host == "" && len(d.upstreams) == 1 {
		for host = range d.upstreams {
		}
	}
	if host == "" {
		return errors.New("names no server with a host\nName it with --host")
	}
	u := d.of(host, from)
	for _, schemes := range []part{says.get(says.get(whole, "components"), "securitySchemes"), says.get(whole, "securityDefinitions")} {
		for _, name := range schemes.keys() {
			u.secured(says.get(schemes, name).node, from+": the security scheme "+name)
		}
	}
	paths := says.get(whole, "paths")
	for _, path := range paths.keys() {
		u.extensions(says.get(paths, path).node, from, path)
	}
	u.extensions(fields.get("info"), from, "info")
	u.extensions(fields, from, "the document")
	for _, path := range paths.keys() {
		item := says.get(paths, path)
		path, _, _ := strings.Cut(path, "?")
		for _, name := range item.keys() {
			if !slices.Contains([]string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}, name) {
				continue
			}
			verb, op := strings.ToUpper(name), says.get(item, name)
			r := u.route(verb, strings.TrimSuffix(below, "/")+path, from)
			r.name = cmp.Or(r.name, op.text("operationId"))
			u.extensions(op.node, from, verb+" "+path)
			if slow := says.get(says.get(op, "responses"), "429"); slow.node != nil {
				u.refusals[429] = from + ": " + verb + " " + path + " documents 429"
				u.documented(says.get(slow, "headers").keys(), from)
			}
		}
	}
	if says.lost != nil {
		d.note("%s: a part of it cannot be read: %s", from, says.lost)
	}
	return nil
}

// secured notes where a security scheme has the key.
func (u *upstream) secured(scheme node, from string) {
	k := APIKey{from: from}
	switch kind, where := scheme.text("type"), scheme.text("in"); {
	case kind == "apiKey" && where == "header":
		k.header = scheme.text("name")
	case kind == "apiKey" && where == "query":
		k.query = scheme.text("name")
	case slices.Contains([]string{"http", "oauth2", "basic", "openIdConnect"}, kind):
		k.header = "Authorization"
	}
	if u.key.header == "" && (k.header != "" || u.key.query == "" && k.query != "") {
		k.query = cmp.Or(k.query, u.key.query)
		u.key = k
	} else if k.header != "" && k.header != u.key.header {
		u.noteOnce(fmt.Sprintf("%s has its key in the header %s; the draft has %s", k.from, k.header, u.key.header))
	}
}

// server returns the host and the base path of the first server.
func (d *described) server(whole part) (host, below string) {
	if whole.node["swagger"] != nil {
		return whole.text("host"), whole.text("basePath")
	}
	for _, s := range whole.list("servers") {
		text, variables := s.text("url"), s.get("variables")
		for _, name := range variables.keys() {
			text = strings.ReplaceAll(text, "{"+name+"}", variables.get(name).text("default"))
		}
		if u, err := url.Parse(text); err == nil && (u.Host != "" || host == "") {
			if host, below = u.Host, u.Path; host != "" {
				break
			}
		}
	}
	return host, below
}

// get returns the value of a key, or the value to which its reference leads.
func (d *described) get(in part, key string) part {
	at, err := part{in.get(key), in.file}, error(nil)
	for range 16 {
		ref := at.text("$ref")
		if ref == "" {
			return at
		}
		if at, err = d.follow(at.file, ref); err != nil {
			break
		}
	}
	if d.lost == nil {
		d.lost = cmp.Or(err, errors.New("it has a circular reference"))
	}
	return part{}
}

// follow returns where a reference in a file leads.
func (d *described) follow(file, ref string) (part, error) {
	name, pointer, _ := strings.Cut(ref, "#")
	if strings.Contains(name, "://") {
		return part{}, fmt.Errorf("reference %q leads to a server, which is not asked", ref)
	}
	if name != "" {
		file = filepath.Join(filepath.Dir(file), filepath.FromSlash(name))
	}
	at, known := d.files[file]
	if !known {
		info, err := os.Stat(file)
		if err != nil {
			return part{}, err
		}
		if !info.Mode().IsRegular() {
			return part{}, fmt.Errorf("%s is no file", name)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return part{}, err
		}
		if err := decode(text, &at); err != nil {
			return part{}, fmt.Errorf("%s is neither JSON nor YAML: %w", name, err)
		}
		d.files[file] = at
	}
	if plain, err := url.PathUnescape(pointer); err == nil {
		pointer = plain
	}
	for key := range strings.FieldsFuncSeq(pointer, func(c rune) bool { return c == '/' }) {
		at = at.get(strings.NewReplacer("~1", "/", "~0", "~").Replace(key))
	}
	if at == nil {
		return part{}, fmt.Errorf("reference %q leads nowhere", ref)
	}
	return part{at, file}, nil
}
