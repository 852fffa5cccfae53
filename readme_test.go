package headroom_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota/book"
)

// What the READMEs show is what the tests run.
func TestReadmesShowWhatRuns(t *testing.T) {
	for _, test := range []struct {
		readme, kind string
		runs         []string // the files that have it
		blocks       int
	}{
		{"README.md", "go", []string{"example_test.go", "sdk_test.go", "quota/throttle/example_test.go"}, 3},
		{"README.md", "python", []string{"deploy/clients/reserve.py"}, 1},
		{"README.md", "php", []string{"deploy/clients/reserve.php"}, 1},
		{"quota/README.md", "text", []string{"quota/example_walk_test.go"}, 3},
	} {
		blocks := fenced(t, test.readme, test.kind)
		if len(blocks) != test.blocks {
			t.Errorf("%s has %d blocks of %s, want %d", test.readme, len(blocks), test.kind, test.blocks)
		}
		source := ""
		for _, file := range test.runs {
			source += bare(read(t, file))
		}
		for _, block := range blocks {
			if !strings.Contains(source, bare(block)) {
				t.Errorf("%s shows what is not in %s:\n%s", test.readme, test.runs, block)
			}
		}
	}
}

// A price book in README.md is one that the reader takes.
func TestReadmeBooksAreSound(t *testing.T) {
	books := fenced(t, "README.md", "yaml")
	if len(books) != 2 {
		t.Errorf("README.md has %d price books, want 2", len(books))
	}
	for _, text := range books {
		if _, err := book.Parse("README.md", []byte(text), &book.Options{Builtins: headroom.Builtin}); err != nil {
			t.Errorf("%v", err)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// fenced returns the blocks of a kind in a file of Markdown.
func fenced(t *testing.T, path, kind string) []string {
	t.Helper()
	var blocks []string
	for _, m := range regexp.MustCompile("(?ms)^```"+kind+"\n(.*?)^```$").FindAllStringSubmatch(read(t, path), -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// bare takes off what indents a line or makes it a comment.
func bare(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		line = strings.TrimSpace(line)
		lines[i] = strings.Join(strings.Fields(strings.TrimPrefix(line, "//")), " ")
	}
	return strings.Join(lines, "\n")
}
