package journal_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/childtest"
	"github.com/headroom-quota/headroom/quota"
)

// A process spends units, by a method that is admitted in an outage, and searches, by
// one that is not, until it is told to end; it says what became of each call.
func init() {
	children["spend"] = func(path string, _ func() bool, out io.Writer) error {
		p, err := open(os.Getenv(childAddr), path, nil)
		if err != nil {
			return err
		}
		var told atomic.Bool
		go func() {
			_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // its end is as good
			told.Store(true)
		}()
		for !told.Load() {
			for _, method := range []string{"videos.list", "search.list"} {
				r, err := p.Reserve(context.Background(), quota.Call{Method: method})
				switch {
				case errors.Is(err, quota.ErrOutage) && !errors.Is(err, quota.ErrRefused):
					fmt.Fprintln(out, method, "outage")
					time.Sleep(time.Millisecond) // there is nothing to hurry for
				case err != nil:
					return err
				case r.Outage:
					fmt.Fprintln(out, method, "admitted")
				default:
					fmt.Fprintln(out, method, "granted")
				}
			}
		}
		return nil
	}
}

// spender is a process that spends, and what it has said so far.
type spender struct {
	*childtest.Child
	mu   sync.Mutex
	said map[string]int
	done chan struct{}
}

func (s *spender) listen() {
	defer close(s.done)
	for s.Lines.Scan() {
		s.mu.Lock()
		s.said[s.Lines.Text()]++
		s.mu.Unlock()
	}
}

func (s *spender) times(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said[what]
}

// The server is stopped in mid-run and started again, and one of the processes dies
// and is started again meanwhile, in each of several rounds.
// Together they are admitted what the allowance has, and all of it is charged, once.
func TestServerStopsInMidRun(t *testing.T) {
	server := durable(t)
	path := filepath.Join(t.TempDir(), "journal.db")
	var all, running []*spender
	begin := func() *spender {
		s := &spender{Child: runChild(t, "spend", server, path), said: make(map[string]int), done: make(chan struct{})}
		go s.listen()
		all = append(all, s)
		return s
	}
	sum := func(what string) (n int) {
		for _, s := range all {
			n += s.times(what)
		}
		return n
	}
	// each waits until every process has said something once more
	each := func(what string, more int) {
		t.Helper()
		before := make([]int, len(running))
		for i, s := range running {
			before[i] = s.times(what)
		}
		for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
			waiting := 0
			for i, s := range running {
				if s.times(what) < before[i]+more {
					waiting++
				}
			}
			if waiting == 0 {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d of %d processes do not say %q", waiting, len(running), what)
			}
		}
	}
	for range 3 {
		running = append(running, begin())
	}
	p := start(t, server, path)
	rounds := scaled(2, 20)
	for round := 1; round <= rounds; round++ {
		each("search.list granted", 5)
		each("videos.list granted", 5)
		server.Kill()
		each("search.list outage", 1)
		victim := running[0]
		if err := victim.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-victim.done
		running = append(running[1:], begin())
		each("videos.list outage", 2) // the allowance is spent
		if ids, err := p.journal.Pending(t.Context()); err != nil || len(ids) != quota.DefaultAllowance {
			t.Errorf("round %d: %d calls stand in the journal, want the whole allowance, %d (%v)", round, len(ids), quota.DefaultAllowance, err)
		}
		if n := sum("videos.list admitted"); round == 1 && n != quota.DefaultAllowance && n != quota.DefaultAllowance-1 { // one may have died before it said so
			t.Errorf("%d were admitted, want %d", n, quota.DefaultAllowance)
		}
		if err := server.Run(); err != nil {
			t.Fatal(err)
		}
	}
	each("videos.list granted", 5)
	for _, s := range running {
		s.Begin()
		<-s.done
	}
	if n := sum("search.list admitted"); n != 0 {
		t.Errorf("%d were admitted of a method that refuses", n)
	}
	for _, s := range all {
		for what := range s.said {
			switch what {
			case "videos.list granted", "videos.list admitted", "videos.list outage", "search.list granted", "search.list outage":
			default:
				t.Errorf("a process says %q", what)
			}
		}
	}
	if err := p.Replay(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := p.journal.Pending(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("left in the journal: %v, %v", left, err)
	}
	// one call of each that died may have been granted unsaid
	units := sum("videos.list granted") + sum("videos.list admitted")
	if n := int(p.used(t, "units")); n < units || n > units+rounds {
		t.Errorf("used %d units, want %d", n, units)
	}
	// and a search whose answer was lost counts as spent, though no call was made for it
	searches := sum("search.list granted")
	if n := int(p.used(t, "searches")); n < searches || n > searches+rounds*(len(running)+1) {
		t.Errorf("used %d searches, want %d", n, searches)
	}
	t.Logf("%d units, of which %d were admitted; %d searches", units, sum("videos.list admitted"), searches)
}
