// Package childtest lets a test run its own binary again as child processes, which race with
// each other or get killed.
package childtest

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// The environment of a child holds its task.
const (
	does = "HEADROOM_TEST_CHILD"
	path = "HEADROOM_TEST_PATH"
)

// Task is the work of a child on the file at path. It writes lines to out. It may call begin
// any number of times to wait for its parent. The first call says "ready". Begin returns
// false when the parent is gone.
type Task func(path string, begin func() bool, out io.Writer) error

// Main is the body of TestMain: it runs the tests or, in a child, its task.
func Main(m *testing.M, tasks map[string]Task) {
	if !Do(tasks) {
		os.Exit(m.Run())
	}
}

// Do is for a TestMain that does more. In a child it runs the task and returns true.
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

// AtOnce lets n tests run at once, unless the command line says how many. It is for a package
// whose tests mostly wait: go test runs as many as there are processors.
func AtOnce(n int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(max(n, runtime.GOMAXPROCS(0))))
	}
}

// Child is a running process of this binary.
type Child struct {
	Process *os.Process
	Lines   *bufio.Scanner // its output

	t   testing.TB
	cmd *exec.Cmd
	in  io.Writer
}

// Run starts a child, with these variables added to this process's environment. The child is
// killed at the end of the test at the latest.
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

// Start starts a child and waits until it is ready.
func Start(t testing.TB, task, file string, env ...string) *Child {
	t.Helper()
	c := Run(t, task, file, env...)
	if line := c.Line(); line != "ready" {
		t.Fatalf("the child %s says %q", task, line)
	}
	return c
}

// Begin lets the child continue.
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

// Rest waits for the child to end without an error, and returns its other lines.
func (c *Child) Rest() []string {
	c.t.Helper()
	all := c.left()
	if err := c.cmd.Wait(); err != nil {
		c.t.Fatalf("the child failed: %v: %s", err, strings.Join(all, "; "))
	}
	return all
}

// Kill kills the child like kill -9, and returns its other lines.
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
