package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/internal/testing/guides"
)

var (
	fences  = regexp.MustCompile("(?ms)^```.*?^```$")
	spans   = regexp.MustCompile("`[^`\n]*`")
	links   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heads   = regexp.MustCompile(`(?m)^#{1,6} +(.+)$`)
	targets = regexp.MustCompile(`(?m)^([a-z-]+):`)
)

// TestLinksResolve follows every link of every page that does not leave the tree, to its
// heading.
func TestLinksResolve(t *testing.T) {
	followed := 0
	for _, page := range append(pages(t), "CONTRIBUTING.md", "CHANGELOG.md") {
		text := spans.ReplaceAllString(fences.ReplaceAllString(guides.Read(t, page), ""), "")
		for _, m := range links.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			followed++
			to, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if to != "" {
				target = filepath.Join(filepath.Dir(page), to)
			}
			if _, err := os.Stat(filepath.Join(guides.Root, target)); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
				continue
			}
			if anchor != "" && !anchors(guides.Read(t, target))[anchor] {
				t.Errorf("%s links to %s, but %s has no such heading", page, m[1], target)
			}
		}
	}
	if followed < 40 {
		t.Errorf("followed %d links, want 40 at least", followed)
	}
}

// anchors returns the names that GitHub gives to the headings of a page.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heads.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
		name := strings.ReplaceAll(strings.ToLower(strings.TrimSpace(m[1])), " ", "-")
		all[regexp.MustCompile(`[^\p{L}\p{N}_-]`).ReplaceAllString(name, "")] = true
	}
	return all
}

// TestGuidesNameWhatIsThere checks the targets of make, the packages and the files that
// the guides name outside links.
func TestGuidesNameWhatIsThere(t *testing.T) {
	there := map[string]bool{}
	for _, m := range targets.FindAllStringSubmatch(guides.Read(t, "Makefile"), -1) {
		there[m[1]] = true
	}
	named := regexp.MustCompile(`(?m)^make ([a-z]+(?:-[a-z]+)*)|go doc (\./\S*[\w/])|(?:^|[\s=])((?:deploy|cmd|quota|internal|\./cmd|\./quota)/[\w./-]*\w)`)
	for _, page := range pages(t) {
		text := guides.Read(t, page)
		code := fences.FindAllString(text, -1)
		for _, span := range spans.FindAllString(fences.ReplaceAllString(text, ""), -1) {
			code = append(code, strings.Trim(span, "`"))
		}
		for _, listing := range code {
			for _, m := range named.FindAllStringSubmatch(listing, -1) {
				if m[1] != "" && !there[m[1]] {
					t.Errorf("%s names make %s, which the Makefile does not have", page, m[1])
				}
				if path := m[2] + m[3]; path != "" {
					if _, err := os.Stat(filepath.Join(guides.Root, path)); err != nil {
						t.Errorf("%s names %s: %v", page, path, err)
					}
				}
			}
		}
	}
}
