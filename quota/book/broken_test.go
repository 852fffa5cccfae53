package book_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/headroom-quota/headroom/quota/book"
)

// costs has archives of broken books, by topic. Each book, NAME.yaml, is named after
// its fault, and NAME.error behind it is the error that it gives.
const costs = "../../testdata/costs"

// builtins are the built-in books that the broken ones extend, by file name.
var builtins = archive(costs + "/builtin.txtar")

// archive returns the files of an archive by name.
func archive(path string) map[string][]byte {
	files := map[string][]byte{}
	a, err := txtar.ParseFile(path)
	if err != nil {
		panic(err)
	}
	for _, f := range a.Files {
		files[f.Name] = f.Data
	}
	return files
}

func small(name string) ([]byte, bool) {
	text, ok := builtins[strings.TrimPrefix(name, "builtin/")+".yaml"]
	return text, ok
}

// brokenBooks returns the text of every broken book, by name.
func brokenBooks(t testing.TB) map[string][]byte {
	t.Helper()
	books := map[string][]byte{}
	for _, path := range brokenArchives(t) {
		for name, text := range archive(path) {
			if name, is := strings.CutSuffix(name, ".yaml"); is {
				books[name] = text
			}
		}
	}
	return books
}

func brokenArchives(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob(costs + "/*.txtar")
	if err != nil || len(paths) < 2 {
		t.Fatalf("%d archives of broken books: %v", len(paths), err)
	}
	var broken []string
	for _, path := range paths {
		if filepath.Base(path) != "builtin.txtar" {
			broken = append(broken, path)
		}
	}
	return broken
}

// Every broken book is refused with the message behind it, which names the file that
// the fault stands in.
func TestBrokenBooks(t *testing.T) {
	for _, path := range brokenArchives(t) {
		a, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(a.Files)%2 != 0 {
			t.Fatalf("%s: %d files are no pairs of NAME.yaml and NAME.error", path, len(a.Files))
		}
		for i := 0; i < len(a.Files); i += 2 {
			name, is := strings.CutSuffix(a.Files[i].Name, ".yaml")
			if !is || a.Files[i+1].Name != name+".error" {
				t.Fatalf("%s: %s and %s are no pair of NAME.yaml and NAME.error", path, a.Files[i].Name, a.Files[i+1].Name)
			}
			t.Run(name, func(t *testing.T) {
				got := refused(t, a.Files[i].Data)
				if diff := cmp.Diff(string(a.Files[i+1].Data), got); diff != "" && !*book.Update {
					t.Errorf("message (-want +got):\n%s", diff)
				}
				a.Files[i+1].Data = []byte(got)
			})
		}
		if *book.Update {
			if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// refused returns the error of a broken book.
func refused(t *testing.T, text []byte) string {
	t.Helper()
	b, err := book.Parse("costs.yaml", text, &book.Options{Builtins: small})
	if err == nil || b != nil {
		t.Fatalf("accepted:\n%s", text)
	}
	var fault *book.Error
	if !errors.Is(err, book.ErrBadInput) || !errors.As(err, &fault) {
		t.Errorf("%v is no ErrBadInput or no book.Error", err)
	} else if fault.Line < 1 || fault.Column < 1 || fault.File == "" || fault.Message == "" {
		t.Errorf("%+v lacks its place", fault)
	}
	return err.Error() + "\n"
}

// These have bytes that would make an archive of them a binary file.
func TestBooksThatAreNotText(t *testing.T) {
	for text, want := range map[string]string{
		"revision: 1\nupstreams: {a\x00: {}}\n": "costs.yaml:2:14: not text: a price book is UTF-8 without control characters\n" +
			"    2 | upstreams: {a\x00: {}}\n      |              ^\n",
		"revision: 1\n\xff\xfe: 1\n": "costs.yaml:2:1: not text: a price book is UTF-8 without control characters\n" +
			"    2 | \xff\xfe: 1\n      | ^\n",
	} {
		if got := refused(t, []byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range brokenBooks(f) {
		f.Add(text)
	}
	for _, text := range builtins {
		f.Add(bytes.Clone(text))
	}
	f.Add([]byte(`{revision: 1, upstreams: {a: {hosts: ["[::1]:80"], pools: {u: {quota: 5, windows: [{per: 1h, quota: 3}]}}, methods: {m: {route: "GET /{a}:b", cost: 1, source: "é\u00a0"}}}}, families: {f: {quota: 1, windows: [{per: 1s}], keys: {'"': 5}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<13 {
			return // the parser below us is slow on text without end
		}
		b, err := book.Parse("costs.yaml", text, &book.Options{Builtins: small})
		if err != nil {
			if !errors.Is(err, book.ErrBadInput) || b != nil {
				t.Errorf("error %v with book %v", err, b)
			}
			return
		}
		roundTrip(t, b)
	})
}
