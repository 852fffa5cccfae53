package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/deadline"
)

// once is a command that go-redis does not send again by itself after a lost reply.
// Without a receipt, a second sending would charge twice. It also takes time that the
// caller may not have.
type once struct{ redis.Cmder }

func (once) NoRetry() bool { return true }

// do sends a command once. If it returns an error, the caller must not read the command,
// because it may still be under way.
func (s *Store) do(ctx context.Context, cmd redis.Cmder) error {
	return s.within(ctx, func(ctx context.Context) error { return s.client.Process(ctx, once{cmd}) })
}

// doAll is do for several commands, in one round trip. What is missing is no error.
func (s *Store) doAll(ctx context.Context, cmds []redis.Cmder) error {
	return s.within(ctx, func(ctx context.Context) error {
		pipe := s.client.Pipeline() // Exec empties it
		for _, cmd := range cmds {
			if err := pipe.Process(ctx, once{cmd}); err != nil {
				return err
			}
		}
		if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		for _, cmd := range cmds { // Exec has told of the first
			if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) {
				return err
			}
		}
		return nil
	})
}

// prompt returns a client on the same connections that obeys a context's deadline. By
// default clients do not. It returns false if the client cannot be made to; then calls
// return at the deadline and leave the command behind.
func prompt(client redis.UniversalClient, timeout time.Duration) (redis.UniversalClient, bool) {
	c, ok := client.(*redis.Client)
	if !ok {
		return client, false
	}
	c = c.WithTimeout(timeout)
	c.Options().ContextTimeoutEnabled = true // of the copy
	return c, true
}

// within sends a command. It returns at the deadline of the context and when the
// store's timeout has passed, whatever the client's own settings. The error of a deadline is the
// context's, and says nothing about the server. After a timeout the
// command may still take effect, as after any lost reply. In a Cluster, within calls send
// a second time if the first call reached no server.
func (s *Store) within(ctx context.Context, send func(context.Context) error) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if s.cluster == nil {
		return s.bound(ctx, send)
	}
	err := s.bound(ctx, func(ctx context.Context) error { return s.cluster.follow(ctx, send) })
	if deadline.Err(ctx) == nil && doubtful(err) {
		s.cluster.reload()
	}
	return err
}

func (s *Store) bound(ctx context.Context, send func(context.Context) error) (err error) {
	bounded, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if s.prompt {
		err = send(bounded)
	} else { // a goroutine costs as much as all else that a call does here
		sent := make(chan error, 1)
		go func() { sent <- send(bounded) }()
		select {
		case err = <-sent:
		case <-bounded.Done():
			err = bounded.Err()
		}
	}
	var late net.Error
	switch {
	case err == nil: // a fifth of a call's allocations would go into looking for a remedy
		return nil
	case !errors.As(err, &late) || !late.Timeout():
		return remedied(err)
	case deadline.Err(ctx) != nil:
		return deadline.Err(ctx)
	}
	return fmt.Errorf("redis did not answer in time, %s at most: %w", s.timeout.Round(time.Millisecond), context.DeadlineExceeded)
}

const signIn = "give the user and password of one who may do this"

// remedies say what to do about a server's error, by its prefix.
var remedies = [...]struct{ prefix, do string }{
	{"MOVED", "the server is one of a Cluster, which this client does not follow: connect to it as a Cluster, by some of its nodes"},
	{"READONLY", "the server is a replica: connect to its master"},
	{"OOM", "the server's memory is full: raise its maxmemory"},
	{"MISCONF", "the server cannot save what it is told: see its log and its disk"},
	{"NOAUTH", signIn},
	{"WRONGPASS", signIn},
	{"NOPERM", signIn},
	{"Protocol error: unauthenticated", signIn}, // many arguments, before a password was given
}

func remedied(err error) error {
	for _, r := range remedies {
		if redis.HasErrorPrefix(err, r.prefix) {
			return fmt.Errorf("%s: %w", r.do, err)
		}
	}
	return err
}
