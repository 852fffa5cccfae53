package sdk

import (
	"errors"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/api/youtube/v3"

	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
	"github.com/headroom-quota/headroom/internal/testing/guides"
	"github.com/headroom-quota/headroom/quota"
)

// spans are the words of a page that are code.
var spans = regexp.MustCompile("`[^`\n]*`")

// TestReadmeExample runs the first example of README.md with the price book beside it
// until a guard of the built-in book refuses.
func TestReadmeExample(t *testing.T) {
	sim := youtubesim.New(&youtubesim.Options{Seed: 1})
	server := httptest.NewServer(sim)
	t.Cleanup(server.Close)
	book := guides.Listings(t, "README.md", "yaml")[0]
	host := strings.TrimPrefix(server.URL, "http://")
	sandbox := regexp.MustCompile(`127\.0\.0\.1:809\d`).FindString(book)
	if sandbox == "" {
		t.Fatalf("README.md's price book does not name the sandbox:\n%s", book)
	}
	source := guides.Read(t, "ingest/internal/sdk/wrap_test.go")
	for _, span := range spans.FindAllString(guides.Read(t, "README.md"), -1) {
		if code := strings.ReplaceAll(strings.Trim(span, "`"), `"http://`+sandbox+`/"`, "endpoint"); strings.HasPrefix(code, "option.") && !strings.Contains(source, code) {
			t.Errorf("README.md names %s, which is not in wrap_test.go", code)
		}
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("costs.yaml", []byte(strings.ReplaceAll(book, sandbox, host)), 0o600); err != nil {
		t.Fatal(err)
	}
	granted := 0
	err := wrap(t.Context(), sdkKey, server.URL+"/", func(service *youtube.Service) {
		for {
			_, err := service.Search.List([]string{"id"}).Q("music").Do()
			var refused *quota.RefusedError
			if errors.As(err, &refused) && !refused.RetryAt.IsZero() {
				return
			}
			if err != nil || granted == 100 {
				t.Fatalf("after %d calls: %v", granted, err)
			}
			granted++
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if counted := sim.Counts().Total(); granted != 20 || counted.Units != 20 {
		t.Errorf("%d calls were granted, the upstream counted %d units; want 20", granted, counted.Units)
	}
}
