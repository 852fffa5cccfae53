package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// once is a command that go-redis does not send again by itself after a lost
// reply. A receipt would make that harmless; without one it would charge twice, and
// sending again takes time that the caller may not have.
type once struct{ redis.Cmder }

// NoRetry tells go-redis.
func (once) NoRetry() bool { return true }

// do sends a command, once. If it returns an error the command must not be read:
// it may still be under way.
func (s *Store) do(ctx context.Context, cmd redis.Cmder) error {
	return s.within(ctx, func(ctx context.Context) error { return s.client.Process(ctx, once{cmd}) })
}

// within is the way of everything that is sent: it returns when the context ends or
// the store's timeout has passed, whatever the client's own settings. Those do not
// keep a context's deadline by default, and a dial keeps to none but its own. What
// is left under way then ends with the client's timeouts and may still take effect,
// as after a lost reply.
func (s *Store) within(ctx context.Context, send func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	sent := make(chan error, 1)
	go func() { sent <- send(bounded) }()
	select {
	case err := <-sent:
		return err
	case <-bounded.Done():
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return fmt.Errorf("redis did not answer within %s: %w", s.timeout, bounded.Err())
}
