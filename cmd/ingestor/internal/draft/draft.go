// Package draft makes a first price book of what is there already: calls that were recorded, and
// documents that machines read. Each line of the book says where it comes from.
package draft

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/record"
	"github.com/headroom-quota/headroom/internal/pattern"
)

// Draft collects what sources say.
type Draft struct {
	Folder string // of the next source, whose references may lead to other files in it

	upstreams map[string]*upstream // by host
	homeless  []limit              // of documents that name no host
	notes     []string             // what a person must know, beside the book
}

// New returns an empty draft.
func New() *Draft { return &Draft{upstreams: map[string]*upstream{}} }

// upstream is what is known of the API of a host.
type upstream struct {
	host     string
	from     []string // sources
	key      APIKey
	calls    []*call // that were recorded
	routes   map[string]*route
	limits   []limit // that documents say
	refusals map[int]string
	notes    []string
}

// APIKey is where a key stands, and who says so.
type APIKey struct{ header, query, from string }

// route is a verb and a path, as the price book writes it.
type route struct {
	verb, path string
	name       string // "": made of the path
	from       []string
	seen       int
}

// call is a recorded call, and where it was recorded.
type call struct {
	*record.Exchange
	from  string
	at    time.Time // by the upstream's clock
	route *route
}

// Limit is a limit that a source says.
type limit struct {
	pool   string
	window window
	from   string
}

func (d *Draft) note(format string, args ...any) {
	d.notes = append(d.notes, fmt.Sprintf(format, args...))
}

// plainHost returns a host as a price book has it, or "" if it can have none.
func plainHost(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ":443")
	if !hostForm().MatchString(host) {
		return ""
	}
	return host
}

// of returns the upstream of a host, which may be new.
func (d *Draft) of(host, from string) *upstream {
	u := d.upstreams[host]
	if u == nil {
		u = &upstream{host: host, routes: map[string]*route{}, refusals: map[int]string{}}
		d.upstreams[host] = u
	}
	if !slices.Contains(u.from, from) {
		u.from = append(u.from, from)
	}
	return u
}

// Host adds an upstream of which only the host is known.
func (d *Draft) Host(host string) error {
	if host = plainHost(host); host == "" {
		return errors.New("is no host, as in api.example.com")
	}
	d.of(host, "--host")
	return nil
}

// Log reads what ingestor proxy --record wrote.
func (d *Draft) Log(from string, text []byte) error {
	for line := range bytes.Lines(text) {
		if line[len(line)-1] != '\n' {
			d.note("%s: the last line is not whole, and is left out", from)
			break
		}
		x := &record.Exchange{}
		if err := json.Unmarshal(line, x); err != nil || plainHost(x.Host) != x.Host || !strings.HasPrefix(x.Path, "/") {
			return errors.New("is no recording of ingestor proxy --record: a line is no call")
		}
		d.add(from, x)
	}
	return nil
}

// har is what is read of a HAR file.
type har struct {
	Log struct {
		Entries []struct {
			Started time.Time `json:"startedDateTime"`
			Took    float64   `json:"time"` // ms
			Request struct {
				Method, URL string
				Headers     []nameValue
			}
			Response struct {
				Status  int
				Headers []nameValue
				Content struct{ Text, Encoding string }
			}
		}
	}
}

type nameValue struct{ Name, Value string }

// HAR reads what a browser or a proxy recorded.
func (d *Draft) HAR(from string, text []byte) error {
	var h har
	if err := json.Unmarshal(text, &h); err != nil || h.Log.Entries == nil {
		return errors.New("is no HAR file: it has no log.entries")
	}
	skipped := map[string]int{}
	for i := range h.Log.Entries {
		e := &h.Log.Entries[i]
		u, err := url.Parse(e.Request.URL)
		if err != nil || plainHost(u.Host) == "" || e.Response.Status < 200 {
			continue // what was not answered
		}
		u.Host = plainHost(u.Host)
		body := []byte(e.Response.Content.Text)
		if plain, err := base64.StdEncoding.DecodeString(e.Response.Content.Text); err == nil && e.Response.Content.Encoding == "base64" {
			body = plain
		}
		answer := headers(e.Response.Headers)
		answer.Del("Content-Encoding") // it was decoded
		x := record.Take(e.Started.Add(time.Duration(e.Took*float64(time.Millisecond))), u.Host, e.Request.Method, u, headers(e.Request.Headers), e.Response.Status, answer, body)
		if x.Kind == "" && len(pointsOf(x)) == 0 && x.Status != http.StatusTooManyRequests {
			skipped[u.Host]++
			continue
		}
		d.add(from, x)
		for name := range u.Query() {
			if k := &d.upstreams[u.Host].key; keyParams[strings.ToLower(name)] && *k == (APIKey{}) {
				*k = APIKey{query: name, from: from + ": a call has this parameter"}
			}
		}
	}
	for _, host := range slices.Sorted(maps.Keys(skipped)) {
		d.note("%s: %d answers of %s are left out: they are no JSON, and tell no limits", from, skipped[host], host)
	}
	return nil
}

