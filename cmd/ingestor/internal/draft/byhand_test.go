package draft

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/headroom-quota/headroom/quota/book"
)

// facts are what a book says of an upstream, by what each is about: limits, a key, headers, refusals. They are
// without the names that somebody chose.
func facts(u *book.Upstream) map[string]string {
	all := map[string]string{}
	windows := func(some []book.Window) {
		for _, w := range some {
			text := fmt.Sprintf("%s in %s", grouped(w.Quota), w.Spec)
			switch {
			case w.InFlight():
				text = fmt.Sprintf("%d at once", w.Quota)
			case w.Drains():
				text = "a bucket of " + grouped(w.Quota)
			case w.Calendar():
				text = fmt.Sprintf("%s in a clock %s", grouped(w.Quota), strings.Fields(w.Spec.String())[0])
			}
			all[text] = "limit"
		}
	}
	header := func(sources ...*book.Source) {
		for _, s := range sources {
			if s != nil && s.Header != "" {
				all["`"+http.CanonicalHeaderKey(s.Header)+"`"] = "header"
			}
		}
	}
	for _, p := range u.Pools {
		if p.Learned != nil {
			all["a limit that is learned"] = "limit"
			continue
		}
		windows(p.Windows)
		for _, own := range p.Keys {
			windows(own)
		}
		for _, s := range p.By {
			text, _, _ := strings.Cut(s.String(), ",")
			all["a count for each "+text] = "key"
		}
	}
	for _, f := range u.Feedback {
		header(f.Limit, f.Remaining, f.Used, f.Pool.From)
		if f.Reset != nil {
			header(&f.Reset.Source)
		}
	}
	for _, r := range u.Refusals {
		if r.Credential {
			continue
		}
		text := strings.Trim(fmt.Sprint(r.Status), "[]")
		if r.Body != nil {
			text += " with a text of its body"
		}
		for _, status := range r.Status {
			if r.Body == nil {
				text = fmt.Sprint(status)
			}
			all["refusal "+text] = "refusal"
		}
	}
	return all
}

