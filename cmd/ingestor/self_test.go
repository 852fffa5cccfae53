package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/jobs"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/internal/shell"
)

// TestTheProgramKnowsHowItWasStarted: what it tells people to type works for them.
func TestTheProgramKnowsHowItWasStarted(t *testing.T) {
	for program, want := range map[string]bool{
		"/tmp/go-build1850600413/b001/exe/ingestor":                                                 true,
		"/tmp/cache/c1/c1d045d367e8ceb5f8269a9f1694d003316e3457dee79bc7498438f445d78b49-d/ingestor": true,
		"/root/go/bin/ingestor": false,
		"/home/me/exe/ingestor": false,
	} {
		if got := console.ByGoRun(program); got != want {
			t.Errorf("%s is of go run: %t", program, got)
		}
	}
	f := newFolder(t, 1000, "")
	path, err := exec.LookPath("ingestor")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, path, want string }{
		{"on the PATH", "PATH=" + filepath.Dir(path), "\n  ingestor check --config "},
		{"elsewhere", "PATH=/nowhere", "\n  " + shell.Quote(path) + " check --config "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f.env = []string{tt.path}
			r := f.run("init", "--dir", t.TempDir())
			if r.code != console.ExitDone || !strings.Contains(r.stdout, tt.want) {
				t.Errorf("left with %d, want %q\n%s%s", r.code, tt.want, r.stdout, r.stderr)
			}
		})
	}
}

// TestTheSandboxLeavesTheServerItsPort: both listen where they do by default.
func TestTheSandboxLeavesTheServerItsPort(t *testing.T) {
	if port := settings.DefaultSettings("/").Listen; port == jobs.SandboxListen {
		t.Errorf("both listen on %s", port)
	}
	if !strings.HasPrefix(jobs.SandboxListen, "127.0.0.1:") || strings.HasSuffix(jobs.SandboxListen, ":0") {
		t.Errorf("the sandbox listens on %s, want a port that a configuration can name", jobs.SandboxListen)
	}
}
