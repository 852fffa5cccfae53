package main

import (
	"os"
	"strings"
	"testing"
)

// TestCheckWarnsOfLikelyTypos: a host that is nearly that of a built-in price book is named, and
// others are not.
func TestCheckWarnsOfLikelyTypos(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 20, "")
	write := func(hosts string) {
		text := "revision: 1\nextends: builtin\nupstreams:\n  llm:\n    hosts: [" + hosts + "]\n    pools: {units: {quota: 5, windows: [{per: 1m}]}}\n    methods: {chat: {route: POST /v1/chat, cost: 1}}\n"
		if err := os.WriteFile(f.path("mine.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("api.opnai.com, llm.example.com, api.anthropic.com")
	r := f.run("check", "--costs", f.path("mine.yaml"))
	if !strings.Contains(r.stdout, "llm lists the host api.opnai.com, which is nearly api.openai.com") || strings.Count(r.stdout, "which is nearly") != 1 {
		t.Errorf("left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}
