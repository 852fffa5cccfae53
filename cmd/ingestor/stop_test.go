package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
)

// TestSignalsAreCaughtBeforeLargePackagesAreInitialized: until then a signal kills the
// process, and systemd counts that as a failure.
func TestSignalsAreCaughtBeforeLargePackagesAreInitialized(t *testing.T) {
	f := newFolder(t, 1000, "")
	f.env = []string{"GODEBUG=inittrace=1"}
	r := f.run("version")
	const ours = "\ninit github.com/headroom-quota/headroom/cmd/ingestor/internal/signals "
	before, _, there := strings.Cut(r.stderr, ours)
	if r.code != console.ExitDone || !there {
		t.Fatalf("left with %d\n%s", r.code, r.stderr)
	}
	for _, large := range []string{"modernc.org/sqlite", "google.golang.org/api", "github.com/spf13/viper", "encoding/gob", "net/http"} {
		if strings.Contains(before, "\ninit "+large) {
			t.Errorf("%s is set up first", large)
		}
	}
}

// TestARunIsToldToStopAtAnyMoment sends a signal after a random time. The run exits 75 and
// writes nothing, or it has done all its work.
func TestARunIsToldToStopAtAnyMoment(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for home, ledger := range homes {
		t.Run(home, func(t *testing.T) {
			f := newFolder(t, 100_000, ledger(t))
			f.write("costs.yaml", "extends: builtin\nrevision: 2\nupstreams: {youtube: {pools: {units: {quota: 100000, headroom: 5, windows: [{per: 24h}]}}}}\n") // enough for a soak
			f.durable()
			began := time.Now()
			if r := f.run("run", "--once", "--quiet"); r.code != console.ExitDone {
				t.Fatal(r)
			}
			takes := time.Since(began)
			t.Logf("seed %d; a run takes %s", seed, takes)
			codes := map[int]int{}
			kills := 4
			if os.Getenv("HEADROOM_SOAK") == "1" {
				kills = 100
			}
			for range kills {
				cmd := f.program(t.Context(), "run", "--once", "--quiet")
				var wrote strings.Builder
				cmd.Stdout, cmd.Stderr = &wrote, &wrote
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				late := time.AfterFunc(time.Duration(random.Int64N(int64(takes))), func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
				_ = cmd.Wait()
				late.Stop()
				code := cmd.ProcessState.ExitCode()
				codes[code]++
				// before the first instruction of ours the signal kills, and systemd is told so
				killed := cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled()
				if wrote.Len() > 0 || code != console.ExitDone && code != console.ExitDeferred && !killed {
					t.Errorf("left with %d and wrote %q", code, &wrote)
				}
			}
			t.Logf("exit codes: %v", codes)
			if r := f.run("run", "--once", "--quiet"); r.code != console.ExitDone || r.stdout+r.stderr != "" {
				t.Errorf("afterwards it left with %d\n%s%s%s", r.code, r.stdout, r.stderr, f.run("quota").stdout)
			}
		})
	}
}

// durable has a server of Redis keep what it holds, as runs want it: they warn of others.
func (f *folder) durable() {
	f.t.Helper()
	if c := f.redis(); c != nil {
		if err := errors.Join(c.ConfigSet(f.t.Context(), "appendonly", "yes").Err(), c.Close()); err != nil {
			f.t.Fatal(err)
		}
	}
}

// TestARunIsToldToStopBeforeItsJobsBegin: one job has a call under way, the others have
// not begun.
func TestARunIsToldToStopBeforeItsJobsBegin(t *testing.T) {
	t.Parallel()
	for home, ledger := range homes {
		t.Run(home, func(t *testing.T) {
			f := newFolder(t, 1000, ledger(t))
			f.durable()
			cmd, stdout := f.stalled(300*time.Millisecond, "run", "--once", "--quiet")
			f.signal(cmd)
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != console.ExitDeferred || stdout.String()+f.heard.all.String() != "" {
				t.Errorf("left with %d and wrote %q %q", code, stdout, f.heard.all.String())
			}
			f = newFolder(t, 1000, ledger(t))
			cmd, stdout = f.stalled(300*time.Millisecond, "run", "--once")
			f.signal(cmd)
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != console.ExitDeferred || !regexp.MustCompile(`(?m)^uploads +deferred`).MatchString(stdout.String()) ||
				strings.Contains(f.heard.all.String(), "context canceled") {
				t.Errorf("left with %d\n%s%s", code, stdout, f.heard.all.String())
			}
		})
	}
}

// TestARunIsToldToStopWhileItStarts: the ledger does not answer, and is not waited for.
func TestARunIsToldToStopWhileItStarts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		code int
	}{
		{[]string{"run", "--once", "--quiet"}, console.ExitDeferred},
		{[]string{"run", "--once", "--due", "--quiet"}, console.ExitDeferred},
		{[]string{"run", "--quiet"}, console.ExitDone},
		{[]string{"serve", "--listen", "127.0.0.1:0"}, console.ExitDone},
		{[]string{"backfill", "--query", "x", "--since", "2026-05-01", "--until", "2026-05-02"}, console.ExitDeferred},
		{[]string{"quota"}, console.ExitDeferred},
		{[]string{"quota", "adjust", "youtube/units", "1", "--reason", "x"}, console.ExitDeferred},
		{[]string{"limits", "list"}, console.ExitDeferred},
		{[]string{"plan"}, console.ExitFailed},
		{[]string{"check"}, console.ExitDeferred},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			silent, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()
			asked := make(chan struct{})
			go func() {
				for first := true; ; first = false {
					c, err := silent.Accept()
					if errors.Is(err, net.ErrClosed) {
						return
					}
					if first {
						close(asked)
					}
					defer c.Close()
				}
			}()
			f := newFolder(t, 1000, "redis://"+silent.Addr().String()+"/0")
			cmd := f.program(t.Context(), tt.args...)
			var wrote strings.Builder
			cmd.Stdout, cmd.Stderr = &wrote, &wrote
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			<-asked
			f.signal(cmd)
			_ = cmd.Wait()
			wrong := wrote.Len() > 0
			if tt.args[0] != "run" {
				wrong = strings.Contains(wrote.String(), "context canceled")
			}
			if code := cmd.ProcessState.ExitCode(); code != tt.code || wrong {
				t.Errorf("left with %d, want %d, and wrote %q", code, tt.code, &wrote)
			}
		})
	}
}

// TestAJobThatAKilledProcessHeldSaysUntilWhen: on Redis its lease outlives it.
func TestAJobThatAKilledProcessHeldSaysUntilWhen(t *testing.T) {
	f := newFolder(t, 1000, homes["redis"](t))
	cmd, _ := f.stalled(0, "run", "--once", "--job", "trending")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	r := f.run("run", "--once", "--job", "trending")
	held := regexp.MustCompile(fmt.Sprintf(`held by process %d on \S+, until (\d\d:\d\d:\d\d) UTC at the latest`, cmd.Process.Pid)).FindStringSubmatch(r.stderr)
	if r.code != console.ExitDeferred || held == nil {
		t.Fatalf("left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	until, err := time.Parse(time.TimeOnly, held[1])
	now := time.Now().UTC()
	now = time.Date(0, 1, 1, now.Hour(), now.Minute(), now.Second(), 0, time.UTC)
	if ahead := (until.Sub(now) + 24*time.Hour) % (24 * time.Hour); err != nil || ahead > 30*time.Second {
		t.Errorf("it is held until %s, %s from now, %v; want 30s at most", held[1], ahead, err)
	}
}
