package builtin_test

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/internal/recorded"
	"github.com/headroom-quota/headroom/quota"
)

// Gemini limits what a project spends in ten minutes. The guide states that as a budget, and it works as it stands there.
func TestGeminiSpendRate(t *testing.T) {
	guide, err := os.ReadFile("../../../docs/budgets.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(guide), "## A limit of the provider\n")
	_, text, _ = strings.Cut(text, "```yaml\n")
	text, _, found := strings.Cut(text, "```")
	if !found {
		t.Fatal("the guide has no such book")
	}
	player, err := recorded.New(load(t, write(t, text)), began)
	if err != nil {
		t.Fatal(err)
	}
	call := func(answer *recorded.Message) *quota.RefusedError {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			"https://generativelanguage.googleapis.com/v1beta/models/gemini-3.5-flash:generateContent", strings.NewReader(`{"generationConfig":{"maxOutputTokens":500000}}`))
		if err != nil {
			t.Fatal(err)
		}
		out, err := player.Call(t.Context(), req, answer)
		var refused *quota.RefusedError
		if err != nil || out.Err != nil && !errors.As(out.Err, &refused) {
			t.Fatal(err, out.Err)
		}
		return refused
	}
	answer := &recorded.Message{Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":450000}}`)}
	for range 2 { // 4.05 dollars each
		if refused := call(answer); refused != nil {
			t.Fatal(refused)
		}
	}
	refused := call(nil)
	if refused == nil || !strings.HasPrefix(refused.Pool.String(), "budgets/gemini-rate") {
		t.Fatalf("the third call: %v", refused)
	}
	player.Advance(refused.RetryAfter)
	if refused := call(answer); refused != nil {
		t.Errorf("after ten minutes: %v", refused)
	}
}
