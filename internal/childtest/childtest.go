// Package childtest lets tests run their own binary again, as processes of their
// own: to race with each other, and to be killed.
package childtest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What a child is to do stands in its environment.
const (
	does = "HEADROOM_TEST_CHILD"
	path = "HEADROOM_TEST_PATH"
)

// Task is what a child does with the file at path; it writes lines to out. It calls
// begin to wait until it is let go on, as often as it likes: begin says "ready" the
// first time, and is false once nobody is there to let it.
type Task func(path string, begin func() bool, out io.Writer) error

// Main is what TestMain does: it runs the tests, or the task of this child.
func Main(m *testing.M, tasks map[string]Task) {
	if !Do(tasks) {
		os.Exit(m.Run())
	}
}

// Do is for a TestMain that has more to do: it does the task of this child, and
// reports whether this is one.
func Do(tasks map[string]Task) bool {
	do, ok := tasks[os.Getenv(does)]
	if !ok {
		return false
	}
	in := bufio.NewReader(os.Stdin)
	told := false
	begin := func() bool {
		if !told {
			fmt.Println("ready")
			told = true
		}
		_, err := in.ReadString('\n')
		return err == nil
	}
	if err := do(os.Getenv(path), begin, os.Stdout); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	return true
}

// Child is a running process of this binary.
type Child struct {
	Process *os.Process
	Lines   *bufio.Scanner // what it writes

	t   testing.TB
	cmd *exec.Cmd
	in  io.Writer
}

// Run runs a child, with an environment beside this process's own. It is killed at the
// end of the test, if not before.
func Run(t testing.TB, task, file string, env ...string) *Child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), append(env, does+"="+task, path+"="+file)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &Child{Process: cmd.Process, Lines: bufio.NewScanner(out), t: t, cmd: cmd, in: in}
}

// Start runs a child until it is ready.
func Start(t testing.TB, task, file string, env ...string) *Child {
	t.Helper()
	c := Run(t, task, file, env...)
	if line := c.Line(); line != "ready" {
		t.Fatalf("the child %s says %q", task, line)
	}
	return c
}

// Begin lets the child go on.
func (c *Child) Begin() {
	c.t.Helper()
	if _, err := io.WriteString(c.in, "\n"); err != nil {
		c.t.Error(err)
	}
}

// Line returns the next line that the child wrote, or "" after its last.
func (c *Child) Line() string {
	if c.Lines.Scan() {
		return c.Lines.Text()
	}
	return ""
}

// Rest returns the lines that are left, once the child has ended well.
func (c *Child) Rest() []string {
	c.t.Helper()
	all := c.left()
	if err := c.cmd.Wait(); err != nil {
		c.t.Fatalf("the child failed: %v: %s", err, strings.Join(all, "; "))
	}
	return all
}

// Kill ends the child as kill -9 does, and returns the lines that were left.
func (c *Child) Kill() []string {
	c.t.Helper()
	if err := c.Process.Kill(); err != nil {
		c.t.Fatal(err)
	}
	all := c.left()
	_ = c.cmd.Wait() // it was killed
	return all
}

func (c *Child) left() (all []string) {
	for c.Lines.Scan() {
		all = append(all, c.Lines.Text())
	}
	return all
}
