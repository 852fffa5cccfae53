package redisstore_test

import (
	"context"
	"errors"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota/redisstore"
)

// set changes settings: a name, its value, and so on.
func set(t *testing.T, s *redistest.Server, settings ...string) {
	t.Helper()
	for i := 0; i < len(settings); i += 2 {
		run(t, s, "config", "set", settings[i], settings[i+1])
	}
}

// check returns what Check says, and checks that it names the server.
func check(t *testing.T, c redis.UniversalClient, addrs ...string) ([]string, error) {
	t.Helper()
	warnings, err := open(t, c, prefix()).Check(patient(t))
	said := strings.Join(warnings, "\n")
	if err != nil {
		said = err.Error()
	}
	for _, addr := range addrs {
		if said != "" && !strings.Contains(said, addr) {
			t.Errorf("%q does not say that it is about %s", said, addr)
		}
	}
	return warnings, err
}

func TestCheckWarnsOfSettings(t *testing.T) {
	sound := []string{"maxmemory-policy", "noeviction", "appendonly", "yes", "appendfsync", "everysec", "save", "3600 1"}
	s := start(t)
	for _, test := range []struct {
		name string
		set  []string
		want []string // what a warning holds; none for no warning
	}{
		{"as they should be", nil, nil},
		{"nor are snapshots needed beside the file", []string{"save", ""}, nil},
		{"eviction of any key", []string{"maxmemory-policy", "allkeys-lru"}, []string{"maxmemory-policy allkeys-lru", "set maxmemory-policy noeviction"}},
		{"eviction of keys that expire, as all do", []string{"maxmemory-policy", "volatile-ttl"}, []string{"maxmemory-policy volatile-ttl", "set maxmemory-policy noeviction"}},
		{"snapshots only", []string{"appendonly", "no"}, []string{"since the last snapshot", "set appendonly yes"}},
		{"nothing on disk", []string{"appendonly", "no", "save", ""}, []string{"no save", "forgets all", "set appendonly yes"}},
		{"written whenever the system likes", []string{"appendfsync", "no"}, []string{"appendfsync no", "set appendfsync everysec"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			set(t, s, append(sound, test.set...)...)
			warnings, err := check(t, dial(t, s.Addr), s.Addr)
			if err != nil {
				t.Fatal(err)
			}
			if len(warnings) != min(len(test.want), 1) {
				t.Fatalf("%d warnings: %q", len(warnings), warnings)
			}
			for _, part := range test.want {
				if !strings.Contains(warnings[0], part) {
					t.Errorf("%q does not say %q", warnings[0], part)
				}
			}
		})
	}
	t.Run("which it may not ask for", func(t *testing.T) {
		set(t, s, append(sound, "appendonly", "no", "save", "")...)
		run(t, s, "acl", "setuser", "guest", "on", "nopass", "~*", "&*", "+@all", "-config")
		c := redis.NewClient(&redis.Options{Addr: s.Addr, Username: "guest", Password: "any"})
		defer c.Close()
		warnings, err := check(t, c, s.Addr)
		if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "set appendonly yes") {
			t.Errorf("got %q, %v; want a warning of appendonly", warnings, err)
		}
	})
}

func TestCheckOfReplicas(t *testing.T) {
	keep := []string{"--save", "", "--appendonly", "yes"}
	master := start(t, keep...)
	host, port, _ := strings.Cut(master.Addr, ":")
	replica := start(t, append(keep, "--replicaof", host+" "+port)...)
	if _, err := check(t, dial(t, replica.Addr), replica.Addr, master.Addr); err == nil || !strings.Contains(err.Error(), "replicaof") {
		t.Errorf("a replica: got %v, want an error that names replicaof", err)
	}
	err := redistest.Await(patient(t), func() error {
		return master.With(func(c *redis.Client) error {
			info, err := c.Info(bg, "replication").Result()
			if err == nil && !strings.Contains(info, "connected_slaves:1") {
				err = errors.New(info)
			}
			return err
		})
	})
	if err != nil {
		t.Fatal("the replica never connects:", err)
	}
	warnings, err := check(t, dial(t, master.Addr), master.Addr)
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "set min-replicas-to-write 1") {
		t.Errorf("a master of a replica: got %q, %v; want a warning of min-replicas-to-write", warnings, err)
	}
	set(t, master, "min-replicas-to-write", "1")
	if warnings, err := check(t, dial(t, master.Addr), master.Addr); err != nil || len(warnings) != 0 {
		t.Errorf("a master that waits for its replica: got %q, %v", warnings, err)
	}
}

func TestCheckOfAClusterLooksAtEveryMaster(t *testing.T) {
	all := startedCluster(t)
	warnings, err := check(t, dialCluster(t, redis.ClusterOptions{}), all.Addrs()...)
	if err != nil || len(warnings) != len(all.Masters) {
		t.Errorf("got %q, %v; want a warning of appendonly for each master", warnings, err)
	}
	one := all.Masters[0]
	warnings, err = check(t, dial(t, one.Addr), one.Addr)
	if err != nil || !strings.Contains(strings.Join(warnings, "\n"), "cluster-enabled") {
		t.Errorf("by a client for one server: got %q, %v; want a warning of cluster-enabled", warnings, err)
	}
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr}})
	defer c.Close()
	if _, err := check(t, c); err == nil {
		t.Error("a cluster client of a server without a cluster: no error")
	}
}

// aged makes a server report another major version, because older servers are not
// available here.
type aged struct {
	net.Conn
	major string
}

var version = regexp.MustCompile(`(redis_version:)\d`)

func (c aged) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	copy(b, version.ReplaceAll(b[:n], []byte("${1}"+c.major)))
	return n, err
}

func TestCheckRefusesOldServers(t *testing.T) {
	for major, sound := range map[string]bool{"2": false, "4": false, "x": false, "5": true, "6": true, "9": true} {
		c := redis.NewClient(&redis.Options{Addr: server.Addr, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return aged{conn, major}, err
		}})
		defer c.Close()
		_, err := check(t, c)
		if sound != (err == nil) {
			t.Errorf("version %s: got %v, want it to be accepted: %t", major, err, sound)
		}
		if err != nil && (!strings.Contains(err.Error(), "Redis \""+major+".") || !strings.Contains(err.Error(), "5.0 or later")) {
			t.Errorf("version %s: %v does not say which version is needed", major, err)
		}
	}
}

func TestCheckOfAServerThatIsNotThere(t *testing.T) {
	s := start(t)
	s.Kill()
	store, err := redisstore.New(dial(t, s.Addr), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Check(patient(t)); err == nil || !strings.Contains(err.Error(), s.Addr) {
		t.Errorf("got %v, want an error that names %s", err, s.Addr)
	}
}
