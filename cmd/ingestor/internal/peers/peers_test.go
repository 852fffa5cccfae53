package peers_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/peers"
	"github.com/headroom-quota/headroom/internal/boundary"
	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
)

var start = time.Date(2026, time.November, 20, 12, 0, 0, 0, time.UTC)

// answers asks this often at each second, and returns how many were accepted.
func answers(t *testing.T, clock *quota.SimClock, limiter boundary.Limiter, timeline [][2]int) string {
	t.Helper()
	var all strings.Builder
	for _, step := range timeline {
		clock.Set(start.Add(time.Duration(step[0]) * time.Second))
		accepted := 0
		for range step[1] {
			at, ok, err := limiter(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				accepted++
				if !at.Equal(clock.Now()) {
					t.Errorf("accepted at %s, when it was %s", at, clock.Now())
				}
			}
		}
		fmt.Fprintf(&all, " %ds:%d", step[0], accepted)
	}
	return all.String()
}

// In memory and in SQLite they answer alike.
func TestOnAMovedClock(t *testing.T) {
	r := boundary.Rate{Limit: 5, Per: 10 * time.Second}
	timeline := [][2]int{{0, 3}, {9, 4}, {10, 7}, {11, 2}, {12, 3}, {40, 6}, {50, 1}}
	for _, home := range []struct {
		name string
		open func(t *testing.T, clock quota.Clock) peers.Home
	}{
		{"memory", func(_ *testing.T, clock quota.Clock) peers.Home { return &peers.Memory{Clock: clock} }},
		{"sqlite", func(t *testing.T, clock quota.Clock) peers.Home {
			s, err := peers.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "peers.db"), clock)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			return s
		}},
	} {
		t.Run(home.name, func(t *testing.T) {
			clock := quota.NewSimClock(start)
			h := home.open(t, clock)
			if got, want := answers(t, clock, h.Fixed("fixed", r), timeline), " 0s:3 9s:2 10s:5 11s:0 12s:0 40s:5 50s:1"; got != want {
				t.Errorf("fixed window\n%s, want\n%s", got, want)
			}
			if got, want := answers(t, clock, h.GCRA("gcra", r), timeline), " 0s:3 9s:4 10s:1 11s:1 12s:0 40s:5 50s:1"; got != want {
				t.Errorf("GCRA\n%s, want\n%s", got, want)
			}
			clock.Set(start)
			if got, want := answers(t, clock, h.GCRA("another", r), [][2]int{{0, 6}}), " 0s:5"; got != want {
				t.Errorf("under another name\n%s, want\n%s", got, want)
			}
		})
	}
}

func TestInRedis(t *testing.T) {
	t.Run("single", func(t *testing.T) {
		server, err := redistest.Start(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Kill)
		inRedis(t, redis.NewClient(&redis.Options{Addr: server.Addr}))
	})
	t.Run("cluster", func(t *testing.T) {
		servers, err := redistest.StartCluster(t.TempDir(), 3)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(servers.Kill)
		inRedis(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: servers.Addrs()}))
	})
}

// foreign is a key of somebody else's.
const foreign = "headroom:{youtube/default}:page:units"

func inRedis(t *testing.T, client redis.UniversalClient) {
	t.Cleanup(func() { _ = client.Close() })
	if err := client.Set(t.Context(), foreign, "theirs", 0).Err(); err != nil {
		t.Fatal(err)
	}
	home := peers.NewRedis(client, "ours:")
	clock, err := home.Clock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := boundary.Rate{Limit: 5, Per: 24 * time.Hour} // nothing comes back while this runs
	for name, limiter := range map[string]boundary.Limiter{"fixed": home.Fixed("fixed", r), "gcra": home.GCRA("gcra", r)} {
		began, accepted := clock.Now(), 0
		for range 8 {
			at, ok, err := limiter(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				accepted++
				if at.Before(began.Add(-time.Minute)) || at.After(clock.Now().Add(time.Minute)) {
					t.Errorf("%s: accepted at %s, when it is %s", name, at, clock.Now())
				}
			}
		}
		if accepted != 5 && began.Truncate(r.Per).Equal(clock.Now().Truncate(r.Per)) {
			t.Errorf("%s: accepted %d of a limit of 5", name, accepted)
		}
	}
	if ours := keys(t, client, "ours:*"); len(ours) < 2 {
		t.Errorf("there are %q", ours)
	} else if i := slices.IndexFunc(ours, func(key string) bool { return client.PTTL(t.Context(), key).Val() <= 0 }); i >= 0 {
		t.Errorf("%s would stay for ever", ours[i])
	}
	if err := home.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := keys(t, client, "*"); !slices.Equal(left, []string{foreign}) {
		t.Errorf("left are %q", left)
	}
}

func keys(t *testing.T, client redis.UniversalClient, pattern string) []string {
	t.Helper()
	var mu sync.Mutex // nodes of a cluster are asked at once
	var all []string
	ask := func(ctx context.Context, c *redis.Client) error {
		some, err := c.Keys(ctx, pattern).Result()
		mu.Lock()
		defer mu.Unlock()
		all = append(all, some...)
		return err
	}
	var err error
	switch c := client.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(t.Context(), ask)
	case *redis.Client:
		err = ask(t.Context(), c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}
