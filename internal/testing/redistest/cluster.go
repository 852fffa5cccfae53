package redistest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// slots is the number of slots of a cluster.
const slots = 16384

// Cluster is a Redis Cluster with its masters and replicas.
type Cluster struct {
	Masters  []*Server
	Replicas []*Server
	dir      string
	size     int // how many masters have slots
	started  int // servers
}

// StartCluster starts masters that share the slots.
func StartCluster(dir string, masters int) (_ *Cluster, err error) {
	c := &Cluster{dir: dir, size: masters}
	defer func() {
		if err != nil {
			c.Kill()
		}
	}()
	for range masters {
		s, err := c.start()
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
			return c.Masters[0].meet(ctx, r)
		})
		if err != nil {
			return nil, fmt.Errorf("join %s: %w", s.Addr, err)
		}
	}
	if err := c.await(ctx); err != nil {
		return nil, err
	}
	return c, c.wait(ctx, calm)
}

// calm is how long a server may be silent until the others take it for dead. It is long,
// because a busy machine delays servers too. While servers meet they are [impatient], which
// makes them talk to each other more often.
const calm = 5 * time.Second

// wait sets how long the servers wait for each other.
func (c *Cluster) wait(ctx context.Context, d time.Duration) error {
	for _, s := range c.servers() {
		err := s.With(func(r *redis.Client) error {
			return r.ConfigSet(ctx, "cluster-node-timeout", strconv.FormatInt(d.Milliseconds(), 10)).Err()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// start starts a server outside the cluster.
func (c *Cluster) start() (*Server, error) {
	bus := freeBus()
	own := filepath.Join(c.dir, strconv.Itoa(c.started))
	c.started++
	if err := os.Mkdir(own, 0o700); err != nil {
		return nil, err
	}
	return Start(own, "--save", "", "--appendonly", "no", "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus),
		"--cluster-node-timeout", strconv.FormatInt(impatient.Milliseconds(), 10), "--cluster-replica-validity-factor", "0")
}

// freeBus returns a port below the range that the system assigns. [freePort] may return a
// port twice, and the servers' own connections use ports of that range.
func freeBus() int {
	for {
		port := 10_000 + rand.IntN(20_000)
		if l, err := net.Listen("tcp", addr(port)); err == nil {
			l.Close()
			return port
		}
	}
}

func (c *Cluster) servers() []*Server { return slices.Concat(c.Masters, c.Replicas) }

// meet introduces two servers to each other.
func (s *Server) meet(ctx context.Context, other *redis.Client) error {
	host, port, _ := strings.Cut(s.Addr, ":")
	return other.Do(ctx, "cluster", "meet", host, port, s.bus()).Err()
}

// bus returns the port on which a server talks to its cluster.
func (s *Server) bus() string {
	for i, arg := range s.args {
		if arg == "--cluster-port" {
			return s.args[i+1]
		}
	}
	return ""
}

// await returns when every server knows all masters and all slots.
func (c *Cluster) await(ctx context.Context) error {
	for _, s := range c.servers() {
		err := Await(ctx, func() error {
			return s.With(func(r *redis.Client) error {
				info, err := r.ClusterInfo(ctx).Result()
				if err == nil && !(strings.Contains(info, "cluster_state:ok") &&
					strings.Contains(info, fmt.Sprintf("cluster_size:%d", c.size))) {
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

// AddReplica starts a replica of a master. It returns when the replica has all data of the
// master and every server knows it.
func (c *Cluster) AddReplica(ctx context.Context, master *Server) error {
	s, err := c.start()
	if err != nil {
		return err
	}
	c.Replicas = append(c.Replicas, s)
	if err := c.wait(ctx, impatient); err != nil {
		return err
	}
	var id string
	err = master.With(func(r *redis.Client) (err error) {
		id, err = r.ClusterMyID(ctx).Result()
		return err
	})
	if err != nil {
		return err
	}
	err = s.With(func(r *redis.Client) error {
		for _, m := range c.Masters { // gossip takes seconds
			if err := m.meet(ctx, r); err != nil {
				return err
			}
		}
		return Await(ctx, func() error { return r.ClusterReplicate(ctx, id).Err() }) // it must learn of the master first
	})
	if err != nil {
		return err
	}
	if err := s.CatchUp(ctx, master); err != nil {
		return err
	}
	for _, m := range c.Masters {
		err := m.With(func(r *redis.Client) error {
			return Await(ctx, func() error {
				known, err := r.Do(ctx, "cluster", "replicas", id).StringSlice()
				if err == nil && len(known) == 0 {
					err = fmt.Errorf("%s does not know the replica %s", m.Addr, s.Addr)
				}
				return err
			})
		})
		if err != nil {
			return err
		}
	}
	return c.wait(ctx, calm)
}

// Owner returns the master of a key's slot, once all servers agree on it and accept
// commands. An elected replica is one of the masters from then on, and the servers are
// patient with each other again.
func (c *Cluster) Owner(ctx context.Context, key string) (owner *Server, err error) {
	var slot int64
	err = c.Masters[0].With(func(r *redis.Client) (err error) {
		slot, err = r.ClusterKeySlot(ctx, key).Result()
		return err
	})
	if err != nil {
		return nil, err
	}
	err = Await(ctx, func() error {
		owner = nil
		for _, s := range c.servers() {
			named, err := s.ownerOf(ctx, slot)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(c.servers(), func(o *Server) bool { return o.Addr == named })
			if i < 0 || owner != nil && owner != c.servers()[i] {
				return fmt.Errorf("%s names %s as the owner of %s, which is gone or not the one that others name", s.Addr, named, key)
			}
			owner = c.servers()[i]
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if i := slices.Index(c.Replicas, owner); i >= 0 {
		c.Masters = append(c.Masters, owner)
		c.Replicas = slices.Delete(c.Replicas, i, i+1)
	}
	if err := c.wait(ctx, calm); err != nil {
		return nil, err
	}
	return owner, c.await(ctx)
}

// ownerOf returns the address of a slot's master by what one server knows.
func (s *Server) ownerOf(ctx context.Context, slot int64) (owner string, err error) {
	err = s.With(func(r *redis.Client) error {
		all, err := r.ClusterSlots(ctx).Result() //nolint:staticcheck // ClusterShards came with Redis 7
		for _, o := range all {
			if int64(o.Start) <= slot && slot <= int64(o.End) {
				owner = o.Nodes[0].Addr
			}
		}
		return err
	})
	return owner, err
}

// Lose makes the other servers impatient and then disturbs a master. They elect its replica,
// and the master no longer belongs to the cluster.
func (c *Cluster) Lose(ctx context.Context, master *Server, hurt func()) error {
	gone := func(s *Server) bool { return s == master }
	c.Masters, c.Replicas = slices.DeleteFunc(c.Masters, gone), slices.DeleteFunc(c.Replicas, gone)
	defer hurt()
	return c.wait(ctx, impatient)
}

// Addrs returns the addresses of the masters.
func (c *Cluster) Addrs() (all []string) {
	for _, s := range c.Masters {
		all = append(all, s.Addr)
	}
	return all
}

// Kill ends all servers.
func (c *Cluster) Kill() {
	for _, s := range c.servers() {
		s.Kill()
	}
}

// With connects for as long as do runs.
func (s *Server) With(do func(*redis.Client) error) error {
	c := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
	defer c.Close()
	return do(c)
}

// Await calls a function until it succeeds or the context ends, and returns the last error.
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
