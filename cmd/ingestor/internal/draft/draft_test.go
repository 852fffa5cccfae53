package draft

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/record"
	"github.com/headroom-quota/headroom/quota/book"
)

var update = flag.Bool("update", false, "rewrite the golden drafts")

// TestDrafts drafts from the sources of each archive, which are named by their kind and file.
func TestDrafts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			d, want := New(), ""
			for _, f := range a.Files {
				kind, name, _ := strings.Cut(f.Name, " ")
				if f.Name == "draft.yaml" {
					want = string(f.Data)
					continue
				}
				read := map[string]func(string, []byte) error{"har": d.HAR, "log": d.Log, "openapi": d.OpenAPI, "api-commons": d.Commons}[kind]
				if err := read(name, f.Data); err != nil {
					t.Fatal(err)
				}
			}
			got, _ := d.Book()
			b, err := book.Parse("draft.yaml", []byte(got), nil)
			if err != nil {
				t.Fatalf("%v\n%s", err, got)
			}
			for name, u := range b.Upstreams {
				if u.Mode != book.Observe {
					t.Errorf("%s refuses calls", name)
				}
			}
			for _, secret := range []string{"sk-secret", "4711", "alice", "0b9e1c3a"} {
				if strings.Contains(got, secret) {
					t.Errorf("the draft has %q", secret)
				}
			}
			if *update {
				a.Files = append(a.Files[:len(a.Files):len(a.Files)], txtar.File{Name: "draft.yaml", Data: []byte(got)})
				if want != "" {
					a.Files = append(a.Files[:len(a.Files)-2], a.Files[len(a.Files)-1])
				}
				if err := os.WriteFile(file, txtar.Format(a), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the draft is another one (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsNoSource(t *testing.T) {
	for _, c := range []struct{ kind, text, want string }{
		{"har", `{"log": 5}`, "is no HAR file"},
		{"har", `<html>`, "is no HAR file"},
		{"log", "{\"a\": 1}\n", "is no recording of ingestor proxy --record"},
		{"log", "{\"host\": \"a b\", \"path\": \"/x\"}\n", "is no recording of ingestor proxy --record"},
		{"openapi", "title: x", "is no OpenAPI document"},
		{"openapi", `{"openapi": "3.0.0", "paths": {}}`, "names no server with a host"},
		{"api-commons", "a: 1", "is no list of rate limits"},
		{"api-commons", "- {name: x}", "has no rate limit"},
	} {
		d := New()
		read := map[string]func(string, []byte) error{"har": d.HAR, "log": d.Log, "openapi": d.OpenAPI, "api-commons": d.Commons}[c.kind]
		if err := read("file", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %s", c.kind, c.text, err, c.want)
		}
	}
}

func TestATornLineIsLeftOut(t *testing.T) {
	const whole = `{"at":"2026-11-28T10:00:00Z","host":"api.example.com","verb":"GET","path":"/v1/items","status":200}` + "\n"
	for _, torn := range []string{"{", whole[:50], whole[:len(whole)-1]} {
		d := New()
		if err := d.Log("calls.jsonl", []byte(whole+torn)); err != nil {
			t.Fatal(err)
		}
		text, notes := d.Book()
		if len(notes) != 1 || notes[0] != "calls.jsonl: the last line is not whole, and is left out" || !strings.Contains(text, notes[0]) || !strings.Contains(text, "; 1 calls") {
			t.Errorf("%q: notes %q, drafted:\n%s", torn, notes, text)
		}
	}
	if err := New().Log("calls.jsonl", []byte("{\n"+whole)); err == nil {
		t.Error("a torn line before others is taken")
	}
}

// Whatever answers and documents say, the draft is a book that can be read.
func TestDraftsOfNonsenseAreBooks(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7)) //nolint:gosec // no secret
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	parts := []string{"X", "Ratelimit", "Rate-Limit", "Limit", "Remaining", "Reset", "Minute", "Day", "Tokens", "Ümlaut", "a.b", "Used", "Interval-Ms", "Quota", "Resource", strings.Repeat("Long", 15)}
	values := []string{"0", "1", "9007199254740991", "99999999999999999999", "-1", "1.5", "7/9", "0/0", "9/1", "1764290000", "1764290000123", "6m0s", "2026-11-28T00:00:00Z", "never", `"a";q=1;w=37`, `"b";q=5;w=31622400`, `1;w=1`, "", "Sat, 28 Nov 2026 00:43:32 GMT", "limit=0, remaining=0"}
	for i := range 400 {
		d := New()
		var lines []byte
		at := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
		for range r.IntN(12) + 1 {
			at = at.Add(time.Duration(r.Int64N(int64(10 * time.Minute))))
			x := &record.Exchange{
				At: at, Host: pick("api.example.com", "*.example.com", "localhost:8080", "127.0.0.1:9", "example.co.uk"), Verb: pick("GET", "POST", "*"),
				Path: "/" + pick("", "v1", "v1/", "v1//x", "a b", "{id}", "{id}/{id}", "Ü/#?", "..", "x%2Fy/{id}:do"), Status: 200 + r.IntN(300), Kind: "json", Header: map[string]string{}, Body: map[string]string{},
			}
			for range r.IntN(5) {
				x.Header[http.CanonicalHeaderKey(pick(parts...)+"-"+pick(parts...)+"-"+pick(parts...))] = pick(values...)
				x.Header[pick("Ratelimit", "Ratelimit-Policy", "Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", "Retry-After", "Age", "Sforce-Limit-Info")] = pick(values...)
				x.Body[pick("usage.total_tokens", "extensions.cost.throttleStatus.maximumAvailable", "extensions.cost.throttleStatus.restoreRate", "data.rateLimit.limit", "data.rateLimit.cost", "errors.0.type")] = pick(append(values, "RATE_LIMITED", "{x: RATELIMITED}")...)
			}
			line, err := json.Marshal(x)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(append(lines, line...), '\n')
		}
		if err := d.Log("calls.jsonl", lines); err != nil {
			t.Fatal(err)
		}
		if r.IntN(2) == 0 {
			limits := fmt.Sprintf("- {name: %q, limit: %s, metric: %s, timeframe: %s, type: User}\n- {name: x, limit: 5, metric: job, timeframe: day}\n", "a\nb # c", pick("5", "0", "-3", "1.5", "1e300", "9007199254740993"), pick("request", "byte", "token", "concurrent-request", "Ü"), pick("second", "day", "year", "never"))
			if err := d.Commons("limits.yml", []byte(limits)); err != nil {
				t.Fatal(err)
			}
		}
		text, _ := d.Book()
		if _, err := book.Parse("draft.yaml", []byte(text), nil); err != nil {
			t.Fatalf("%d: %v\n%s", i, err, text)
		}
	}
}
