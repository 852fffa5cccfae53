package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// slots is how many a cluster has.
const slots = 16384

// Cluster is a Redis Cluster of masters.
type Cluster struct{ Masters []*Server }

// StartCluster starts masters that share the slots.
func StartCluster(dir string, masters int) (_ *Cluster, err error) {
	c := new(Cluster)
	defer func() {
		if err != nil {
			c.Kill()
		}
	}()
	for i := range masters {
		bus, err := freePort()
		if err != nil {
			return nil, err
		}
		own := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(own, 0o700); err != nil {
			return nil, err
		}
		s, err := Start(own, "--save", "", "--appendonly", "no",
			"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus), "--cluster-node-timeout", "5000")
		if err != nil {
			return nil, err
		}
		c.Masters = append(c.Masters, s)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for i, s := range c.Masters {
		err := s.With(func(r *redis.Client) error {
			first, last := i*slots/masters, (i+1)*slots/masters-1
			if err := r.ClusterAddSlotsRange(ctx, first, last).Err(); err != nil {
				return err
			}
			host, port, _ := strings.Cut(c.Masters[0].Addr, ":")
			return r.Do(ctx, "cluster", "meet", host, port, c.Masters[0].bus()).Err()
		})
		if err != nil {
			return nil, fmt.Errorf("join %s: %w", s.Addr, err)
		}
	}
	return c, c.await(ctx)
}

// bus is the port on which a server talks to others of its cluster.
func (s *Server) bus() string {
	for i, arg := range s.args {
		if arg == "--cluster-port" {
			return s.args[i+1]
		}
	}
	return ""
}

// await returns when every master knows all others and all slots.
func (c *Cluster) await(ctx context.Context) error {
	for _, s := range c.Masters {
		err := Await(ctx, func() error {
			return s.With(func(r *redis.Client) error {
				info, err := r.ClusterInfo(ctx).Result()
				if err == nil && !(strings.Contains(info, "cluster_state:ok") &&
					strings.Contains(info, fmt.Sprintf("cluster_size:%d", len(c.Masters)))) {
					err = errors.New("the cluster is not ready: " + info)
				}
				return err
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Addrs are those of the masters.
func (c *Cluster) Addrs() (all []string) {
	for _, s := range c.Masters {
		all = append(all, s.Addr)
	}
	return all
}

// Kill ends all masters.
func (c *Cluster) Kill() {
	for _, s := range c.Masters {
		s.Kill()
	}
}

// With connects for as long as do runs.
func (s *Server) With(do func(*redis.Client) error) error {
	c := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
	defer c.Close()
	return do(c)
}

// Await tries until it succeeds or the context ends; then it returns the last
// error.
func Await(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}