var keyParams = map[string]bool{"key": true, "api_key": true, "apikey": true, "api-key": true, "access_token": true, "token": true, "appid": true}

func headers(all []nameValue) http.Header {
	h := http.Header{}
	for _, v := range all {
		if !strings.HasPrefix(v.Name, ":") {
			h.Add(v.Name, v.Value)
		}
	}
	return h
}

func (d *Draft) add(from string, x *record.Exchange) {
	u := d.of(x.Host, from)
	c := &call{Exchange: x, from: from, at: x.At}
	if date, err := http.ParseTime(x.Header["Date"]); err == nil && date.Sub(x.At).Abs() > 2*time.Second {
		c.at = date
	}
	u.calls = append(u.calls, c)
	if x.Key != "" && u.key.header == "" {
		u.key.header, u.key.from = x.Key, from+": calls have this header"
	}
}

// sortRoutes finds the route of each call: one of a document, or its own path, with a
// parameter where many words stand.
func (u *upstream) sortRoutes() {
	slices.SortStableFunc(u.calls, func(a, b *call) int { return a.at.Compare(b.at) })
	words := map[string]map[string]bool{} // by what stands before them
	for _, c := range u.calls {
		before := ""
		for part := range strings.SplitSeq(strings.Trim(c.Path, "/"), "/") {
			if !record.Common(part) {
				if words[before] == nil {
					words[before] = map[string]bool{}
				}
				words[before][part] = true
			}
			before += "/" + part
		}
	}
	const many = 3
	for _, c := range u.calls {
		before, path := "", ""
		for part := range strings.SplitSeq(strings.Trim(c.Path, "/"), "/") {
			shown := part
			if words[before][part] && len(words[before]) >= many {
				shown = record.Parameter
			}
			before += "/" + part
			path += "/" + shown
		}
		c.route = u.find(c.Verb, path, c.from)
		c.route.seen++
	}
}

// find returns the route of a recorded path, which may be new. One of a document may have a
// parameter where the path has a word.
func (u *upstream) find(verb, path, from string) *route {
	parts := strings.Split(path, "/")
	for _, key := range slices.Sorted(maps.Keys(u.routes)) {
		r := u.routes[key]
		of := strings.Split(r.path, "/")
		same := r.verb == verb && len(of) == len(parts)
		for i := range of {
			same = same && (of[i] == parts[i] || strings.HasPrefix(of[i], "{") && parts[i] != "")
		}
		if same {
			path = r.path
			break
		}
	}
	return u.route(verb, path, from)
}

var (
	parameter = pattern.Of(`^\{[^{}]*\}(:[A-Za-z]+)?$`)
	literal   = pattern.Of(`^[A-Za-z0-9._~!$&'()*+,;=:@-]+$`)
	hostForm  = pattern.Of(`^(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?$`)
)

// route returns a route, which may be new. Parameters are called {id}, {id2} and so on.
func (u *upstream) route(verb, path, from string) *route {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	n := 0
	for i, part := range parts {
		m := parameter().FindStringSubmatch(part)
		if m == nil && (part == "" && len(parts) == 1 || literal().MatchString(part) && part != "." && part != "..") {
			continue
		}
		if parts[i] = record.Parameter; n > 0 {
			parts[i] = fmt.Sprintf("{id%d}", n+1)
		}
		if n++; m != nil {
			parts[i] += m[1]
		}
	}
	path = "/" + strings.Join(parts, "/")
	r := u.routes[verb+" "+path]
	if r == nil {
		r = &route{verb: verb, path: path}
		u.routes[verb+" "+path] = r
	}
	if !slices.Contains(r.from, from) {
		r.from = append(r.from, from)
	}
	return r
}

// nameOf returns a name for the upstream of a host: example for api.example.com.
func nameOf(host string) string {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	if labels := strings.Split(strings.TrimPrefix(name, "*."), "."); len(labels) > 1 && net.ParseIP(name) == nil {
		name = labels[len(labels)-2]
		if len(labels) > 2 && len(name) <= 3 { // as in example.co.uk
			name = cmp.Or(strings.Trim(labels[len(labels)-3], "*"), name)
		}
		return name
	}
	return "api"
}
