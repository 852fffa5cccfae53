package program_test

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/program"
)

// environment returns the variables of a program. A variable that is set twice has its last
// value.
func environment(t *testing.T, o program.Options) map[string]string {
	t.Helper()
	var out bytes.Buffer
	o.Stdout = &out
	if err := run(t, context.Background(), context.Background(), o, "env"); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(out.String()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		all[name] = value
	}
	return all
}

// TestNoSecrets: a program gets neither our keys nor the URLs of our databases.
func TestNoSecrets(t *testing.T) {
	t.Setenv("YOUTUBE_API_KEY", "AIza-secret")
	t.Setenv("INGESTOR_LEDGER", "postgres://user:secret@host/")
	t.Setenv("PGPASSWORD", "secret")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=secret")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/secret.json")
	state := filepath.Join(t.TempDir(), "state.json")
	env := environment(t, program.Options{State: state})
	for name, value := range env {
		if strings.Contains(value, "secret") {
			t.Errorf("it gets %s=%s", name, value)
		}
	}
	if env["HEADROOM_STATE"] != state || !strings.HasPrefix(env["HEADROOM_PROXY"], "http://127.0.0.1:") {
		t.Errorf("its environment is %v", env)
	}
	env = environment(t, program.Options{PassEnv: []string{"PGPASSWORD"}})
	if env["PGPASSWORD"] != "secret" || env["INGESTOR_LEDGER"] != "" {
		t.Errorf("with PGPASSWORD, its environment is %v", env)
	}
}

// TestVariablesOfSDKs: the token stands where an SDK looks for the key, so that it does not
// send the key of the operator.
func TestVariablesOfSDKs(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-of-the-operator")
	t.Setenv("GITHUB_TOKEN", "ghp-of-the-operator")
	env := environment(t, program.Options{Upstreams: []string{"openai"}})
	if env["OPENAI_API_KEY"] != env["HEADROOM_TOKEN"] || env["OPENAI_BASE_URL"] != env["HEADROOM_PROXY"]+"/openai/v1" || env["GITHUB_TOKEN"] != "ghp-of-the-operator" {
		t.Errorf("its environment is %v", env)
	}
}

// TestNoProxy: a proxy of the network does not get the token.
func TestNoProxy(t *testing.T) {
	for _, c := range []struct{ upper, lower, wantUpper, wantLower string }{
		{"", "", "127.0.0.1,localhost", "127.0.0.1,localhost"},
		{"a.test", "", "a.test,127.0.0.1,localhost", "a.test,127.0.0.1,localhost"},
		{"a.test", "b.test", "a.test,127.0.0.1,localhost", "b.test,127.0.0.1,localhost"},
		{"*", "*", "*", "*"},
	} {
		t.Setenv("NO_PROXY", c.upper)
		t.Setenv("no_proxy", c.lower)
		if env := environment(t, program.Options{}); env["NO_PROXY"] != c.wantUpper || env["no_proxy"] != c.wantLower {
			t.Errorf("of %q and %q they are %q and %q", c.upper, c.lower, env["NO_PROXY"], env["no_proxy"])
		}
	}
}
