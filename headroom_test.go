package headroom_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota"
)

func load(t *testing.T, path string) *quota.Book {
	t.Helper()
	b, err := headroom.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// write puts a price book in a file of its own.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "costs.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// discovered are the methods of the discovery document inside the SDK, with all
// their routes: the names are the book's.
func discovered(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.Command("go", "mod", "download", "-json", "google.golang.org/api").Output()
	if err != nil {
		t.Fatalf("find the SDK: %v", err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(module.Dir, "youtube/v3/youtube-api.json"))
	if err != nil {
		t.Fatal(err)
	}
	type resource struct {
		Methods map[string]struct {
			ID, HTTPMethod, Path string
			MediaUpload          struct {
				Protocols map[string]struct{ Path string }
			}
		}
		Resources map[string]json.RawMessage
	}
	found := map[string][]string{}
	var walk func(json.RawMessage)
	walk = func(raw json.RawMessage) {
		var r resource
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		for _, m := range r.Methods {
			name := strings.TrimPrefix(strings.TrimPrefix(m.ID, "youtube."), "youtube.v3.")
			routes := []string{m.HTTPMethod + " /" + m.Path}
			for _, p := range m.MediaUpload.Protocols {
				routes = append(routes, m.HTTPMethod+" "+p.Path)
			}
			slices.Sort(routes)
			found[name] = routes
		}
		for _, sub := range r.Resources {
			walk(sub)
		}
	}
	walk(text)
	return found
}

// differences are what a book and the discovery document disagree on.
func differences(b *quota.Book, found map[string][]string) []string {
	var all []string
	methods := b.Upstreams["youtube"].Methods
	for name, routes := range found {
		m := methods[name]
		if m == nil || len(m.Charges) == 0 {
			all = append(all, name+" has no price")
			continue
		}
		var ours []string
		for _, r := range m.Routes {
			ours = append(ours, r.String())
		}
		slices.Sort(ours)
		if !slices.Equal(ours, routes) {
			all = append(all, fmt.Sprintf("%s has routes %q, want %q", name, ours, routes))
		}
	}
	for name := range methods {
		if found[name] == nil {
			all = append(all, name+" is unknown to the SDK")
		}
	}
	return all
}

func TestBuiltinPricesEveryMethodOfTheSDK(t *testing.T) {
	found := discovered(t)
	if len(found) != 83 {
		t.Errorf("the discovery document has %d methods, want 83", len(found))
	}
	for _, name := range []string{"", "extends: builtin/youtube-2025"} {
		path := name
		if name != "" {
			path = write(t, name)
		}
		b := load(t, path)
		for _, d := range differences(b, found) {
			t.Errorf("%q: %s", name, d)
		}
		for _, m := range b.Upstreams["youtube"].Methods {
			if m.Source == "" {
				t.Errorf("%q: the price of %s does not say where it comes from", name, m.Name)
			}
			for _, r := range m.Routes {
				for _, host := range []string{"youtube.googleapis.com", "youtube.mtls.googleapis.com", "www.googleapis.com"} {
					path := strings.ReplaceAll(r.Path, "{id}", "abc")
					if got := b.Match(r.Verb, host, path); got.Method != m {
						t.Errorf("%s at %s is not matched to %s", r, host, m.Name)
					}
				}
			}
		}
	}
}

// YouTube's calls on www.googleapis.com are metered, however they are written. Google's
// other APIs on it are not affected.
func TestBuiltinMetersYouTubeOnASharedHost(t *testing.T) {
	b := load(t, "")
	for path, metered := range map[string]bool{
		"/youtube/v3/videos": true, "/youtube/v4/videos": true, "/youtube": true, "/youtube/": true, "//youtube/v3/videos": true,
		"/youtube/v3/search/": true, "/YouTube/v3/search": true, "/x/../youtube/v3/search": true, "/%79outube/v3/search": true,
		"/upload/youtube/v3/videos": true, "/resumable/upload/youtube/v3/videos": true, "/batch/youtube/v3": true,
		"/drive/v3/files": false, "/upload/drive/v3/files": false, "/batch/drive/v3": false, "/youtubeAnalytics/v2/reports": false,
		"/discovery/v1/apis/youtube/v3/rest": false, "/oauth2/v3/certs": false, "/": false,
	} {
		m := b.Match("GET", "www.googleapis.com", path)
		if (m.Upstream != nil) != metered {
			t.Errorf("%s is metered: %v, want %v", path, m.Upstream != nil, metered)
		}
		if m.Method != nil && path != "/youtube/v3/videos" {
			t.Errorf("%s has the price of %s", path, m.Method.Name)
		}
	}
}

// The comparison above can fail.
func TestBuiltinWithoutAMethodIsNoticed(t *testing.T) {
	found := discovered(t)
	for overlay, want := range map[string]string{
		`search.list: null`: "search.list has no price",
		`search.list: {route: GET /youtube/v3/searches}`:       "search.list has routes",
		`search.lists: {pool: units, cost: 1}`:                 "search.lists is unknown to the SDK",
		`videos.insert: {route: POST /upload/youtube/v3/vids}`: "videos.insert has routes",
	} {
		b := load(t, write(t, "extends: builtin\nupstreams: {youtube: {methods: {"+overlay+"}}}"))
		if got := differences(b, found); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s: differences %q, want one: %s", overlay, got, want)
		}
	}
}

func TestBuiltinPrices(t *testing.T) {
	now, before := load(t, ""), load(t, write(t, "extends: builtin/youtube-2025"))
	for _, c := range []struct {
		method           string
		pool             string
		units, unitsThen int64
		outage           quota.Policy
	}{
		{"search.list", "searches", 1, 100, quota.Refuse},
		{"videos.insert", "uploads", 1, 100, quota.Refuse},
		{"videos.batchGetStats", "batch_stats", 1, 1, quota.Refuse},
		{"videos.list", "units", 1, 1, quota.Admit},
		{"captions.update", "units", 450, 450, quota.Refuse},
		{"liveChat.messages.stream", "units", 5, 5, quota.Admit},
	} {
		m, then := now.Upstreams["youtube"].Methods[c.method], before.Upstreams["youtube"].Methods[c.method]
		if got, ok := m.Charges[c.pool]; !ok || got != c.units || len(m.Charges) != 1 || m.Outage != c.outage {
			t.Errorf("%s charges %v, outage %s; want %d of %s, %s", c.method, m.Charges, m.Outage, c.units, c.pool, c.outage)
		}
		if got, ok := then.Charges["units"]; !ok || got != c.unitsThen || len(then.Charges) != 1 {
			t.Errorf("in 2025 %s charges %v, want %d of units", c.method, then.Charges, c.unitsThen)
		}
	}
	if got := len(before.Upstreams["youtube"].Pools); got != 1 {
		t.Errorf("the book of 2025 has %d pools, want 1", got)
	}
	for name, want := range map[string][]string{
		"units":       {"24h", "day America/Los_Angeles", "10m"},
		"searches":    {"24h", "day America/Los_Angeles", "10m"},
		"uploads":     {"24h", "day America/Los_Angeles"},
		"batch_stats": {"24h", "day America/Los_Angeles"},
	} {
		var got []string
		for _, w := range now.Upstreams["youtube"].Pools[name].Windows {
			got = append(got, w.Spec.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("pool %s has windows %q, want %q", name, got, want)
		}
	}
}

// Writes and whatever has a scarce pool wait while the ledger is away.
func TestBuiltinAdmitsOnlyCheapReadsInAnOutage(t *testing.T) {
	for _, m := range load(t, "").Upstreams["youtube"].Methods {
		cheap := m.Routes[0].Verb == "GET" && m.Charges["units"] >= 1 && m.Charges["units"] <= 5
		if cheap != (m.Outage == quota.Admit) {
			t.Errorf("%s %v has outage %s", m.Name, m.Charges, m.Outage)
		}
	}
}

func TestLoad(t *testing.T) {
	if _, err := headroom.Load(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	path := write(t, "extends: builtin\nupstreams: {youtube: {methods: {search.lst: 1}}}")
	want := path + `:2:33: method "search.lst" is not in the route table; did you mean "search.list"?`
	if _, err := headroom.Load(path); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
	if _, ok := headroom.Builtin("builtin/"); ok {
		t.Error("there is a built-in book without a name")
	}
}

func ExampleLoad() {
	b, err := headroom.Load("") // the built-in price book
	if err != nil {
		fmt.Println(err)
		return
	}
	m := b.Match("GET", "youtube.googleapis.com", "/youtube/v3/search")
	fmt.Println(m.Upstream.Name, m.Method.Name, m.Method.Charges)
	// Output: youtube search.list map[searches:1]
}

// TestEveryBuiltinBook loads each built-in book. It must say where its prices were read,
// and on which day. Together they make one book.
func TestEveryBuiltinBook(t *testing.T) {
	var current []string
	for _, name := range headroom.Builtins() {
		b := load(t, name)
		for _, u := range b.Upstreams {
			if !strings.HasPrefix(u.Source, "https://") || u.Verified.IsZero() {
				t.Errorf("%s: %s was read in %q on %s", name, u.Name, u.Source, u.Verified)
			}
		}
		if name != "builtin/youtube-2025" {
			current = append(current, name)
		}
	}
	if all := load(t, write(t, "extends: ["+strings.Join(current, ", ")+"]")); len(all.Upstreams) != len(current) {
		t.Errorf("together the books %v have %d upstreams, want one of each", current, len(all.Upstreams))
	}
}

// TestBuiltinNames tells a name from a path.
func TestBuiltinNames(t *testing.T) {
	if _, err := headroom.Load("builtin/../builtin/github"); !errors.Is(err, quota.ErrBadInput) || !strings.Contains(err.Error(), "builtin/github") {
		t.Errorf("a name that is none gave %v", err)
	}
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("builtin", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("builtin/github", []byte("revision: 1\nupstreams: {mine: {pools: {units: {quota: 10, windows: [{per: 1h}]}}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if load(t, "builtin/github").Upstreams["github"] == nil {
		t.Error("the name of a built-in book read a file")
	}
	if load(t, "./builtin/github").Upstreams["mine"] == nil {
		t.Error("a path to a file of the same name read the built-in book")
	}
}
