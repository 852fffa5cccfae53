package proxy_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestGuideHasTheAddresses: docs/proxy.md names the base URLs that TestNodeClients uses.
func TestGuideHasTheAddresses(t *testing.T) {
	guide, err := os.ReadFile("../../../../docs/proxy.md")
	if err != nil {
		t.Fatal(err)
	}
	clients, err := os.ReadFile("node/clients.mjs")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("\\| `(\\w+): \"http://127.0.0.1:8090(/[^\"]+)\"` \\|").FindAllStringSubmatch(string(guide), -1)
	if len(rows) != 4 {
		t.Errorf("the guide has %d base URLs, want 4", len(rows))
	}
	for _, row := range rows {
		name, path := row[1], row[2]
		if !strings.Contains(string(clients), name+": `${address}"+path+"`") && !strings.Contains(string(clients), name+" = `${address}"+path+"`") {
			t.Errorf("no client has %s: %s", name, path)
		}
	}
}
