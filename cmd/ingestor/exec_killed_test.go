package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
)

// orphaned starts a program as a job, and kills the process that runs it once the program has
// written the id of a process. That line comes through the process, which knows of the program
// by then. It returns the id, and the standard error that all of them have until they end.
func (f *folder) orphaned(script string) (pid int, said *os.File) {
	f.t.Helper()
	said, to, err := os.Pipe()
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = said.Close() })
	cmd := f.program(context.Background(), "exec", "--job", "orphan", "--state", f.path("orphan.json"), "--", "/bin/sh", "-c", script)
	cmd.Stderr = to
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err = errors.Join(err, to.Close(), said.SetReadDeadline(time.Now().Add(2*time.Minute))); err != nil {
		f.t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err != nil {
		f.t.Fatal(err)
	}
	if pid, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	return pid, said
}

// TestProgramEndsWithUs: a program and its children end when the process that runs it is
// killed, also if they write nothing.
func TestProgramEndsWithUs(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 10, "")
	for name, script := range map[string]string{
		"a program": "echo $$; exec /bin/sleep 600",
		"its child": "/bin/sleep 600 & echo $!; wait",
	} {
		_, said := f.orphaned(script)
		if _, err := io.Copy(io.Discard, said); err != nil {
			t.Errorf("%s goes on: %v", name, err)
		}
	}
}

// TestLockIsNotInherited: a program has no descriptor of the job's lock, which it could give back
// or leave to a child for ever. A child that left its group does not keep the lock.
func TestLockIsNotInherited(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 10, "")
	if r := f.run("exec", "--job", "orphan", "--", "/bin/sh", "-c", "ls -l /proc/$$/fd"); r.code != console.ExitDone || strings.Contains(r.stdout, "lock") {
		t.Errorf("left with %d, and has the files\n%s%s", r.code, r.stdout, r.stderr)
	}
	setsid, err := exec.LookPath("setsid")
	if err != nil {
		t.Skip("there is no setsid")
	}
	pid, _ := f.orphaned(setsid + " /bin/sleep 600 & echo $!; wait")
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	var r result
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if r = f.run("exec", "--job", "orphan", "--", "/bin/sh", "-c", "exit 0"); r.code == console.ExitDone {
			break // the guard has ended
		}
	}
	if r.code != console.ExitDone {
		t.Errorf("after it: left with %d\n%s", r.code, r.stderr)
	}
}

// TestLockIsGivenBack: what a program leaves behind when it ends does not keep the lock.
func TestLockIsGivenBack(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 10, "")
	for range 2 {
		r := f.run("exec", "--job", "daemon", "--", "/bin/sh", "-c", "/bin/sleep 600 >/dev/null 2>&1 & echo $!")
		if pid, err := strconv.Atoi(strings.TrimSpace(r.stdout)); err == nil {
			defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
		}
		if r.code != console.ExitDone {
			t.Errorf("left with %d\n%s", r.code, r.stderr)
		}
	}
}
