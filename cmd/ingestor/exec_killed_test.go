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

// TestLockOutlivesUs: a child that left the program's group, and so goes on when the process
// that runs it is killed, keeps the lock of the job.
func TestLockOutlivesUs(t *testing.T) {
	t.Parallel()
	setsid, err := exec.LookPath("setsid")
	if err != nil {
		t.Skip("there is no setsid")
	}
	f := newFolder(t, 10, "")
	pid, _ := f.orphaned(setsid + " /bin/sleep 600 & echo $!; wait")
	again := []string{"exec", "--job", "orphan", "--", "/bin/sh", "-c", "exit 0"}
	if r := f.run(again...); r.code != exitDeferred || !strings.Contains(r.stderr, "another process runs this job") {
		t.Errorf("beside it: left with %d\n%s", r.code, r.stderr)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var r result
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if r = f.run(again...); r.code == exitDone {
			break
		}
	}
	if r.code != exitDone {
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
		if r.code != exitDone {
			t.Errorf("left with %d\n%s", r.code, r.stderr)
		}
	}
}
