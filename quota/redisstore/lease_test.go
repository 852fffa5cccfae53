package redisstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/quota/redisstore"
)

func TestLease(t *testing.T) {
	s := start(t)
	open := func() *redisstore.Store {
		t.Helper()
		store, err := redisstore.Open("redis://"+s.Addr, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		return store
	}
	one, two := open(), open()
	first, err := one.Lease(t.Context(), "default/charts", "process 1 on a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := two.Lease(t.Context(), "default/charts", "process 2 on b"); !errors.Is(err, redisstore.ErrLeased) || !strings.Contains(err.Error(), "process 1 on a") {
		t.Fatalf("a lease that is held: %v", err)
	}
	if other, err := two.Lease(t.Context(), "default/other", "process 2 on b"); err != nil {
		t.Fatal(err)
	} else if err := other.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
	second, err := two.Lease(t.Context(), "default/charts", "process 2 on b")
	if err != nil {
		t.Fatal(err)
	}
	if second.Token() <= first.Token() {
		t.Errorf("token %d after %d: it must rise with each holder", second.Token(), first.Token())
	}
	// the process behind it dies: after its life another one has it
	client := redis.NewClient(&redis.Options{Addr: s.Addr})
	t.Cleanup(func() { _ = client.Close() })
	keys, err := client.Keys(t.Context(), "*charts*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys %v: %v", keys, err)
	}
	if err := client.HSet(t.Context(), keys[0], "until", time.Now().Add(-time.Second).UnixMicro()).Err(); err != nil {
		t.Fatal(err)
	}
	third, err := one.Lease(t.Context(), "default/charts", "process 1 on a")
	if err != nil || third.Token() <= second.Token() {
		t.Fatalf("token %v: %v", third, err)
	}
	if err := second.Unlock(); err != nil {
		t.Fatal(err)
	}
	if _, err := two.Lease(t.Context(), "default/charts", "process 2 on b"); !errors.Is(err, redisstore.ErrLeased) {
		t.Errorf("who has lost a lease must not give back another's: %v", err)
	}
	if err := third.Unlock(); err != nil {
		t.Fatal(err)
	}
	// it was taken while the server's clock was far ahead
	if err := client.HSet(t.Context(), keys[0], "until", time.Now().AddDate(70, 0, 0).UnixMicro()).Err(); err != nil {
		t.Fatal(err)
	}
	fourth, err := two.Lease(t.Context(), "default/charts", "process 2 on b")
	if err != nil {
		t.Fatalf("a clock that had been far ahead shut the job: %v", err)
	}
	if err := fourth.Unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefused(t *testing.T) {
	for _, tt := range []struct{ name, address, want string }{
		{"another scheme", "http://:secret@localhost:6379", "invalid URL scheme"},
		{"a database that is no number", "redis://:secret@localhost:6379/x", "invalid database number"},
		{"no URL", "redis://:secret@local host:6379", "no URL"},
		{"an unknown option", "redis://:secret@localhost:6379?speed=high", "unexpected option"},
		{"a password for Sentinel", "redis://localhost:26379?master_name=main&sentinel_password=secret&db=x", "invalid database number"},
		{"a password that is no option", "redis://localhost:6379?password=secret", "unexpected option: password"},
		{"a password for a name", "redis://secret@localhost:6379/x", "invalid database number"},
		{"a password with a slash", "redis://:1/secret@localhost:6379/0", "as %2F"},
		{"a password with a question mark", "redis://:1?secret@localhost:6379", "as %2F"},
		{"a password with a hash", "redis://user:1#secret@localhost:6379", "as %2F"},
		{"a password with an at and a slash", "redis://user:1@2/secret@localhost:6379", "as %2F"},
		{"a replica's answers", "redis://:secret@localhost:7001?addr=localhost:7002&read_only=true", "must not read from replicas"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := redisstore.Open(tt.address, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want %q and no password", err, tt.want)
			}
		})
	}
}
