package redisstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
)

// A command that the server refuses is an outage. The error says what to do, and the
// ledger does not change.
func TestWhatTheServerRefuses(t *testing.T) {
	charges := []quota.Charge{units(3, 10)}
	for _, tt := range []struct {
		name   string
		server func(*testing.T) (*redistest.Server, *redis.Client)
		says   []string
	}{
		{"writes to a replica", func(t *testing.T) (*redistest.Server, *redis.Client) {
			s := start(t)
			run(t, s, "replicaof", "127.0.0.1", "1")
			return nil, dial(t, s.Addr)
		}, []string{"READONLY", "connect to its master"}},
		{"more memory", func(t *testing.T) (*redistest.Server, *redis.Client) {
			s := start(t)
			set(t, s, "maxmemory", "1")
			return s, dial(t, s.Addr)
		}, []string{"OOM", "raise its maxmemory"}},
		{"no password", func(t *testing.T) (*redistest.Server, *redis.Client) {
			s := start(t)
			set(t, s, "requirepass", "right")
			return nil, dial(t, s.Addr)
		}, []string{"NOAUTH", "user and password"}},
		{"the wrong password", func(t *testing.T) (*redistest.Server, *redis.Client) {
			s := start(t)
			set(t, s, "requirepass", "right")
			c := redis.NewClient(&redis.Options{Addr: s.Addr, Password: "secret"})
			t.Cleanup(func() { c.Close() })
			return nil, c
		}, []string{"WRONGPASS", "user and password"}},
		{"what an ACL forbids", func(t *testing.T) (*redistest.Server, *redis.Client) {
			s := start(t)
			run(t, s, "acl", "setuser", "guest", "on", "nopass", "~*", "&*", "+@all", "-evalsha", "-eval")
			c := redis.NewClient(&redis.Options{Addr: s.Addr, Username: "guest", Password: "secret"})
			t.Cleanup(func() { c.Close() })
			return s, c
		}, []string{"NOPERM", "user and password"}},
		{"a node of a Cluster that its client does not follow", func(t *testing.T) (*redistest.Server, *redis.Client) {
			for _, one := range startedCluster(t).Masters {
				c := dial(t, one.Addr)
				if err := c.Get(bg, "{api/default}:page:units").Err(); redis.HasErrorPrefix(err, "MOVED") {
					return nil, c
				}
			}
			t.Fatal("every master has the slot")
			return nil, nil
		}, []string{"MOVED", "its nodes"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server, c := tt.server(t)
			_, err := open(t, c, "").Reserve(bg, quota.Request{ID: "a", Charges: charges})
			for _, want := range tt.says {
				if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
					t.Errorf("%v does not say %q", err, want)
				}
			}
			if errors.Is(err, quota.ErrBadInput) {
				t.Errorf("%v passes for bad input", err)
			}
			if server != nil {
				if keys, _ := run(t, server, "keys", "*").([]any); len(keys) != 0 {
					t.Errorf("%q were written", keys)
				}
			}
		})
	}
}
