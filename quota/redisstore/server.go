package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// oldest is the first major version whose scripts replicate by their effects: one
// that replicates them by their text would repeat the clock's reading.
const oldest = 5

// Check connects and looks at the server's settings. An error means that it cannot
// be used; a warning names the setting that should be another.
func (s *Store) Check(ctx context.Context) (warnings []string, err error) {
	check := func(ctx context.Context, c *redis.Client) error {
		w, err := checkServer(ctx, c)
		warnings = append(warnings, w...)
		return err
	}
	switch c := s.client.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(ctx, check)
	case *redis.Client:
		err = check(ctx, c)
	default:
		err = s.client.Ping(ctx).Err()
	}
	return warnings, err
}

func checkServer(ctx context.Context, c *redis.Client) (warnings []string, err error) {
	info, err := c.Info(ctx, "server", "memory", "replication", "persistence", "cluster").Result()
	if err != nil {
		return nil, fmt.Errorf("ask %s what it is: %w", c.Options().Addr, err)
	}
	field := make(map[string]string)
	for line := range strings.Lines(info) {
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
