package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
)

// victim is what a test kills of a program that is metered.
type victim int

const (
	noOne  victim = iota
	us            // the process that runs the program
	tapper        // the program
	both
	victims = int(both)
)

// kill ends processes as a crash does. The program has written its id beside its state.
func (v victim) kill(f *folder, cmd *exec.Cmd) {
	f.t.Helper()
	if v == us || v == both {
		_ = cmd.Process.Kill()
	}
	if v == tapper || v == both {
		text, err := os.ReadFile(f.path("tap.json.pid"))
		if err != nil {
			f.t.Fatal(err)
		}
		pid, err := strconv.Atoi(string(text))
		if err != nil {
			f.t.Fatal(err)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// tapCommand is the program that the tests meter, with its arguments.
func tapCommand(t *testing.T) []string {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatalf("python3 is not installed: %v", err)
	}
	script, err := filepath.Abs("testdata/python/tap.py")
	if err != nil {
		t.Fatal(err)
	}
	return []string{python, script}
}

// tap runs the tap until its end, or kills somebody after so many lines of output. It returns
// the output and the exit code.
func (f *folder) tap(who victim, lines int) (out string, code int) {
	f.t.Helper()
	cmd := f.program(context.Background(), append([]string{"exec", "--job", "tap", "--state", f.path("tap.json"), "--"}, tapCommand(f.t)...)...)
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
	who.kill(f, cmd)
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

// mostKills is how often the tests kill.
func mostKills() int {
	if os.Getenv("HEADROOM_SOAK") == "1" {
		return 20
	}
	return 3
}

// TestTapIsKilled: a tap that is killed again and again, or the process that runs it, or both,
// writes, after removing duplicates by key, what an undisturbed one writes. The upstream
// refuses nothing.
func TestTapIsKilled(t *testing.T) {
	t.Parallel()
	kills := mostKills()
	undisturbed := newFolder(t, 1000, "")
	out, code := undisturbed.tap(noOne, 0)
	want := records(t, out)
	if code != console.ExitDone || len(want) < 100 {
		t.Fatalf("undisturbed: left with %d and %d records\n%s", code, len(want), undisturbed.said)
	}
	f := newFolder(t, 1000, "")
	random := rand.New(rand.NewPCG(1, 2))
	var all strings.Builder
	killed := 0
	for n := range kills {
		out, code := f.tap(us+victim(n%victims), 1+random.IntN(20))
		all.WriteString(out)
		if code != console.ExitDone {
			killed++
		}
	}
	out, code = f.tap(noOne, 0)
	all.WriteString(out)
	if code != console.ExitDone || !slices.Equal(records(t, all.String()), want) {
		t.Errorf("left with %d and %d records, want %d\n%s", code, len(records(t, all.String())), len(want), f.said)
	}
	if c := f.sim.Counts().Total(); killed == 0 || c.Refused != 0 || c.Calls < undisturbed.sim.Counts().Total().Calls { // a kill between two calls wastes none
		t.Errorf("%d of %d were killed, and the upstream counted %+v", killed, kills, c)
	}
}

// jobOfTap makes the tap the only job of the folder.
func (f *folder) jobOfTap() {
	f.t.Helper()
	command, err := json.Marshal(tapCommand(f.t))
	if err != nil {
		f.t.Fatal(err)
	}
	text, err := os.ReadFile(f.path("ingestor.yaml"))
	if err != nil {
		f.t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(text), "jobs:")
	f.write("ingestor.yaml", head+fmt.Sprintf(`jobs:
  retention: {kind: retention, schedule: "@yearly", disabled: true}
  tap: {kind: command, schedule: "@yearly", max_runtime: 1h, command: %s, state: tap.json, output: tap.jsonl}
`, command))
}

// output is what the program of a job has written so far.
func (f *folder) output() string {
	f.t.Helper()
	text, err := os.ReadFile(f.path("tap.jsonl"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		f.t.Fatal(err)
	}
	return string(text)
}

// TestCommandIsKilled: a tap that is a job, and is killed again and again, or the run of it, or
// both, writes what an undisturbed one writes.
func TestCommandIsKilled(t *testing.T) {
	t.Parallel()
	calm := newFolder(t, 1000, "")
	calm.jobOfTap()
	r := calm.run("run", "--once")
	want := records(t, calm.output())
	if r.code != console.ExitDone || len(want) < 100 {
		t.Fatalf("undisturbed: left with %d and %d records\n%s", r.code, len(want), r.stderr)
	}
	for home, ledger := range homes {
		kills := mostKills()
		if kills < 20 {
			kills = map[string]int{"sqlite": 3, "redis": 1}[home]
		}
		if kills == 0 {
			continue
		}
		t.Run(home, func(t *testing.T) {
			t.Parallel()
			f := newFolder(t, 1000, ledger(t))
			f.jobOfTap()
			random := rand.New(rand.NewPCG(3, 4))
			for n := range kills {
				cmd := f.program(context.Background(), "run", "--once")
				cmd.Stderr = &bytes.Buffer{} // which the tap has, too, so that its end is waited for
				began := len(f.output())
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				ended := make(chan struct{})
				go func() { _ = cmd.Wait(); close(ended) }()
				who := us + victim(n%victims)
				for more := 100 + random.IntN(1000); len(f.output()) < began+more; {
					select {
					case <-ended: // with all that there was left
						more, who = 0, noOne
					case <-time.After(time.Millisecond):
					}
				}
				who.kill(f, cmd)
				<-ended
				f.endLeases()
			}
			r := f.run("run", "--once")
			if got := records(t, f.output()); r.code != console.ExitDone || !slices.Equal(got, want) {
				t.Errorf("left with %d and %d records, want %d\n%s", r.code, len(got), len(want), r.stderr)
			}
			// A few kills may hit no call under way; many do.
			least := calm.sim.Counts().Total().Calls
			if c := f.sim.Counts().Total(); c.Refused != 0 || c.Calls < least || kills >= 20 && c.Calls == least {
				t.Errorf("the upstream counted %+v", c)
			}
		})
	}
}

// TestTapResumes: when the quota is used up, the exit code says so, and the next run
// continues where the last one stopped.
func TestTapResumes(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 100, "")
	f.quota(20)
	first, code := f.tap(noOne, 0)
	if code != console.ExitDeferred || !strings.Contains(f.said, "job tap: the quota is used up; it can resume at 20") {
		t.Fatalf("left with %d\n%s", code, f.said)
	}
	if _, code := f.tap(noOne, 0); code != console.ExitDeferred || f.sim.Counts().Total().Calls != 15 {
		t.Errorf("again: left with %d after %d calls\n%s", code, f.sim.Counts().Total().Calls, f.said)
	}
	f.quota(100)
	text, _ := os.ReadFile(f.path("costs.yaml"))
	f.write("costs.yaml", strings.Replace(string(text), "revision: 2", "revision: 3", 1))
	second, code := f.tap(noOne, 0)
	if code != console.ExitDone || slices.ContainsFunc(records(t, second), func(id string) bool { return slices.Contains(records(t, first), id) }) {
		t.Errorf("with more: left with %d\n%s", code, f.said)
	}
	if text, err := os.ReadFile(f.path("tap.json")); err != nil || strings.TrimSpace(string(text)) != `{"done": true}` {
		t.Errorf("the state is %s %v", text, err)
	}
}

// TestTapIsRefusedByTheUpstream: a program that stops because the upstream itself says that
// the quota is used up is deferred, too.
func TestTapIsRefusedByTheUpstream(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 3, "")
	f.quota(100)
	if _, code := f.tap(noOne, 0); code != console.ExitDeferred || !strings.Contains(f.said, "it can resume at") || f.sim.Counts().Total().Refused != 1 {
		t.Errorf("left with %d\n%s", code, f.said)
	}
}

// TestExecOutputIsHeld: a child with a session of its own, which holds the output, does not
// keep the command from its end after the program was killed.
func TestExecOutputIsHeld(t *testing.T) {
	t.Parallel()
	setsid, err := exec.LookPath("setsid")
	if err != nil {
		t.Skip("there is no setsid")
	}
	f := newFolder(t, 10, "")
	r := f.run("exec", "--job", "held", "--state", f.path("held.json"), "--deadline", "2s", "--grace", "100ms", "--", "/bin/sh", "-c", setsid+" /bin/sleep 600 2>/dev/null & echo $! >"+f.path("pid")+"; wait")
	if r.code != console.ExitDeferred {
		t.Errorf("left with %d\n%s", r.code, r.stderr)
	}
	text, err := os.ReadFile(f.path("pid"))
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
		t.Error(err)
	} else if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the child that holds the output has ended before: %v", err)
	}
}
