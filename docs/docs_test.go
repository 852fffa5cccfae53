package docs

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/internal/testing/guides"
	"github.com/headroom-quota/headroom/quota/book"
)

// pages returns the pages for users. CONTRIBUTING.md and CHANGELOG.md are for others.
func pages(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("*.md")
	if err != nil || len(all) < 8 {
		t.Fatalf("found %d pages in docs: %v", len(all), err)
	}
	for i, name := range all {
		all[i] = "docs/" + name
	}
	return append(all, "README.md", "deploy/README.md", "bench/README.md", "quota/README.md", "quota/meter/README.md", "cmd/ingestor/README.md")
}

func TestReadmeIsShort(t *testing.T) {
	if n := strings.Count(guides.Read(t, "README.md"), "\n"); n > 200 {
		t.Errorf("README.md has %d lines, at most 200 are allowed; move some to docs/", n)
	}
	if n := strings.Count(guides.Listings(t, "README.md", "go")[0], "\n"); n > 12 {
		t.Errorf("the first Go example of README.md has %d lines, at most 12 are allowed", n)
	}
}

// shown are the listings of the guides, by kind, and the files that run them. cmd/ingestor
// tests the kinds sh and console, and the outputs of its commands.
var shown = []struct {
	page, kind string
	runs       []string
	blocks     int
}{
	{"README.md", "go", []string{"ingest/internal/sdk/wrap_test.go"}, 1},
	{"docs/budgets.md", "go", []string{"sdktest/budget_test.go"}, 1},
	{"docs/library.md", "go", []string{"example_test.go", "ingest/internal/sdk/sdk_test.go", "ingest/internal/sdk/wrap_test.go", "quota/example_test.go"}, 5},
	{"docs/library.md", "text", []string{"example_test.go"}, 1},
	{"docs/limits-for-clients.md", "go", []string{"quota/throttle/example_test.go"}, 2},
	{"docs/limits-for-clients.md", "csv", []string{"cmd/ingestor/limits_test.go"}, 1},
	{"docs/price-book.md", "text", []string{"costs.yaml"}, 1},
	{"quota/README.md", "text", []string{"quota/example_walk_test.go"}, 3},
}

func TestGuidesShowWhatRuns(t *testing.T) {
	for _, test := range shown {
		blocks := guides.Listings(t, test.page, test.kind)
		if len(blocks) != test.blocks {
			t.Errorf("%s has %d blocks of %s, want %d", test.page, len(blocks), test.kind, test.blocks)
		}
		source := ""
		for _, file := range test.runs {
			source += bare(guides.Read(t, file))
		}
		for _, block := range blocks {
			if !strings.Contains(source, bare(block)) {
				t.Errorf("%s shows what is not in %s:\n%s", test.page, test.runs, block)
			}
		}
	}
}

// TestGuidesShowNothingUntested finds listings that no test reads.
func TestGuidesShowNothingUntested(t *testing.T) {
	tested := map[string]bool{ // by page and kind, beside the kinds that are tested on every page
		"README.md text":              true, // TestReadmeShowsTheDemo
		"cmd/ingestor/README.md text": true, // TestHelpHasTheCommonForm
		"docs/mcp.md json":            true, // TestGuideConfiguresAnAgentHost
		"docs/plan.md text":           true, // TestGuideShowsThePlan
		"docs/promises.md text":       true, // TestGuideShowsTheProof
	}
	for _, kind := range []string{"json", "jsonl", "http", "output"} { // TestGuidePricesAnAPI
		tested["docs/price-book.md "+kind] = true
	}
	tested["docs/drafts.md jsonl"] = true // the same
	for _, s := range shown {
		tested[s.page+" "+s.kind] = true
	}
	for _, page := range pages(t) {
		for _, m := range regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$").FindAllStringSubmatch(guides.Read(t, page), -1) {
			if kind := m[1]; !slices.Contains([]string{"yaml", "sh", "console"}, kind) && !tested[page+" "+kind] {
				t.Errorf("%s has a listing of kind %q that no test reads:\n%s", page, kind, m[2])
			}
		}
		if m := regexp.MustCompile(`(?m)^\n    \S.*$`).FindString(guides.Read(t, page)); m != "" {
			t.Errorf("%s has a listing without a fence, which no test reads:%s", page, m)
		}
	}
}

func TestBooksInGuidesAreValid(t *testing.T) {
	books := 0
	for _, page := range pages(t) {
		for _, text := range guides.Listings(t, page, "yaml") {
			if strings.HasPrefix(text, "# ingestor.yaml\n") {
				continue // cmd/ingestor reads it
			}
			books++
			if _, err := book.Parse(page, []byte(text), &book.Options{Builtins: headroom.ReadBuiltin}); err != nil {
				t.Errorf("%v in\n%s", err, text)
			}
		}
	}
	if books < 18 {
		t.Errorf("the guides have %d price books, want 18 at least", books)
	}
}

// bare removes indentation and the marks of comments.
func bare(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		line = strings.TrimSpace(line)
		lines[i] = strings.Join(strings.Fields(strings.TrimPrefix(line, "//")), " ")
	}
	return strings.Join(lines, "\n")
}
