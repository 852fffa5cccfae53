package journal_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/headroom-quota/headroom/internal/testing/childtest"
	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
)

// Environment variables that configure a child process, apart from its task.
const (
	childAddr = "HEADROOM_TEST_ADDR"
	childStop = "HEADROOM_TEST_STOP"
)

// children are the tasks that a child process can do with the journal at a path and the
// ledger at an address.
var children = map[string]childtest.Task{}

func TestMain(m *testing.M) { childtest.Main(m, children) }

func runChild(t *testing.T, task string, server *redistest.Server, path string, env ...string) *childtest.Child {
	t.Helper()
	return childtest.Run(t, task, path, append(env, childAddr+"="+server.Addr)...)
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
	children["replay"] = func(path string, _ func() bool, out io.Writer) error {
		stop, err := strconv.Atoi(os.Getenv(childStop))
		if err != nil {
			return err
		}
		steps := 0
		p, err := open(os.Getenv(childAddr), path, func(s quota.Store) quota.Store {
			return &around{Store: s, after: func(string) error {
				if steps++; steps == stop {
					fmt.Fprintln(out, "stopped")
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
		fmt.Fprintln(out, "replayed")
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
				c := runChild(t, "replay", server, path, childStop+"="+strconv.Itoa(stop))
				stopped := c.Line() == "stopped"
				if stopped && how == "dies" {
					c.Kill()
				}
				p := start(t, server, path)
				if err := p.Replay(t.Context()); err != nil {
					t.Fatal(err)
				}
				if stopped && how == "sleeps" {
					c.Begin()
					if said := c.Rest(); len(said) != 1 || said[0] != "replayed" {
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
		s, err := r.Settle(t.Context(), quota.Units{"units": int64(2 * (i%3 - 1))})
		if err != nil {
			t.Fatal(err)
		}
		units += s.Charged - s.Back
	}
	return units
}
