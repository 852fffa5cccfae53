package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
)

// TestGuidePricesAnAPI follows docs/price-book.md in an empty folder. The call of the
// upstream is left out: its answer is the one that the page shows.
func TestGuidePricesAnAPI(t *testing.T) {
	_, page, found := strings.Cut(guides(t)["docs/price-book.md"], "\n## Price a new API in ten minutes\n")
	if !found {
		t.Fatal("docs/price-book.md does not end with how to price an API")
	}
	f := newFolder(t, 1, "")
	f.write("linear.yaml", fenced(page, "yaml")[0])
	f.write("calls.jsonl", fenced(page, "jsonl")[0])
	f.write("request.json", fenced(page, "json")[0])
	f.write("answer.txt", fenced(page, "http")[0])
	f.write("refusal.txt", fenced(page, "http")[1])
	f.write("ingestor.yaml", "ledger: sqlite:"+f.path("ledger.db")+"\ncatalog: "+f.path("catalog.db")+"\n")
	tried := 0
	for _, block := range fenced(page, "sh") {
		for line := range strings.Lines(block) {
			words := strings.Fields(line)
			if words[0] != "ingestor" {
				continue
			}
			for i, word := range words {
				if slices.Contains([]string{"linear.yaml", "draft.yaml", "calls.jsonl", "request.json", "answer.txt", "refusal.txt"}, word) {
					words[i] = f.path(word)
				}
			}
			r := f.run(words[1:]...)
			if r.code != console.ExitDone {
				t.Errorf("%s left with %d:\n%s%s", line, r.code, r.stdout, r.stderr)
			}
			switch {
			case words[2] == "try" && slices.Contains(words, f.path("refusal.txt")):
				tried++
				if !strings.Contains(r.stdout, "blocks    complexity, until 2026-11-22 13:00:00 UTC\n            requests, until 2026-11-22 13:00:00 UTC") {
					t.Errorf("the refusal of docs/price-book.md gives\n%s", r.stdout)
				}
			case words[2] == "try":
				tried++
				if want := fenced(page, "output")[0]; r.stdout != want {
					t.Errorf("docs/price-book.md shows\n%s\nbut %s prints\n%s", want, line, r.stdout)
				}
			}
		}
	}
	f.write("recorded.jsonl", fenced(guides(t)["docs/drafts.md"], "jsonl")[0])
	if r := f.run("costs", "draft", "--from", "log", f.path("recorded.jsonl")); r.code != console.ExitDone || !strings.Contains(r.stdout, "quota: 5000") {
		t.Errorf("the line of docs/drafts.md gives %d:\n%s%s", r.code, r.stdout, r.stderr)
	}
	if tried != 2 {
		t.Errorf("the page tries the book %d times", tried)
	}
}
