package redisstore_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/redisstore"
)

// A process of its own is this binary again, with what it is to do in its
// environment.
const (
	childAddr   = "HEADROOM_TEST_REDIS"
	childPrefix = "HEADROOM_TEST_PREFIX"
	childTries  = "HEADROOM_TEST_TRIES"
	childLimit  = "HEADROOM_TEST_LIMIT"
)

// child does what such a process is to do, and reports whether this is one: it says
// "ready", waits for a line, reserves a unit so many times, and says how often that
// was granted.
func child() bool {
	addr := os.Getenv(childAddr)
	if addr == "" {
		return false
	}
	tries, _ := strconv.Atoi(os.Getenv(childTries))
	limit, _ := strconv.ParseInt(os.Getenv(childLimit), 10, 64)
	s, err := redisstore.New(redis.NewClient(&redis.Options{Addr: addr}), &redisstore.Options{Prefix: os.Getenv(childPrefix)})
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	granted := 0
	for i := 0; i < tries && err == nil; i++ {
		var v quota.Verdict
		id := fmt.Sprintf("%d-%d", os.Getpid(), i)
		v, err = s.Reserve(bg, quota.Request{ID: id, Fresh: true, Charges: []quota.Charge{units(1, limit)}})
		if v.Allowed && err == nil {
			granted++
		}
	}
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	fmt.Println(granted)
	return true
}

func TestProcessesShareOneLimit(t *testing.T) {
	const processes = 8
	tries, limit := scaled(50, 500), int64(scaled(100, 1000))
	p := prefix()
	type running struct {
		cmd *exec.Cmd
		in  io.WriteCloser
		out *bufio.Reader
	}
	var all []running
	for range processes {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childAddr+"="+server.Addr, childPrefix+"="+p,
			childTries+"="+strconv.Itoa(tries), childLimit+"="+strconv.FormatInt(limit, 10))
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
		t.Cleanup(func() { cmd.Process.Kill() })
		all = append(all, running{cmd, in, bufio.NewReader(out)})
	}
	for _, c := range all {
		if line, err := c.out.ReadString('\n'); line != "ready\n" {
			t.Fatalf("a process says %q: %v", line, err)
		}
	}
	for _, c := range all {
		io.WriteString(c.in, "\n")
	}
	granted, busy := 0, 0
	for _, c := range all {
		line, _ := c.out.ReadString('\n')
		n, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatalf("a process says %q", line)
		}
		if err := c.cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		granted += n
		if n > 0 {
			busy++
		}
	}
	t.Logf("%d processes x %d tries: %d of %d units granted, to %d processes", processes, tries, granted, limit, busy)
	if int64(granted) != limit {
		t.Errorf("%d units granted, want exactly %d", granted, limit)
	}
	pages, err := open(t, dial(t, server.Addr), p).Look(bg, []quota.Charge{units(0, limit)})
	if err != nil {
		t.Fatal(err)
	}
	if n := pages[0].Windows[0].Used; n != limit {
		t.Errorf("%d units used, want %d", n, limit)
	}
}