func grouped(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

// The drafts of what the documentation of ten APIs shows stand beside books that a person wrote from its pages
// about limits. The table of what the drafts miss stands in docs/drafts.md.
func TestWhatDraftsOfDocumentsMiss(t *testing.T) {
	a, err := txtar.ParseFile("testdata/documented.txtar")
	if err != nil {
		t.Fatal(err)
	}
	drafts, err := book.Parse("draft.yaml", a.Files[1].Data, nil)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	list := func(all []string, otherwise string) string {
		slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
		return cmp.Or(strings.Join(all, ", "), otherwise)
	}
	for _, api := range []struct{ title, name, draft string }{
		{"GitHub", "github", "github"},
		{"Stripe", "stripe", "stripe"},
		{"Figma", "figma", "figma"},
		{"Okta", "okta", "okta"},
		{"Datadog", "datadog", "datadoghq"},
		{"Asana", "asana", "asana"},
		{"DocuSign", "docusign", "docusign"},
		{"DigitalOcean", "digitalocean", "digitalocean"},
		{"Ory", "ory", "oryapis"},
		{"Cortex XSOAR", "xsoar", "example"},
	} {
		file := "testdata/byhand/" + api.name + ".yaml"
		if _, err := os.Stat(file); err != nil {
			file = "../../../../quota/book/builtin/" + api.name + ".yaml"
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b, err := book.Parse(file, text, nil)
		if err != nil {
			t.Fatal(err)
		}
		hand, draft := facts(b.Upstreams[api.name]), facts(drafts.Upstreams[api.draft])
		var has, misses, other []string
		for fact := range maps.Keys(hand) {
			if draft[fact] != "" {
				has = append(has, fact)
			} else {
				misses = append(misses, fact)
			}
		}
		for fact := range maps.Keys(draft) {
			if hand[fact] == "" && draft[fact] != "refusal" { // it expects what HTTP has
				other = append(other, fact)
			}
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", api.title, list(has, "nothing"), list(misses, "nothing"), list(other, "nothing"))
	}
	docs, err := os.ReadFile("../../../../docs/drafts.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(docs), table.String()) {
		t.Errorf("docs/drafts.md has another table than this:\n%s", table.String())
	}
}

// Routes that tell limits of their own have keys, unless something else may be the reason.
func TestLimitsOfEachCall(t *testing.T) {
	calls := func(host, path, header string, n int) (text []byte) {
		for i := range n {
			text = fmt.Appendf(text, `{"at":"2026-11-28T10:00:%02dZ","host":%q,"verb":"GET","path":%q,"status":200,"header":{%s,"X-Ratelimit-Remaining":"%d","X-Ratelimit-Reset":"%d"}}`+"\n", i, host, path, header, 40-i, 60-i)
		}
		return text
	}
	for _, c := range []struct {
		name                string
		first, second       []byte
		apart               bool
		limits, keys, notes string
	}{
		{name: "of each route", first: calls("api.example.com", "/users", `"X-Ratelimit-Limit":"100"`, 5), second: calls("api.example.com", "/users/{id}", `"X-Ratelimit-Limit":"50"`, 5), keys: `"users.id.get": {windows: [{per: 1m, quota: 50, precision: 600ms}]}`},
		{name: "although a refusal tells none", first: append(calls("api.example.com", "/users", `"X-Ratelimit-Limit":"100"`, 5), calls("api.example.com", "/users", `"X-Other":"1"`, 1)...), second: calls("api.example.com", "/users/{id}", `"X-Ratelimit-Limit":"50"`, 5), keys: `"users.get": {windows: [{per: 1m, quota: 100, precision: 600ms}]}`},
		{name: "with another window", first: calls("api.example.com", "/users", `"X-Ratelimit-Limit":"100","X-Ratelimit-Period":"60"`, 5), second: calls("api.example.com", "/items", `"X-Ratelimit-Limit":"50","X-Ratelimit-Period":"3600"`, 5), keys: `"items.get": {windows: [{per: 1h, quota: 50}]}`},
		{name: "in two recordings", first: calls("api.example.com", "/users", `"X-Ratelimit-Limit":"100"`, 5), second: calls("api.example.com", "/items", `"X-Ratelimit-Limit":"50"`, 5), apart: true, notes: "contradiction: answers tell several limits"},
		{name: "beside a document", first: calls("api.example.com", "/users", `"X-Ratelimit-Limit":"100"`, 5), second: calls("api.example.com", "/items", `"X-Ratelimit-Limit":"50"`, 5), limits: "- {name: x, limit: 500, metric: request, timeframe: day}", notes: "contradiction: answers tell several limits"},
		{name: "of one route", first: calls("api.example.com", "/users", `"X-Ratelimit-Limit":"100"`, 5), second: calls("api.example.com", "/users", `"X-Ratelimit-Limit":"50"`, 5), notes: "contradiction: answers tell several limits"},
		{name: "in two headers", first: calls("api.example.com", "/users", `"X-Ratelimit-Limit-Minute":"100"`, 5), second: calls("api.example.com", "/items", `"X-Ratelimit-Limit-Hour":"50"`, 5), notes: "contradiction: answers tell several limits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := New()
			sources := [][]byte{append(c.first, c.second...)}
			if c.apart {
				sources = [][]byte{c.first, c.second}
			}
			for i, text := range sources {
				if err := d.Log(fmt.Sprintf("calls%d.jsonl", i), text); err != nil {
					t.Fatal(err)
				}
			}
			if c.limits != "" {
				if err := d.Commons("limits.yml", []byte(c.limits)); err != nil {
					t.Fatal(err)
				}
			}
			text, notes := d.Book()
			if _, err := book.Parse("draft.yaml", []byte(text), nil); err != nil {
				t.Fatal(err)
			}
			if has := strings.Contains(text, "by: {call: method}"); has != (c.keys != "") || !strings.Contains(text, c.keys) || !strings.Contains(strings.Join(notes, "\n"), c.notes) {
				t.Errorf("notes %q and\n%s", notes, text)
			}
		})
	}
}
