package sdk

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// load reads a book's text, which may extend a built-in one.
func load(t *testing.T, text string) *quota.Book {
	t.Helper()
	b, err := book.Parse("costs.yaml", []byte(text), &book.Options{Builtins: headroom.ReadBuiltin})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// discovered are the methods of the discovery document inside the SDK, with all
// their routes: the names are the book's.
func discovered(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-json", "google.golang.org/api").Output()
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
	for _, name := range []string{"extends: builtin", "extends: builtin/youtube-2025"} {
		b := load(t, name)
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

// The comparison above can fail.
func TestBuiltinWithoutAMethodIsNoticed(t *testing.T) {
	found := discovered(t)
	for overlay, want := range map[string]string{
		`search.list: null`: "search.list has no price",
		`search.list: {route: GET /youtube/v3/searches}`:       "search.list has routes",
		`search.lists: {pool: units, cost: 1}`:                 "search.lists is unknown to the SDK",
		`videos.insert: {route: POST /upload/youtube/v3/vids}`: "videos.insert has routes",
	} {
		b := load(t, "extends: builtin\nupstreams: {youtube: {methods: {"+overlay+"}}}")
		if got := differences(b, found); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s: differences %q, want one: %s", overlay, got, want)
		}
	}
}
