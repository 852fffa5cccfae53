package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Sentinel is a master with its replicas and sentinels, which promote a replica when the
// master is gone.
type Sentinel struct {
	Master    *Server // the current master
	Replicas  []*Server
	sentinels []*Server
}

// MasterName is the sentinels' name for the master.
const MasterName = "ledger"

// How long a master may be silent until sentinels take it for dead. It is long except in a
// failover, because a busy machine delays servers too.
const (
	patient   = 10 * time.Minute
	impatient = 400 * time.Millisecond
)

// StartSentinel starts a master, replicas with all its data and sentinels. Most sentinels must
// agree that the master is gone. The args are for the servers; without any they keep nothing
// on disk.
func StartSentinel(dir string, replicas, sentinels int, args ...string) (_ *Sentinel, err error) {
	s := new(Sentinel)
	defer func() {
		if err != nil {
			s.Kill()
		}
	}()
	if s.Master, err = startIn(filepath.Join(dir, "master"), args...); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for i := range replicas {
		r, err := startIn(filepath.Join(dir, "replica"+strconv.Itoa(i)), args...)
		if err != nil {
			return nil, err
		}
		s.Replicas = append(s.Replicas, r)
		if err := r.Follow(ctx, s.Master); err != nil {
			return nil, err
		}
	}
	for i := range sentinels {
		w, err := s.watch(filepath.Join(dir, "sentinel"+strconv.Itoa(i)), sentinels/2+1)
		if err != nil {
			return nil, err
		}
		s.sentinels = append(s.sentinels, w)
	}
	for _, w := range s.sentinels {
		if err := w.knows(ctx, replicas, sentinels-1); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func startIn(dir string, args ...string) (*Server, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	return Start(dir, args...)
}

// watch starts a sentinel, which stores its state in its configuration file.
func (s *Sentinel) watch(dir string, quorum int) (*Server, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	host, of, err := net.SplitHostPort(s.Master.Addr)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "sentinel.conf")
	conf := fmt.Appendf(nil, `port %d
bind 127.0.0.1
dir %s
loglevel warning
sentinel monitor %[3]s %s %s %d
sentinel down-after-milliseconds %[3]s %[7]d
sentinel failover-timeout %[3]s 6000
`, port, strconv.Quote(dir), MasterName, host, of, quorum, patient.Milliseconds())
	if err := os.WriteFile(path, conf, 0o600); err != nil {
		return nil, err
	}
	w := &Server{Addr: addr(port), Dir: dir, args: []string{path, "--sentinel"}}
	return w, w.Run()
}

// knows returns when a sentinel has found the replicas and the other sentinels.
func (s *Server) knows(ctx context.Context, replicas, others int) error {
	return s.asSentinel(ctx, func(c *redis.SentinelClient) error {
		m, err := c.Master(ctx, MasterName).Result()
		if err == nil && (m["num-slaves"] != strconv.Itoa(replicas) || m["num-other-sentinels"] != strconv.Itoa(others)) {
			err = fmt.Errorf("the sentinel %s knows %s replicas and %s others like it", s.Addr, m["num-slaves"], m["num-other-sentinels"])
		}
		return err
	})
}

// asSentinel calls a function with a sentinel until it succeeds or the context ends.
func (s *Server) asSentinel(ctx context.Context, try func(*redis.SentinelClient) error) error {
	c := redis.NewSentinelClient(&redis.Options{Addr: s.Addr})
	defer c.Close()
	return Await(ctx, func() error { return try(c) })
}

// Addrs returns the addresses of the sentinels.
func (s *Sentinel) Addrs() (all []string) {
	for _, w := range s.sentinels {
		all = append(all, w.Addr)
	}
	return all
}

// Failover crashes the master and waits for the promotion of a replica.
func (s *Sentinel) Failover(ctx context.Context) error {
	if err := s.Crash(ctx); err != nil {
		return err
	}
	return s.Promoted(ctx)
}

// Crash makes the sentinels impatient, and kills the master.
func (s *Sentinel) Crash(ctx context.Context) error {
	defer s.Master.Kill()
	return s.wait(ctx, impatient)
}

// Promoted returns when every sentinel names the same new master and it accepts writes.
func (s *Sentinel) Promoted(ctx context.Context) error {
	var named string
	for _, w := range s.sentinels {
		err := w.asSentinel(ctx, func(c *redis.SentinelClient) error {
			at, err := c.GetMasterAddrByName(ctx, MasterName).Result()
			if err != nil {
				return err
			}
			if named = net.JoinHostPort(at[0], at[1]); named == s.Master.Addr {
				return errors.New("the sentinels still name the master that is gone")
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for i, r := range s.Replicas {
		if r.Addr == named {
			s.Master, s.Replicas = r, slices.Delete(s.Replicas, i, i+1)
			if err := s.wait(ctx, patient); err != nil {
				return err
			}
			return r.awaitRole(ctx, "master")
		}
	}
	return fmt.Errorf("the sentinels name %s, which is no replica", named)
}

// wait sets how long the sentinels wait for a master.
func (s *Sentinel) wait(ctx context.Context, d time.Duration) error {
	for _, w := range s.sentinels {
		err := w.asSentinel(ctx, func(c *redis.SentinelClient) error {
			return c.Set(ctx, MasterName, "down-after-milliseconds", strconv.FormatInt(d.Milliseconds(), 10)).Err()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Kill kills all servers and sentinels.
func (s *Sentinel) Kill() {
	for _, w := range s.sentinels {
		w.Kill()
	}
	for _, r := range s.Replicas {
		r.Kill()
	}
	if s.Master != nil {
		s.Master.Kill()
	}
}
