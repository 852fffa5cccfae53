package proxy_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestGuideHasTheAddresses: docs/proxy.md names the base URLs that TestNodeClients and make sdks use.
func TestGuideHasTheAddresses(t *testing.T) {
	books, err := filepath.Glob("../testing/sdks/books/*.mjs")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, name := range append(books, "../../../../docs/proxy.md", "node/clients.mjs") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(name)] = string(text)
	}
	guide, clients := all["proxy.md"], all["clients.mjs"]
	delete(all, "proxy.md")
	sdks := strings.ReplaceAll(strings.Join(slices.Collect(maps.Values(all)), ""), "${base}", "${address}")
	rows := regexp.MustCompile("(\\w+): \"http://127.0.0.1:8090(/[^\"]+)\"").FindAllStringSubmatch(guide, -1)
	if len(rows) != 15 {
		t.Errorf("the guide has %d base URLs, want 15", len(rows))
	}
	for _, row := range rows {
		name, path := row[1], row[2]
		if !strings.Contains(sdks, name+": `${address}"+path+"`") {
			t.Errorf("no SDK has %s: %s", name, path)
		}
	}
	for _, base := range regexp.MustCompile("(?:baseURL|baseUrl|rootUrl)(?:: | = )`\\$\\{address}(/[^`]+)`").FindAllStringSubmatch(clients, -1) {
		if !strings.Contains(guide, base[1]+"\"") {
			t.Errorf("the guide has no %s", base[1])
		}
	}
}
