// Package headroom meters an HTTP client: its calls never pass the limits of the APIs that it
// calls.
//
// [Client] is the first door. It takes [Limits], such as 100 calls a second to one host, or
// the price book in a [File], and keeps the count in this process. To share the count
// with other processes and machines, use Client of package quota/open. For calls that are not
// HTTP, reserve units at a ledger: see package quota.
package headroom

import (
	"cmp"
	"embed"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/internal/strictyaml"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/book/keys"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

// Client returns a client whose calls reserve their units before they are sent. The count is
// in memory and ends with the process. Calls to other hosts pass, unless the options are strict.
//
// A call that does not fit waits for as long as [meter.Options.MaxWait] allows, and is then
// refused with a [quota.RefusedError], which says when the same call succeeds. A refused call is
// not sent. An answer 429 of the host shuts it until its Retry-After, or for ten seconds.
//
// Options may be nil. Nothing needs to be closed.
func Client(p Prices, o *meter.Options) (*http.Client, error) {
	if p == nil {
		return nil, quota.BadInput("headroom.Client needs limits or a price book, as in headroom.File(\"costs.yaml\")")
	}
	b, err := p.Book()
	if err != nil {
		return nil, err
	}
	ledger, err := quota.New(b, memstore.New(nil), nil)
	if err != nil {
		return nil, err
	}
	transport, err := meter.New(ledger, o)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: transport}, nil
}

// Prices is what calls cost and what their upstreams grant: [Limits] or a [File].
type Prices interface {
	Book() (*quota.Book, error)
}

// Limits are the limits of hosts, for a client without a price book. Several limits of one host
// all hold.
type Limits []Limit

// Limit is what a host grants. Set one of Per and Day.
type Limit struct {
	// Host is a name, such as "api.example.com" or "*.example.com". A port or a path may follow,
	// as in "www.example.com/maps/".
	Host string
	// Calls is the number of calls that it grants.
	Calls int64
	// Per is the time for which it grants them: in no such stretch of time, however placed, are
	// there more.
	Per time.Duration
	// Day is the time zone of its calendar day, such as "America/Los_Angeles" or "UTC", for an
	// API that starts to count anew at midnight.
	Day string
}

// File is the path of a price book, or the name of a built-in one: see [Load].
type File string

// Book returns the price book of the file.
func (f File) Book() (*quota.Book, error) { return Load(string(f)) }

// Book returns the limits as a price book. Each host is an upstream of its name, with a pool
// "calls".
func (l Limits) Book() (*quota.Book, error) {
	if len(l) == 0 {
		return nil, quota.BadInput(`there is no limit; write one, as in {Host: "api.example.com", Calls: 100, Per: time.Second}`)
	}
	b, hosts := &keys.Book{Revision: 1, Upstreams: map[string]*keys.Upstream{}}, map[string]*keys.Upstream{}
	for i, limit := range l {
		if fault := limit.fault(); fault != "" {
			return nil, quota.BadInput("limit %d, of host %q: %s", i+1, limit.Host, fault)
		}
		u := hosts[limit.Host]
		if u == nil {
			u = &keys.Upstream{
				Hosts:   []string{limit.Host},
				Pools:   map[string]*keys.Pool{"calls": {}},
				Default: map[string]*keys.Method{"*": {Pool: "calls", Cost: keys.Units(1)}},
				Refusals: []keys.Refusal{
					{Status: []int{http.StatusTooManyRequests}, For: 10 * time.Second},
					{Status: []int{http.StatusServiceUnavailable}, Header: keys.Header{Name: "Retry-After"}, For: 10 * time.Second},
				},
			}
			hosts[limit.Host] = u
			name := upstreamName(limit.Host)
			if b.Upstreams[name] != nil { // of another host, such as one with another port
				name = fmt.Sprintf("%.50s_%d", name, i+1)
			}
			b.Upstreams[name] = u
		}
		w := keys.Window{Per: keys.Every(limit.Per), Quota: limit.Calls, Zone: limit.Day}
		if limit.Day != "" {
			w.Per = "day"
		}
		u.Pools["calls"].Windows = append(u.Pools["calls"].Windows, w)
	}
	return book.Make(b, nil)
}

// upstreamName returns the name of a host as that of an upstream, in which the price book allows
// fewer characters.
func upstreamName(host string) string {
	name := strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, host)
	return name[:min(len(name), 64)]
}

// fault says what is wrong with a limit, and what to write.
func (l Limit) fault() string {
	switch {
	case l.Host == "":
		return `it has no host; write one, as in Host: "api.example.com"`
	case l.Calls < 1:
		return "it grants no calls; write Calls: 1 or more"
	case l.Day != "" && l.Per != 0:
		return "it has both Per and Day; write two limits, which both hold"
	case l.Day == "" && l.Per <= 0:
		return `it has no time; write Per: time.Second, or Day: "UTC"`
	}
	return ""
}

var (
	//go:embed costs.yaml
	costs []byte
	//go:embed quota/book/builtin/*.yaml
	others embed.FS
)

// ReadBuiltin returns the text of a built-in price book. "builtin" has the prices of the
// YouTube Data API, "builtin/youtube-2025" its older ones, and "builtin/github" and so
// on those of other upstreams: see [ListBuiltin]. It is what [book.Options] asks for.
func ReadBuiltin(name string) ([]byte, bool) {
	if name == "builtin" {
		return costs, true
	}
	if other, ok := strings.CutPrefix(name, "builtin/"); ok {
		text, err := others.ReadFile("quota/book/builtin/" + other + ".yaml")
		return text, err == nil
	}
	return nil, false
}

// ListBuiltin returns the names of the built-in price books, sorted.
func ListBuiltin() []string {
	names := []string{"builtin"}
	files, _ := others.ReadDir("quota/book/builtin")
	for _, f := range files {
		names = append(names, "builtin/"+strings.TrimSuffix(f.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// IsBuiltin reports whether a path names a built-in price book, or would: "builtin", or
// what begins with "builtin/". For a file of such a name, write ./builtin/NAME.
func IsBuiltin(path string) bool {
	return path == "builtin" || strings.HasPrefix(path, "builtin/")
}

// Load reads the price book at path: a file, or a built-in one by its name, such as
// "builtin/github". An empty path is "builtin". A book may extend built-in ones. Faults
// are [book.Error]s and name file, line and column.
func Load(path string) (*quota.Book, error) {
	path = cmp.Or(path, "builtin")
	text, known := ReadBuiltin(path)
	switch {
	case known:
	case IsBuiltin(path):
		others := "there are " + strings.Join(ListBuiltin(), ", ")
		if best := strictyaml.Nearest(path, ListBuiltin()); best != "" {
			others = fmt.Sprintf("did you mean %q?", best)
		}
		return nil, quota.BadInput("there is no built-in price book %q; %s\nFor a file of that name, write ./%[1]s", path, others)
	default:
		var err error
		if text, err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("read price book: %w", err)
		}
	}
	return book.Parse(path, text, &book.Options{Builtins: ReadBuiltin, Names: ListBuiltin()})
}
