package redisstore_test

import (
	"sync"
	"testing"

	"github.com/headroom-quota/headroom/quota/redisstore"
)

// Processes that meet at first use make one identity. It goes with the data.
func TestIdentity(t *testing.T) {
	sv := start(t)
	p := prefix()
	var mu sync.Mutex
	ids := map[string]int{}
	var all sync.WaitGroup
	for range 16 {
		s := open(t, dial(t, sv.Addr), p)
		all.Go(func() {
			id, err := s.Identity(bg, "api", "default")
			if err != nil || id == "" {
				t.Errorf("%q, %v", id, err)
			}
			mu.Lock()
			defer mu.Unlock()
			ids[id]++
		})
	}
	all.Wait()
	if len(ids) != 1 {
		t.Errorf("there are %d identities: %v", len(ids), ids)
	}
	s := open(t, dial(t, sv.Addr), p)
	other, err := s.Identity(bg, "api", "staging")
	if err != nil || ids[other] != 0 {
		t.Errorf("another account has the same identity, %q, %v", other, err)
	}
	run(t, sv, "flushall")
	if id, err := s.Identity(bg, "api", "default"); err != nil || ids[id] != 0 {
		t.Errorf("without its data it is still %q, %v", id, err)
	}
}

func TestCanonical(t *testing.T) {
	for address, want := range map[string]string{
		"redis://User:secret@Redis.Example:6379/0?protocol=2": "redis://redis.example:6379?db=0",
		"redis://redis.example":                               "redis://redis.example:6379?db=0",
		"redis://redis.example/3":                             "redis://redis.example:6379?db=3",
		"redis://redis.example?db=3":                          "redis://redis.example:6379?db=3",
		"rediss://redis.example:7000":                         "rediss://redis.example:7000?db=0",
		"redis://[::1]:7000/1":                                "redis://[::1]:7000?db=1",
		"unix:///run/redis.sock?db=2":                         "unix:///run/redis.sock?db=2",
		"unix://me:secret@/run/redis.sock":                    "unix:///run/redis.sock?db=0",
		"redis://b:1?addr=A:2&addr=c":                         "redis://a:2,b:1,c:6379?db=0",
		"redis://s2:1/4?master_name=main&addr=s1:1":           "redis://s1:1,s2:1?db=4&master_name=main",
	} {
		if got, err := redisstore.Canonical(address, ""); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", address, got, err, want)
		}
	}
	if got, _ := redisstore.Canonical("redis://h", "test:"); got != "redis://h:6379?db=0&prefix=test%3A" {
		t.Errorf("with a prefix: %s", got)
	}
	if got, err := redisstore.Canonical("redis://h:secret%zz", ""); err == nil {
		t.Errorf("no URL, but %s", got)
	}
}
