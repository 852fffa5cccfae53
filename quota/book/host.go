package book

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// hostPath is what a book meters of a host: all, or what is below a path.
type hostPath struct {
	prefix string // "" or "/path/"
	table  *routeTable
}

func (b *Book) addHost(text string, t *routeTable) {
	host, path := cutPlace(text)
	into := &b.hosts
	if suffix, wild := strings.CutPrefix(host, "*"); wild {
		host, into = suffix, &b.wild
	}
	if *into == nil {
		*into = map[string][]hostPath{}
	}
	all := append((*into)[host], hostPath{path, t})
	slices.SortStableFunc(all, func(a, b hostPath) int { return len(b.prefix) - len(a.prefix) })
	(*into)[host] = all
}

func cutPlace(text string) (host, path string) {
	if i := strings.IndexByte(text, '/'); i >= 0 {
		return text[:i], text[i:]
	}
	return text, ""
}

// route finds the routes of a host, and its name, which may have the port.
func (b *Book) route(host, path string) (*routeTable, string) {
	if t := pick(b.hosts[host], path); t != nil {
		return t, host
	}
	host = strings.ToLower(host) // allocates only where there is something to lower
	name, port := splitPort(host)
	port = strings.TrimLeft(port, "0") // net dials 0443 as 443
	name = plainAddress(strings.TrimSuffix(name, "."))
	if port != "" {
		if t := pick(b.hosts[name+":"+port], path); t != nil {
			return t, name
		}
	}
	if t := pick(b.hosts[name], path); t != nil {
		return t, name
	}
	if dot := strings.IndexByte(name, '.'); dot > 0 && b.wild != nil {
		if port != "" {
			if t := pick(b.wild[name[dot:]+":"+port], path); t != nil {
				return t, name
			}
		}
		return pick(b.wild[name[dot:]], path), name
	}
	return nil, name
}

// pick returns the routes for a path, of the longest path that it is below.
func pick(all []hostPath, path string) *routeTable {
	lenient := ""
	for i := range all {
		p := &all[i]
		if strings.HasPrefix(path, p.prefix) {
			return p.table
		}
		if lenient == "" {
			if lenient = path; !isPlain(path) {
				lenient = leniently(path)
			}
		}
		if n := len(p.prefix) - 1; len(lenient) >= n && strings.EqualFold(lenient[:n], p.prefix[:n]) && (len(lenient) == n || lenient[n] == '/') {
			return p.table
		}
	}
	return nil
}

// splitPort splits a port off; an IPv6 address keeps its brackets.
func splitPort(host string) (name, port string) {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.IndexByte(host[i:], ']') < 0 {
		return host[:i], host[i+1:]
	}
	return host, ""
}

// plainAddress is the one spelling of an IPv6 address in brackets, or of the IPv4
// address that it stands for. Other names it leaves as they are.
func plainAddress(name string) string {
	inner, ok := strings.CutPrefix(name, "[")
	if !ok {
		return name
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
	if err != nil {
		return name
	}
	if a = a.WithZone("").Unmap(); a.Is4() {
		return a.String()
	}
	return "[" + a.String() + "]"
}

func badPlace(text string) string {
	host, path := cutPlace(text)
	if path == "" || strings.HasPrefix(path, "//") {
		return badHost(text)
	}
	if why := badHost(host); why != "" {
		return why
	}
	if !strings.HasSuffix(path, "/") || len(path) < 2 || len(path) > 1024 {
		return "has a path that does not end with a slash, or only a slash; write what the calls are below, as in www.example.com/maps/"
	}
	for _, part := range strings.Split(path[1:len(path)-1], "/") {
		if why := badSegment(part); why != "" || strings.Contains(part, "{") {
			return cmp.Or(why, "has braces, which stand for nothing here")
		}
	}
	return ""
}

func badHost(host string) string {
	if suffix, wild := strings.CutPrefix(host, "*."); wild {
		if why := badHost(suffix); why != "" {
			return why
		}
		if name, _ := splitPort(suffix); strings.Trim(name, "0123456789.") == "" || !strings.Contains(name, ".") {
			return "would be too many hosts; write at least two labels behind the *"
		}
		return ""
	}
	name, port := splitPort(host)
	switch {
	case strings.Contains(host, "/"):
		return "must be a host alone, without scheme and path"
	case host != strings.ToLower(host):
		return "must be written in lower case"
	case name == "" || len(name) > 253:
		return "is not the name of a host"
	}
	if name != host {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
			return "has an invalid port; it must be from 1 to 65535"
		}
	}
	if inner, ok := strings.CutPrefix(name, "["); ok {
		a, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		if err != nil || !a.Is6() || a.Zone() != "" || !strings.HasSuffix(inner, "]") {
			return "is not an IPv6 address in brackets"
		}
		if plain := plainAddress(name); plain != name {
			return "must be written as " + plain
		}
		return ""
	}
	for _, label := range strings.Split(name, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "-") != label || strings.Trim(label, lower+digits+"-_") != "" {
			return "is not the name of a host; letters, digits, dots and dashes, with a port behind a colon"
		}
	}
	return ""
}
