package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// tap runs the tap until its end, or kills it, with the process that runs it, after so many
// lines of output. It returns the output and the exit code.
func (f *folder) tap(lines int) (out string, code int) {
	f.t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		f.t.Fatalf("python3 is not installed: %v", err)
	}
	script, err := filepath.Abs("testdata/python/tap.py")
	if err != nil {
		f.t.Fatal(err)
	}
	cmd := f.program(context.Background(), "exec", "--job", "tap", "--state", f.path("tap.json"), "--", python, script)
	var said bytes.Buffer
	cmd.Stderr = &said
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = cmd.Process.Kill() })
	read := bufio.NewReader(pipe)
	for range lines {
		line, err := read.ReadString('\n')
		if err != nil {
			break
		}
		out += line
	}
	if lines > 0 {
		_ = cmd.Process.Kill()
	}
	rest, _ := io.ReadAll(read)
	out += string(rest)
	var left *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &left) {
		f.t.Fatal(err)
	}
	f.said = said.String()
	return out, cmd.ProcessState.ExitCode()
}

// records returns the keys of the records of an output, without duplicates.
func records(t *testing.T, out string) (keys []string) {
	t.Helper()
	for line := range strings.Lines(out) {
		var message struct {
			Type   string
			Record struct{ ID string }
		}
		if err := json.Unmarshal([]byte(line), &message); err != nil {
			t.Fatalf("a line that is not whole: %q", line)
		}
		if message.Type == "RECORD" && !slices.Contains(keys, message.Record.ID) {
			keys = append(keys, message.Record.ID)
		}
	}
	slices.Sort(keys)
	return keys
}

// TestTapIsKilled: a tap that is killed again and again writes, after removing duplicates by
// key, what an undisturbed one writes. The upstream refuses nothing.
func TestTapIsKilled(t *testing.T) {
	kills := 3
	if os.Getenv("HEADROOM_SOAK") != "" {
		kills = 20
	}
	undisturbed := newFolder(t, 1000, "")
	out, code := undisturbed.tap(0)
	want := records(t, out)
	if code != exitDone || len(want) < 100 {
		t.Fatalf("undisturbed: left with %d and %d records\n%s", code, len(want), undisturbed.said)
	}
	f := newFolder(t, 1000, "")
	random := rand.New(rand.NewPCG(1, 2))
	var all strings.Builder
	for range kills {
		out, _ := f.tap(1 + random.IntN(20))
		all.WriteString(out)
	}
	out, code = f.tap(0)
	all.WriteString(out)
	if code != exitDone || !slices.Equal(records(t, all.String()), want) {
		t.Errorf("left with %d and %d records, want %d\n%s", code, len(records(t, all.String())), len(want), f.said)
	}
	if c := f.sim.Counts().Total(); c.Refused != 0 || c.Calls <= undisturbed.sim.Counts().Total().Calls {
		t.Errorf("the upstream counted %+v", c)
	}
}

// TestTapResumes: when the quota is used up, the exit code says so, and the next run
// continues where the last one stopped.
func TestTapResumes(t *testing.T) {
	f := newFolder(t, 100, "")
	f.quota(20)
	first, code := f.tap(0)
	if code != exitDeferred || !strings.Contains(f.said, "job tap: the quota is used up; it can resume at 20") {
		t.Fatalf("left with %d\n%s", code, f.said)
	}
	if _, code := f.tap(0); code != exitDeferred || f.sim.Counts().Total().Calls != 15 {
		t.Errorf("again: left with %d after %d calls\n%s", code, f.sim.Counts().Total().Calls, f.said)
	}
	f.quota(100)
	text, _ := os.ReadFile(f.path("costs.yaml"))
	f.write("costs.yaml", strings.Replace(string(text), "revision: 2", "revision: 3", 1))
	second, code := f.tap(0)
	if code != exitDone || slices.ContainsFunc(records(t, second), func(id string) bool { return slices.Contains(records(t, first), id) }) {
		t.Errorf("with more: left with %d\n%s", code, f.said)
	}
	if text, err := os.ReadFile(f.path("tap.json")); err != nil || strings.TrimSpace(string(text)) != `{"done": true}` {
		t.Errorf("the state is %s %v", text, err)
	}
}

// TestTapIsRefusedByTheUpstream: a program that stops because the upstream itself says that
// the quota is used up is deferred, too.
func TestTapIsRefusedByTheUpstream(t *testing.T) {
	f := newFolder(t, 3, "")
	f.quota(100)
	if _, code := f.tap(0); code != exitDeferred || !strings.Contains(f.said, "it can resume at") || f.sim.Counts().Total().Refused != 1 {
		t.Errorf("left with %d\n%s", code, f.said)
	}
}

// TestKeepState: only whole lines are passed on, and only messages of the type STATE count.
func TestKeepState(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	in := `{"type": "STATE", "value": {"a": 1}}
{"type": "RECORD", "record": {"type": "STATE", "value": 7}}
no JSON with "STATE"
{"type": "STATE", "value": {"a": [2]}}
{"type": "STATE", "value": {"a":`
	var out bytes.Buffer
	if err := keepState(&out, strings.NewReader(in), file); err != nil {
		t.Fatal(err)
	}
	if whole := in[:strings.LastIndexByte(in, '\n')+1]; out.String() != whole {
		t.Errorf("passed on %q", &out)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "{\"a\": [2]}\n" {
		t.Errorf("kept %q %v", text, err)
	}
	if err := keepState(&out, strings.NewReader(in), filepath.Join(t.TempDir(), "no", "folder")); err == nil {
		t.Error("a state that cannot be kept is no error")
	}
	endless := strings.NewReader(strings.Repeat("x", 2<<20))
	if err := keepState(&out, endless, file); err == nil || !strings.Contains(err.Error(), "longer than 1 MiB") {
		t.Errorf("an endless line: %v", err)
	}
}

// TestExecOutputIsHeld: a child with a session of its own, which holds the output, does not
// keep the command from its end after the program was killed.
func TestExecOutputIsHeld(t *testing.T) {
	setsid, err := exec.LookPath("setsid")
	if err != nil {
		t.Skip("there is no setsid")
	}
	f := newFolder(t, 10, "")
	began := time.Now()
	r := f.run("exec", "--job", "held", "--state", f.path("held.json"), "--deadline", "100ms", "--grace", "100ms", "--", "/bin/sh", "-c", setsid+" /bin/sleep 30 2>/dev/null & wait")
	if took := time.Since(began); r.code != exitDeferred || took > 20*time.Second {
		t.Errorf("left with %d after %s\n%s", r.code, took, r.stderr)
	}
}
