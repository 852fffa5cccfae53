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

// oldest is the first major version whose scripts replicate by their effects: one
// that replicates them by their text would repeat the clock's reading.
const oldest = 5

// Check connects and looks at the server's settings. An error means that it cannot
// be used; a warning names the setting that should be another.
func (s *Store) Check(ctx context.Context) (warnings []string, err error) {
	var mu sync.Mutex // the masters of a cluster are asked at once
	var found []string
	check := func(ctx context.Context, c *redis.Client) error {
		w, err := checkServer(ctx, c)
		mu.Lock()
		defer mu.Unlock()
		found = append(found, w...)
		return err
	}
	err = s.within(ctx, func(ctx context.Context) error {
		switch c := s.client.(type) {
		case *redis.ClusterClient:
			return c.ForEachMaster(ctx, check)
		case *redis.Client:
			return check(ctx, c)
		}
		return s.client.Process(ctx, once{redis.NewStatusCmd(ctx, "ping")})
	})
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(found)
	return slices.Clone(found), err
}

func checkServer(ctx context.Context, c *redis.Client) (warnings []string, err error) {
	info := redis.NewStringCmd(ctx, "info") // of more than one section only Redis 7 lets itself be asked
	if err := c.Process(ctx, once{info}); err != nil {
		return nil, fmt.Errorf("ask %s what it is: %w", c.Options().Addr, err)
	}
	field := make(map[string]string)
	for line := range strings.Lines(info.Val()) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			field[name] = value
		}
	}
	addr := c.Options().Addr
	major, err := strconv.Atoi(strings.SplitN(field["redis_version"], ".", 2)[0])
	if err != nil || major < oldest {
		return nil, fmt.Errorf("%s is Redis %q; a ledger needs %d.0 or later", addr, field["redis_version"], oldest)
	}
	if role := field["role"]; role != "" && role != "master" {
		return nil, fmt.Errorf("%s is a %s; a ledger needs the master", addr, role)
	}
	if policy := field["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		warnings = append(warnings, fmt.Sprintf("%s has maxmemory-policy %s, which silently forgets spend: set it to noeviction", addr, policy))
	}
	if field["aof_enabled"] == "0" {
		warnings = append(warnings, fmt.Sprintf("%s has appendonly no: a restart forgets spend since the last snapshot, and calls are refused until it is put back; set appendonly yes", addr))
	}
	return warnings, nil
}
