package main

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
)

// varies is what differs from run to run: times, and what depends on them.
var varies = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z|[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} [\d:]{8} GMT|;r=\d+;t=\d+|(?m:^(?:Etag|Date|Content-Length): .*)`)

// TestGuideTranscripts sends the requests that the guides make with curl to a server,
// and compares its answers with those in the guides.
func TestGuideTranscripts(t *testing.T) {
	f := newFolder(t, 1000, "")
	for _, region := range []string{"US", "DE"} { // one by one, so that rows have the same numbers each time
		if r := f.run("run", "--once", "--job", "trending", "--region", region); r.code != console.ExitDone {
			t.Fatalf("left with %d\n%s%s", r.code, r.stdout, r.stderr)
		}
	}
	s := f.serve()
	asked := 0
	for page, text := range guides(t) {
		for _, block := range fenced(text, "console") {
			parts := strings.Split(block, "$ ")
			for _, part := range parts[1:] {
				command, want, _ := strings.Cut(part, "\n")
				command, curl := strings.CutPrefix(command, "curl ")
				if !curl || parts[0] != "" {
					t.Errorf("%s has a transcript that is not of curl:\n%s", page, block)
					continue
				}
				if got := s.curl(command); steady(got) != steady(want) {
					t.Errorf("$ curl %s\n%s\nand %s has\n%s", command, got, page, want)
				}
				asked++
			}
		}
	}
	if asked < 4 {
		t.Errorf("the guides have %d requests with curl, want 4 at least", asked)
	}
}

// steady is a text without what varies, its lines in order: net/http sends some headers
// last.
func steady(text string) string {
	lines := strings.Split(varies.ReplaceAllString(strings.TrimSpace(text), "…"), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// curl answers as curl does, of which it knows -s and -I.
func (s *served) curl(command string) string {
	s.t.Helper()
	method, address := http.MethodGet, ""
	for _, word := range regexp.MustCompile(`'[^']*'|\S+`).FindAllString(command, -1) {
		switch word = strings.Trim(word, "'"); {
		case word == "-sI":
			method = http.MethodHead
		case strings.HasPrefix(word, "localhost:8080/"):
			address = s.url.String() + strings.TrimPrefix(word, "localhost:8080")
		case word != "-s":
			s.t.Fatalf("curl %s: the test does not know %s", command, word)
		}
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, address, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if method == http.MethodGet {
		return strings.TrimSpace(string(body))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", r.Proto, r.Status)
	if err := r.Header.Write(&b); err != nil {
		s.t.Fatal(err)
	}
	return strings.ReplaceAll(b.String(), "\r", "")
}
