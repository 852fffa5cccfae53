package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/ledger"
	"github.com/headroom-quota/headroom/internal/testing/redistest"
)

// On Redis it is the server's clock that decides, so how full the bursts are is up to
// the machine. The limiters that never exceed their limit do not here either.
func TestProveInRedis(t *testing.T) {
	t.Parallel()
	server, client := proveRedis(t)
	f := newFolder(t, 1000, "")
	r := f.run("prove", "--ledger", "redis://"+server.Addr+"/0", "--per", "1s", "--output", "json")
	if r.code != console.ExitDone || r.stderr != "" {
		t.Fatalf("left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	var v ledger.ProveView
	if err := json.Unmarshal([]byte(r.stdout), &v); err != nil {
		t.Fatal(err)
	}
	if !v.Real || len(v.Limiters) != 5 {
		t.Errorf("%+v", v)
	}
	for _, l := range v.Limiters {
		switch {
		case l.Promises() && l.Accepted != v.Limit:
			t.Errorf("%s accepted %d of %d", l.Name, l.Accepted, v.Limit)
		case !l.Promises() && l.OverBy <= 0:
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
	if err := errors.Join(err, cmd.Wait()); err == nil || cmd.ProcessState.ExitCode() != console.ExitDeferred {
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
