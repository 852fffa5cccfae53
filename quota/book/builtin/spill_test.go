package builtin_test

import (
	"strings"
	"testing"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota/book"
)

// The terms of YouTube forbid to get around a quota with several projects, so no book can let its calls spill.
func TestYouTubeNeverSpills(t *testing.T) {
	const other = "  other: {hosts: [other.example.com], %s pools: {units: {quota: 1, windows: [{per: day}]}}, methods: {list: {route: GET /youtube/v3/videos, cost: 1}}}\n"
	for _, builtin := range []string{"builtin", "builtin/youtube-2025"} {
		for name, text := range map[string]string{
			"from":       "  youtube: {spill: [other], spill_methods: [videos.list]}\n" + strings.Replace(other, "%s", "", 1),
			"to":         strings.Replace(other, "%s", "spill: [youtube],", 1),
			"account":    "  youtube: {accounts: {default: {}, second: {}}, spill: [youtube@second]}\n",
			"removed":    "  youtube: {no_spill: null}\n",
			"both":       "  youtube: {no_spill: null, accounts: {default: {}, second: {}}, spill: [youtube@second]}\n",
			"with words": "  youtube: {no_spill: it is fine, accounts: {default: {}, second: {}}, spill: [youtube@second]}\n",
		} {
			t.Run(builtin+" "+name, func(t *testing.T) {
				_, err := book.Parse("costs.yaml", []byte("extends: "+builtin+"\nupstreams:\n"+text), &book.Options{Builtins: headroom.ReadBuiltin})
				if err == nil {
					t.Fatal("the book was accepted")
				}
				if why := err.Error(); !strings.HasPrefix(why, "costs.yaml:3:") || name != "with words" && !strings.Contains(why, "https://developers.google.com/youtube/terms/developer-policies") {
					t.Errorf("the error does not say where and why: %v", err)
				}
			})
		}
	}
}

// Calls of built-in books go to other regions and resources, and to another upstream by the names of its methods.
func TestBuiltinBooksSpill(t *testing.T) {
	for _, test := range []struct{ extends, text, verb, host, path, want string }{
		{"builtin/azure-openai", "azure-openai: {spill: [azure-openai@east]}", "POST", "west.openai.azure.com", "/openai/deployments/my%20own/chat/completions", "east.openai.azure.com/openai/deployments/my%20own/chat/completions"},
		{"builtin/bedrock", "bedrock: {spill: [bedrock@us-west-2]}", "POST", "bedrock-runtime.us-east-1.amazonaws.com", "/model/m/converse", "bedrock-runtime.us-west-2.amazonaws.com/model/m/converse"},
		{"[builtin/openai, builtin/azure-openai]", "openai: {spill: [azure-openai@east], spill_methods: [chat.completions.create, embeddings.create]}", "POST", "api.openai.com", "/v1/chat/completions", "east.openai.azure.com/openai/v1/chat/completions"},
		{"builtin/openai", "openai: {spill: [openai@second]}", "GET", "api.openai.com", "/v1/responses/x/items", "api.openai.com/v1/responses/x/items"},
	} {
		b, err := book.Parse("costs.yaml", []byte("extends: "+test.extends+"\nupstreams:\n  "+test.text), &book.Options{Builtins: headroom.ReadBuiltin})
		if err != nil {
			t.Error(err)
			continue
		}
		m := b.Match(test.verb, test.host, test.path)
		if !m.MaySpill() {
			t.Errorf("%s: %s%s may not spill", test.text, test.host, test.path)
			continue
		}
		to := m.Upstream.Spill[0]
		path := m.PathAt(to.Upstream)
		if got := to.Upstream.Host(to.Account, path) + path; got != test.want {
			t.Errorf("%s: %s%s goes to %s, want %s", test.text, test.host, test.path, got, test.want)
		}
	}
}
