package redistest

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Follow makes a server the replica of another. It returns when the replica has all data.
func (s *Server) Follow(ctx context.Context, master *Server) error {
	host, port, err := net.SplitHostPort(master.Addr)
	if err != nil {
		return err
	}
	if err := s.With(func(c *redis.Client) error { return c.Do(ctx, "replicaof", host, port).Err() }); err != nil {
		return err
	}
	return s.CatchUp(ctx, master)
}

// CatchUp returns when a replica has all data of its master.
func (s *Server) CatchUp(ctx context.Context, master *Server) error {
	return Await(ctx, func() error {
		is, err := s.replication(ctx)
		if err != nil {
			return err
		}
		was, err := master.replication(ctx)
		if err == nil && (is["master_link_status"] != "up" || is["slave_repl_offset"] != was["master_repl_offset"]) {
			err = fmt.Errorf("the replica %s has not caught up: %v of %v", s.Addr, is, was)
		}
		return err
	})
}

// Lead makes a replica a master, with its data.
func (s *Server) Lead(ctx context.Context) error {
	if err := s.With(func(c *redis.Client) error { return c.Do(ctx, "replicaof", "no", "one").Err() }); err != nil {
		return err
	}
	return s.awaitRole(ctx, "master")
}

func (s *Server) awaitRole(ctx context.Context, role string) error {
	return Await(ctx, func() error {
		is, err := s.replication(ctx)
		if err == nil && is["role"] != role {
			err = fmt.Errorf("%s is a %s, not a %s", s.Addr, is["role"], role)
		}
		return err
	})
}

// replication is the replication section of INFO.
func (s *Server) replication(ctx context.Context) (is map[string]string, err error) {
	err = s.With(func(c *redis.Client) (err error) {
		is, err = fields(c.Info(ctx, "replication"))
		return err
	})
	return is, err
}

// fields parses a section of INFO.
func fields(info *redis.StringCmd) (map[string]string, error) {
	f := make(map[string]string)
	for line := range strings.Lines(info.Val()) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			f[name] = value
		}
	}
	return f, info.Err()
}
