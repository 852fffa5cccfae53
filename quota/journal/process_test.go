package journal_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/headroom-quota/headroom/internal/redistest"
	"github.com/headroom-quota/headroom/quota"
)

// Tests that need processes of their own run this binary again. What a child is to
// do stands in its environment.
const (
	childDoes = "HEADROOM_TEST_CHILD"
	childAddr = "HEADROOM_TEST_ADDR"
	childPath = "HEADROOM_TEST_PATH"
	childStop = "HEADROOM_TEST_STOP"
)

// children are what a process can be told to do with the ledger at an address and
// the journal at a path.
var children = map[string]func(addr, path string) error{}

func TestMain(m *testing.M) {
	do, ok := children[os.Getenv(childDoes)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := do(os.Getenv(childAddr), os.Getenv(childPath)); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// child is a running process of this binary.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.Writer
	lines *bufio.Scanner
}

func startChild(t *testing.T, does string, server *redistest.Server, path string, env ...string) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), append(env, childDoes+"="+does, childAddr+"="+server.Addr, childPath+"="+path)...)
	c.cmd.Stderr = os.Stderr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.cmd.Process.Kill(); _ = c.cmd.Wait() })
	c.in, c.lines = in, bufio.NewScanner(out)
	return c
}

// goOn lets a child go on that has stopped.
func (c *child) goOn() {
	if _, err := io.WriteString(c.in, "\n"); err != nil {
		c.t.Error(err)
	}
}

// kill ends the child as kill -9 does, and returns the lines that were left.
func (c *child) kill() (all []string) {
	c.t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		c.t.Fatal(err)
	}
	return c.rest()
}

// rest returns the lines that are left until the child has ended.
func (c *child) rest() (all []string) {
	for c.lines.Scan() {
		all = append(all, c.lines.Text())
	}
	_ = c.cmd.Wait() // it may have been killed
	return all
}

// scaled returns the reduced count, or the full one in a soak.
func scaled(reduced, full int) int {
	if os.Getenv("HEADROOM_SOAK") == "1" {
		return full
	}
	return reduced
}

// A process replays, counts what it has asked of the store, and stops after so many
// answers until it is told to go on.
func init() {
	children["replay"] = func(addr, path string) error {
		stop, err := strconv.Atoi(os.Getenv(childStop))
		if err != nil {
			return err
		}
		steps := 0
		p, err := open(addr, path, func(s quota.Store) quota.Store {
			return &around{Store: s, after: func(string) error {
				if steps++; steps == stop {
					fmt.Println("stopped")
					_, err := bufio.NewReader(os.Stdin).ReadString('\n')
					return err
				}
				return nil
			}}
		})
		if err != nil {
			return err
		}
		err = p.Replay(context.Background())
		fmt.Println("replayed")
		return err
	}
}

// A process dies in the middle of a replay, after each step of it in turn; or sleeps
// there while another one replays, and then goes on. All calls are in the ledger once
// in the end.
func TestReplayByAProcessThatDies(t *testing.T) {
	server := durable(t)
	calls := scaled(6, 24)
	for _, how := range []string{"dies", "sleeps"} {
		t.Run(how, func(t *testing.T) {
			for stop := 1; ; stop++ {
				flush(t, server)
				path := filepath.Join(t.TempDir(), "journal.db")
				want := admitted(t, server, path, calls)
				c := startChild(t, "replay", server, path, childStop+"="+strconv.Itoa(stop))
				c.lines.Scan()
				stopped := c.lines.Text() == "stopped"
				if stopped && how == "dies" {
					c.kill()
				}
				p := start(t, server, path)
				if err := p.Replay(t.Context()); err != nil {
					t.Fatal(err)
				}
				if stopped && how == "sleeps" {
					c.goOn()
					if said := c.rest(); len(said) != 1 || said[0] != "replayed" {
						t.Errorf("the process that slept says %q", said)
					}
				}
				p.settledTo(t, want)
				if !stopped || t.Failed() {
					t.Logf("%d steps", stop-1)
					return
				}
			}
		})
	}
}

// admitted leaves so many calls in a journal: as admitted, settled while the ledger
// may know them, and released then, in turns. It returns what they cost.
func admitted(t *testing.T, server *redistest.Server, path string, calls int) (units int64) {
	t.Helper()
	p := startBehind(t, server, path, func(s quota.Store) quota.Store {
		return &around{Store: s, after: func(string) error { return errLost }}
	})
	for i := range calls {
		r, err := p.Reserve(t.Context(), quota.Call{Method: "videos.list"})
		if err != nil {
			t.Fatal(err)
		}
		units++
		if i%3 == 0 {
			continue
		}
		s, err := r.Settle(t.Context(), int64(2*(i%3-1)))
		if err != nil {
			t.Fatal(err)
		}
		units += s.Charged - s.Back
	}
	return units
}
