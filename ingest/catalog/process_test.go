package catalog

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Tests that need processes of their own run this binary again. What a child is to
// do stands in its environment; it says "ready", and begins at a line's end.
const (
	childDoes = "HEADROOM_TEST_CHILD"
	childPath = "HEADROOM_TEST_PATH"
)

// children are what a process can be told to do with the catalog at path. They
// write lines to out.
var children = map[string]func(path string, begin func() bool, out io.Writer) error{}

func TestMain(m *testing.M) {
	do, ok := children[os.Getenv(childDoes)]
	if !ok {
		os.Exit(m.Run())
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
	if err := do(os.Getenv(childPath), begin, os.Stdout); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// child is a running process of this binary.
type child struct {
	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

// start runs a child until it is ready.
func start(t testing.TB, does, path string, env ...string) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), append(env, childDoes+"="+does, childPath+"="+path)...)
	c.cmd.Stderr = os.Stderr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	c.lines = bufio.NewScanner(out)
	if line := c.line(); line != "ready" {
		t.Fatalf("the child %s says %q", does, line)
	}
	return c
}

// begin lets the child go on.
func (c *child) begin() {
	if _, err := io.WriteString(c.in, "\n"); err != nil {
		c.t.Error(err)
	}
}

// line returns the next line that the child wrote, or "" after its last.
func (c *child) line() string {
	if c.lines.Scan() {
		return c.lines.Text()
	}
	return ""
}

// rest returns the lines that are left, once the child has ended well.
func (c *child) rest() (all []string) {
	c.t.Helper()
	for c.lines.Scan() {
		all = append(all, c.lines.Text())
	}
	if err := c.cmd.Wait(); err != nil {
		c.t.Fatalf("the child failed: %v: %s", err, strings.Join(all, "; "))
	}
	return all
}

// kill ends the child as kill -9 does, and returns the lines that were left.
func (c *child) kill() (all []string) {
	c.t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		c.t.Fatal(err)
	}
	for c.lines.Scan() {
		all = append(all, c.lines.Text())
	}
	_ = c.cmd.Wait() // it was killed
	return all
}

// lookShell returns Debian's sqlite3, if there is one.
func lookShell(t *testing.T) func(path, text string) (string, error) {
	name, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Skip("there is no sqlite3 here")
	}
	return func(path, text string) (string, error) {
		out, err := exec.Command(name, path, text).CombinedOutput()
		return string(out), err
	}
}
