package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
)

// calledHome is a folder whose price book has an upstream that answers with a function.
func calledHome(t *testing.T, answer http.HandlerFunc) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	home(t, "costs: costs.yaml\nledger: sqlite:ledger.db\nkeys: {files: {file: key}}\n")
	for name, text := range map[string]string{"key": "Bearer the-secret", "costs.yaml": `
revision: 1
upstreams:
  files:
    hosts: ["` + strings.TrimPrefix(server.URL, "http://") + `"]
    api_key: {header: Authorization}
    pools: {units: {quota: 100, windows: [{per: day}]}}
    methods: {get: {route: GET /file, pool: units, cost: 3}}
`} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// callTo runs ingestor call, with its output to a writer.
func callTo(t *testing.T, out io.Writer) result {
	t.Helper()
	var stderr bytes.Buffer
	a := &session.Session{Stdin: strings.NewReader(""), Stdout: out, Stderr: &stderr, Abort: t.Context()}
	cmd := root(a)
	cmd.SetArgs([]string{"call", "get"})
	err := cmd.ExecuteContext(context.Background())
	return result{console.ExitCode(err), "", stderr.String() + fmt.Sprint(err)}
}

// counter counts and sums up what is written.
type counter struct {
	n int
	io.Writer
}

func (c *counter) Write(p []byte) (int, error) {
	c.n += len(p)
	return c.Writer.Write(p)
}

// TestCallOfALongAnswer: all of it is written, whatever its size, and without the key.
func TestCallOfALongAnswer(t *testing.T) {
	const size = 70 << 20
	block := bytes.Repeat([]byte("0123456789abcdef"), 1<<12)
	calledHome(t, func(w http.ResponseWriter, _ *http.Request) {
		for range size / len(block) {
			_, _ = w.Write(block)
		}
		_, _ = io.WriteString(w, "it is the-secret!")
	})
	want := sha256.New()
	for range size / len(block) {
		want.Write(block)
	}
	_, _ = io.WriteString(want, "it is **********!")
	got := sha256.New()
	out := &counter{Writer: got}
	r := callTo(t, out)
	if r.code != console.ExitDone || out.n != size+len("it is **********!") || !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		t.Errorf("left with %d after %d bytes\n%s", r.code, out.n, r.stderr)
	}
	if !strings.Contains(r.stderr, "get cost 3 units of files/units\n") {
		t.Errorf("it says %s", r.stderr)
	}
}

// TestCallOfAnAnswerThatBreaksOff: what has come is written, and the call has cost its units.
func TestCallOfAnAnswerThatBreaksOff(t *testing.T) {
	calledHome(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "the beginning")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	var out bytes.Buffer
	r := callTo(t, &out)
	if r.code != console.ExitDown || out.String() != "the beginning" || !strings.Contains(r.stderr, "the answer broke off") || !strings.Contains(r.stderr, "get cost 3 units") {
		t.Errorf("left with %d after %q\n%s", r.code, &out, r.stderr)
	}
}
