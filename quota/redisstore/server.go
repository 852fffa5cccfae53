package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// oldest is the first major version that replicates the effects of scripts. Older
// versions replicate the text, so a replica would read the clock again.
const oldest = 5

// Check connects and looks at the server's settings. An error means that it cannot
// be used; a warning names the setting that should be another.
func (s *Store) Check(ctx context.Context) (warnings []string, err error) {
	var mu sync.Mutex // the masters of a cluster are asked at once
	var found []string
	check := func(clustered bool) func(context.Context, *redis.Client) error {
		return func(ctx context.Context, c *redis.Client) error {
			w, err := checkServer(ctx, c, clustered)
			mu.Lock()
			defer mu.Unlock()
			found = append(found, w...)
			return err
		}
	}
	err = s.within(ctx, func(ctx context.Context) error {
		mu.Lock()
		found = nil // of a first try
		mu.Unlock()
		switch c := s.client.(type) {
		case *redis.ClusterClient:
			if err := c.ForEachMaster(ctx, check(true)); err != nil {
				return fmt.Errorf("check the cluster: %w", err)
			}
			return nil
		case *redis.Client:
			return check(false)(ctx, c)
		}
		return s.client.Process(ctx, once{redis.NewStatusCmd(ctx, "ping")})
	})
	if err != nil {
		return nil, err // some may still be under way
	}
	slices.Sort(found)
	return found, nil
}

// checkServer checks one server. clustered says whether its client expects a cluster.
func checkServer(ctx context.Context, c *redis.Client, clustered bool) (warnings []string, err error) {
	addr := c.Options().Addr
	info := redis.NewStringCmd(ctx, "info") // of more than one section only Redis 7 lets itself be asked
	if err := c.Process(ctx, once{info}); err != nil {
		return nil, fmt.Errorf("ask %s what it is: %w", addr, err)
	}
	field := make(map[string]string)
	for line := range strings.Lines(info.Val()) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			field[name] = value
		}
	}
	major, err := strconv.Atoi(strings.SplitN(field["redis_version"], ".", 2)[0])
	if err != nil || major < oldest {
		return nil, fmt.Errorf("%s is Redis %q; a ledger needs %d.0 or later", addr, field["redis_version"], oldest)
	}
	if field["role"] == "slave" {
		return nil, fmt.Errorf("%s is a replica (replicaof %s:%s), whose answers are stale; connect to its master", addr, field["master_host"], field["master_port"])
	}

	warn := func(format string, args ...any) {
		warnings = append(warnings, addr+" has "+fmt.Sprintf(format, args...))
	}
	if field["cluster_enabled"] == "1" && !clustered {
		warn("cluster-enabled yes, and this client does not follow a cluster: connect with redis.NewClusterClient")
	}
	if policy := field["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		warn("maxmemory-policy %s, which silently forgets spend: set maxmemory-policy noeviction", policy)
	}
	switch {
	case field["aof_enabled"] != "0":
		if setting(ctx, c, "appendfsync") == "no" {
			warn("appendfsync no: a crash forgets what the system had not written yet, some 30 seconds of spend; set appendfsync everysec or always")
		}
	case setting(ctx, c, "save") == "":
		warn("appendonly no and no save: a restart forgets all spend, and calls are refused until it is put back; set appendonly yes")
	default:
		warn("appendonly no: a restart forgets spend since the last snapshot (save), and only who saw it there notices; set appendonly yes")
	}
	if _, waits := field["min_slaves_good_slaves"]; !waits && field["connected_slaves"] != "0" && field["connected_slaves"] != "" {
		warn("replicas and min-replicas-to-write 0: a master that is cut off from them goes on granting, and a failover forgets that; set min-replicas-to-write 1")
	}
	return warnings, nil
}

// setting returns a setting of the server, or "?" if the user may not read it.
func setting(ctx context.Context, c *redis.Client, name string) string {
	get := redis.NewMapStringStringCmd(ctx, "config", "get", name)
	if err := c.Process(ctx, once{get}); err != nil {
		return "?"
	}
	return get.Val()[name]
}
