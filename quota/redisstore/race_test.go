package redisstore_test

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/testing/childtest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/redisstore"
)

// Environment variables that configure a child process, apart from its task.
const (
	childPrefix = "HEADROOM_TEST_PREFIX"
	childTries  = "HEADROOM_TEST_TRIES"
	childLimit  = "HEADROOM_TEST_LIMIT"
)

// children are the tasks of child processes. The path of a task is the server's address.
var children = map[string]childtest.Task{"race": race}

// race reserves a unit so many times, and says how often that was granted.
func race(addr string, begin func() bool, out io.Writer) error {
	tries, err := strconv.Atoi(os.Getenv(childTries))
	if err != nil {
		return err
	}
	limit, err := strconv.ParseInt(os.Getenv(childLimit), 10, 64)
	if err != nil {
		return err
	}
	s, err := redisstore.New(redis.NewClient(&redis.Options{Addr: addr}), &redisstore.Options{Prefix: os.Getenv(childPrefix)})
	if err != nil {
		return err
	}
	begin()
	granted := 0
	for i := range tries {
		id := fmt.Sprintf("%d-%d", os.Getpid(), i)
		v, err := s.Reserve(bg, quota.Request{ID: id, Fresh: true, Charges: []quota.Charge{units(1, limit)}})
		if err != nil {
			return err
		}
		if v.Allowed {
			granted++
		}
	}
	_, err = fmt.Fprintln(out, granted)
	return err
}

func TestProcessesShareOneLimit(t *testing.T) {
	const processes = 8
	tries, limit := scaled(50, 500), int64(scaled(100, 1000))
	p := prefix()
	var all []*childtest.Child
	for range processes {
		all = append(all, childtest.Start(t, "race", server.Addr, childPrefix+"="+p,
			childTries+"="+strconv.Itoa(tries), childLimit+"="+strconv.FormatInt(limit, 10)))
	}
	for _, c := range all {
		c.Begin()
	}
	granted, busy := 0, 0
	for _, c := range all {
		line := c.Line()
		n, err := strconv.Atoi(line)
		if err != nil {
			t.Fatalf("a process says %q", line)
		}
		c.Rest()
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
