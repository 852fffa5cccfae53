package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
)

// TestReconcileAnthropic compares the price book with what the Rate Limits API tells, in both of its forms, and
// obeys that.
func TestReconcileAnthropic(t *testing.T) {
	t.Parallel()
	const key = "sk-ant-admin-secret"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		switch {
		case r.Header.Get("X-Api-Key") != key:
			http.Error(w, "no", http.StatusUnauthorized)
		case r.URL.Path == "/v1/organizations/workspaces/wrkspc_1/rate_limits" && q.Get("include_inherited") == "true":
			fmt.Fprint(w, `{"data": [{"type": "workspace_rate_limit", "group": {"type": "model_group"}, "models": ["claude-opus-5-5"], "limits": [{"type": "requests_per_minute", "value": 7, "org_limit": 4000}]}], "next_page": null}`)
		case r.URL.Path != "/v1/organizations/rate_limits":
			http.NotFound(w, r)
		case q.Get("page") == "":
			fmt.Fprint(w, `{"data": [
				{"type": "rate_limit", "group_type": "model_group", "models": ["claude-opus-4-8", "claude-opus-4-7", "claude-opus-4-8-latest"], "limits": [
					{"type": "requests_per_minute", "value": 4000}, {"type": "input_tokens_per_minute", "value": 2000000}, {"type": "output_tokens_per_minute", "value": 800000}]},
				{"type": "rate_limit", "group_type": "model_group", "models": ["claude-opus-4-1"], "limits": [{"type": "requests_per_minute", "value": 50}]}], "next_page": "two"}`)
		default:
			fmt.Fprint(w, `{"data": [
				{"type": "rate_limit", "group": {"type": "batch"}, "models": null, "limits": [{"type": "requests_per_minute", "value": 1000}, {"type": "enqueued_batch_requests", "value": 100000}]},
				{"type": "rate_limit", "group_type": "token_count", "models": null, "limits": [{"type": "requests_per_minute", "value": 2000}]}], "next_page": null}`)
		}
	}))
	defer server.Close()
	f := newFolder(t, 1000, "")
	f.write("costs.yaml", "extends: [builtin, builtin/anthropic]\nrevision: 2\n")
	run := func(code int, says string, args ...string) {
		t.Helper()
		r := f.run(append([]string{"reconcile", "anthropic", "--server", server.URL}, args...)...)
		out := strings.Join(strings.Fields(r.stdout+r.stderr), " ")
		if r.code != code || !strings.Contains(out, says) || strings.Contains(out, "secret") {
			t.Errorf("%q: %d\n%s%s, want %d and %q", args, r.code, r.stdout, r.stderr, code, says)
		}
	}
	run(console.ExitConfig, "there is no Admin key; put it into the variable ANTHROPIC_ADMIN_KEY")
	f.env = []string{"ANTHROPIC_ADMIN_KEY=sk-ant-other-secret"}
	run(console.ExitCredential, "does not accept the key in ANTHROPIC_ADMIN_KEY for its limits (401 Unauthorized)")
	f.env = []string{"ANTHROPIC_ADMIN_KEY=" + key}
	run(console.ExitDone, "upstream:anthropic output_tokens:opus-4 1m 0 400,000 800,000 granted")
	run(console.ExitDone, "upstream:anthropic requests:opus-4 1m 0 1,000 50 granted upstream:anthropic token_counts 1m 0 100 2,000 granted Nothing is set. 0 of 3 keys would be refused now. "+
		"To set them, add --apply to this command.")
	run(console.ExitDone, "Anthropic tells batch/enqueued_batch_requests, which no pool of the price book counts")
	run(console.ExitDone, "upstream:anthropic requests:opus-5-5 1m 0 1,000 7 granted", "--workspace", "wrkspc_1")
	run(console.ExitDone, "set or removed 3 limits", "--apply")
	run(console.ExitDone, "All 5 limits in force are those that Anthropic tells.")
	run(console.ExitDone, "[]", "--output", "json")
	if r := f.run("limits", "list", "anthropic"); !strings.Contains(r.stdout, "Anthropic's Rate Limits API tells it") {
		t.Errorf("the limits: %s%s", r.stdout, r.stderr)
	}
	f.write("costs.yaml", "extends: builtin\nrevision: 2\n")
	run(console.ExitConfig, "the price book has no upstream with the host api.anthropic.com; write extends: builtin/anthropic into it")
	run(console.ExitUsage, `--workspace: "../x" is no id of a workspace`, "--workspace", "../x")
	server.Close()
	run(console.ExitDown, "ask Anthropic for its limits: ")
}
