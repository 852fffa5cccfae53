package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
)

// printInstructions counts the instructions that the server executes for a call of each
// contender, its reading and writing included. Nothing else on the machine changes that.
func printInstructions(ctx context.Context, only string) (err error) {
	dir, err := os.MkdirTemp("", "bench-redis")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	server, err := counting(dir)
	if err != nil {
		return err
	}
	defer server.Kill()
	client := redis.NewClient(&redis.Options{Addr: server.Addr, PoolSize: 1, ReadTimeout: time.Minute})
	defer func() { _ = client.Close() }()
	pid, err := info(ctx, client, "server", "process_id:")
	if err != nil {
		return err
	}
	fmt.Println("cost  instructions  vs AllowN")
	for _, cost := range costs {
		var peer float64
		for i, c := range contenders {
			if c.name != gcra && !strings.Contains(c.name, only) {
				continue
			}
			do, err := c.open(ctx, client, fmt.Sprintf("%d:%d:", i, cost), cost)
			if err == nil {
				err = times(ctx, 50, do)
			}
			if err == nil {
				err = control(ctx, "-z", pid)
			}
			const calls = 500
			if err == nil {
				err = times(ctx, calls, do)
			}
			if err == nil {
				err = control(ctx, "-d", pid)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			n, err := dumped(dir)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if n /= calls; c.name == gcra {
				peer = n
			}
			fmt.Printf("%4d  %12.0f  %9.2f  %s\n", cost, n, n/peer, c.name)
		}
	}
	return nil
}

// control tells valgrind to set its counts to zero (-z), or to write them down (-d).
func control(ctx context.Context, do, pid string) error {
	out, err := exec.CommandContext(ctx, "callgrind_control", do, pid).CombinedOutput()
	if err != nil {
		return fmt.Errorf("callgrind_control %s: %w\n%s", do, err, out)
	}
	return nil
}

var totals = regexp.MustCompile(`(?m)^(?:totals|summary): (\d+)`)

// dumped reads and removes what valgrind has written down.
func dumped(dir string) (float64, error) {
	names, err := filepath.Glob(filepath.Join(dir, "counts.*"))
	if err != nil || len(names) != 1 {
		return 0, fmt.Errorf("valgrind has written %d files: %w", len(names), err)
	}
	text, err := os.ReadFile(names[0])
	if err != nil {
		return 0, err
	}
	found := totals.FindSubmatch(text)
	if found == nil {
		return 0, errors.New("valgrind counted nothing")
	}
	n, err := strconv.ParseFloat(string(found[1]), 64)
	return n, errors.Join(err, os.Remove(names[0]))
}

// counting starts a server under valgrind, in the place of the one that is installed.
func counting(dir string) (*redistest.Server, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, err
	}
	if _, err := exec.LookPath("valgrind"); err != nil {
		return nil, fmt.Errorf("valgrind is not installed: apt-get install valgrind: %w", err)
	}
	script := fmt.Sprintf("#!/bin/sh\nexec valgrind --tool=callgrind --callgrind-out-file=%[1]s/counts --log-file=%[1]s/valgrind.log %[2]s \"$@\"\n", dir, path)
	if err := os.WriteFile(filepath.Join(dir, "redis-server"), []byte(script), 0o700); err != nil {
		return nil, err
	}
	before := os.Getenv("PATH")
	defer func() { _ = os.Setenv("PATH", before) }()
	if err := os.Setenv("PATH", dir+string(os.PathListSeparator)+before); err != nil {
		return nil, err
	}
	return redistest.Start(dir, "--save", "", "--hz", "1") // its timers count, too
}
