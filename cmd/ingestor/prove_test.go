package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/boundary"
	"github.com/headroom-quota/headroom/internal/redistest"
)

var proveRate = boundary.Rate{Limit: proveLimit, Per: provePer}

func openedProve(t *testing.T, ledger string) *proveHome {
	t.Helper()
	var done closers
	t.Cleanup(func() {
		if err := done.close(); err != nil {
			t.Error(err)
		}
	})
	h, err := openProve(t.Context(), ledger, &done)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// The worst case of each limiter, with a limit of 50. The fixed window lets through twice
// its limit. GCRA, which refills evenly, and the estimate let through one less. The log and
// the ring never exceed their limit.
var proveWorst = map[string]int{"fixed": 100, "gcra": 99, "counter": 99, "log": 50, "ring": 50}

func TestProve(t *testing.T) {
	for _, ledger := range []string{"memory:", "sqlite:" + filepath.Join(t.TempDir(), "ledger.db")} {
		t.Run(strings.TrimRight(ledger[:6], ":"), func(t *testing.T) {
			h := openedProve(t, ledger)
			results, err := h.run(t.Context(), proveRate)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range results {
				if got := boundary.Worst(r.At.Accepted, proveRate.Per).Accepted; got != r.Worst.Accepted || got != proveWorst[r.ID] {
					t.Errorf("%s: %d accepted at worst, want %d", r.Name, got, proveWorst[r.ID])
				}
			}
			v := proved(h, proveRate, results)
			if v.Boundary.Fixed != 100 || v.Boundary.Ours != 50 || len(v.Boundary.Bursts) != 2 {
				t.Errorf("around the boundary: %+v", v.Boundary)
			}
			if err := v.broken(); err != nil {
				t.Error(err)
			}
		})
	}
}

// proveSeed replays bursts at random.
const proveSeed = "HEADROOM_TEST_SEED"

// No timeline makes a limiter let more through than its worst case: neither a burst after
// each pause nor random bursts.
func TestNoTimelineIsWorse(t *testing.T) {
	seed := rand.Uint64()
	if text := os.Getenv(proveSeed); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("again: %s=%d", proveSeed, seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const step = 200 * time.Millisecond
	var timelines []boundary.Timeline
	for pause := range 2 * proveLimit {
		t := boundary.Timeline{Steps: []boundary.Step{{Ask: 1}}}
		for i := range 2 * proveLimit {
			t.Steps = append(t.Steps, boundary.Step{After: step*time.Duration(pause+i) + 150*time.Millisecond, Ask: proveLimit, Give: true})
		}
		timelines = append(timelines, t)
	}
	for range scaledProve(100, 10_000) {
		var t boundary.Timeline
		for i := range 4 * proveLimit {
			if random.IntN(4) == 0 {
				t.Steps = append(t.Steps, boundary.Step{After: step*time.Duration(i) + time.Duration(random.IntN(200))*time.Millisecond, Ask: 1 + random.IntN(proveLimit)})
			}
		}
		timelines = append(timelines, t)
	}
	for _, timeline := range timelines {
		h := openedProve(t, "memory:")
		results, err := boundary.Prove(t.Context(), h.clock, proveRate, []boundary.Timeline{timeline}, h.contenders(proveRate))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if got := r.Worst.Accepted; got > proveWorst[r.ID] {
				t.Fatalf("%s: %d accepted, which is above its worst, on %v", r.Name, got, timeline.Steps)
			}
		}
	}
}

func scaledProve(reduced, full int) int {
	if os.Getenv("HEADROOM_SOAK") == "1" {
		return full
	}
	return reduced
}

// On Redis it is the server's clock that decides, so how full the bursts are is up to
// the machine. The limiters that never exceed their limit do not here either.
func TestProveInRedis(t *testing.T) {
	t.Parallel()
	server, client := proveRedis(t)
	f := newFolder(t, 1000, "")
	r := f.run("prove", "--ledger", "redis://"+server.Addr+"/0", "--per", "1s", "--output", "json")
	if r.code != exitDone || r.stderr != "" {
		t.Fatalf("left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	var v proveView
	if err := json.Unmarshal([]byte(r.stdout), &v); err != nil {
		t.Fatal(err)
	}
	if !v.Real || len(v.Limiters) != 5 {
		t.Errorf("%+v", v)
	}
	for _, l := range v.Limiters {
		switch {
		case l.promises() && l.Accepted != v.Limit:
			t.Errorf("%s accepted %d of %d", l.Name, l.Accepted, v.Limit)
		case !l.promises() && l.OverBy <= 0:
			t.Errorf("%s accepted %d, which is not over: do they run?", l.Name, l.Accepted)
		}
	}
	proveLeft(t, client)
}

// An interrupt ends it at once and leaves nothing behind.
func TestProveInterrupted(t *testing.T) {
	t.Parallel()
	server, client := proveRedis(t)
	f := newFolder(t, 1000, "")
	cmd := f.program(t.Context(), "prove", "--ledger", "redis://"+server.Addr+"/0", "--per", "3s")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(stderr)
	if line, err := said.ReadString('\n'); err != nil || !strings.Contains(line, "takes up to 9.3s") {
		t.Errorf("it says %q, %v", line, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := redistest.Await(ctx, func() error { // until it is at it
		n, err := client.DBSize(ctx).Result()
		if err == nil && n < 2 {
			err = errors.New("no limiter has been asked")
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(said)
	if err := errors.Join(err, cmd.Wait()); err == nil || cmd.ProcessState.ExitCode() != exitDeferred {
		t.Errorf("left with %d: %v\n%s", cmd.ProcessState.ExitCode(), err, rest)
	}
	if !strings.Contains(string(rest), "interrupted") {
		t.Errorf("it says %q", rest)
	}
	proveLeft(t, client)
}

// foreign is a key of somebody else's.
const foreign = "headroom:{youtube/default}:page:units"

func proveRedis(t *testing.T) (*redistest.Server, *redis.Client) {
	t.Helper()
	server, err := redistest.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = client.Close() })
	if err := client.Set(t.Context(), foreign, "theirs", 0).Err(); err != nil {
		t.Fatal(err)
	}
	return server, client
}

func proveLeft(t *testing.T, client *redis.Client) {
	t.Helper()
	left, err := client.Keys(t.Context(), "*").Result()
	if err != nil || len(left) != 1 || left[0] != foreign {
		t.Errorf("left are %q, %v", left, err)
	}
}

func TestProvePicture(t *testing.T) {
	h := openedProve(t, "memory:")
	results, err := h.run(t.Context(), proveRate)
	if err != nil {
		t.Fatal(err)
	}
	picture := proved(h, proveRate, results).svg()
	golden := filepath.Join("testdata", "prove.svg") // the README shows it
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(golden, picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(picture, want) {
		t.Errorf("the picture is another one than %s; UPDATE=1 writes it anew, then look at it:\n%s", golden, picture)
	}
	for _, want := range []string{"100 pass within 2s: 2 times the limit", ">50 pass within 2s<", ">50 refused<", ">100, over by 50<", ">50, never over<", ">the limit: 50<"} {
		if !strings.Contains(string(picture), want) {
			t.Errorf("%q is not in the picture", want)
		}
	}
}
