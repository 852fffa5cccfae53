package redisstore

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/internal/deadline"
	"github.com/redis/go-redis/v9"
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

// value is do for a command that is read. A missing value is the zero one.
func value[T any](ctx context.Context, s *Store, cmd interface {
	redis.Cmder
	Result() (T, error)
},
) (v T, err error) {
	if err := s.do(ctx, cmd); errors.Is(err, redis.Nil) {
		return v, nil
	} else if err != nil {
		return v, err
	}
	return cmd.Result()
}

// text is value for a text. Scripts of ours write no empty ones.
func (s *Store) text(ctx context.Context, args ...any) (string, error) {
	return value(ctx, s, redis.NewStringCmd(ctx, args...))
}

// number is value for a whole number.
func (s *Store) number(ctx context.Context, args ...any) (int64, error) {
	return value(ctx, s, redis.NewIntCmd(ctx, args...))
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

//go:embed lua/*.lua
var sources embed.FS

// prelude lists the files that the bodies share, in the order in which they build up.
var prelude = []string{"prelude", "page", "ring", "calendar", "log", "counter", "bucket", "window", "seat", "place", "layout", "request"}

// script is a clock, the prelude and a body. Some bodies, such as steady, do not need
// the prelude.
type script struct {
	source string
	sha    string
}

func newScript(parts ...string) script {
	var b strings.Builder
	for _, name := range parts {
		text, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // it is embedded
		}
		b.Write(text)
	}
	source := b.String()
	sum := sha1.Sum([]byte(source)) // the name of the script in Redis
	return script{source, hex.EncodeToString(sum[:])}
}

// scripts has a script for each operation.
type scripts struct{ steady, reserve, settle, record, block, look, member, partitions, slots, touch, renew, leaseTake, leaseKeep, limitSet, limitsAfter, noteSwap script }

// scriptsOf returns the scripts of a clock. A process makes them once: to join and hash them takes
// longer than many calls.
var scriptsOf = map[string]func() scripts{
	"clock":       sync.OnceValue(func() scripts { return newScripts("clock") }),
	"clock_moved": sync.OnceValue(func() scripts { return newScripts("clock_moved") }),
}

func newScripts(clock string) scripts {
	with := func(body string) script {
		return newScript(slices.Concat([]string{clock}, prelude, []string{body})...)
	}
	return scripts{
		steady:  newScript(clock, "steady"),
		reserve: with("reserve"),
		settle:  with("settle"),
		record:  with("record"),
		block:   with("block"),
		look:    with("look"),
		slots:   with("slots"),
		member:  newScript(clock, "member"),

		partitions: newScript(clock, "partitions"),

		touch: newScript("touch"),
		renew: newScript(clock, "renew"),

		leaseTake: newScript(clock, "lease_take"),
		leaseKeep: newScript(clock, "lease_keep"),

		limitSet:    newScript(clock, "limit_set"),
		limitsAfter: newScript("limits_after"),
		noteSwap:    newScript(clock, "note_swap"),
	}
}

// eval runs a script that answers with a list.
func (s *Store) eval(ctx context.Context, script script, keys []string, args []any) ([]any, error) {
	reply, err := s.send(ctx, script, keys, args)
	if err != nil {
		return nil, err
	}
	list, ok := reply.([]any)
	if !ok || len(list) == 0 {
		return nil, fmt.Errorf("redis answered %T to a script", reply)
	}
	return list, nil
}

// send runs a script by its name. If the server does not know the name, send sends the
// text. That happens after a flush, and on a new server.
func (s *Store) send(ctx context.Context, script script, keys []string, args []any) (any, error) {
	all := make([]any, 0, 4+len(keys)+len(args))
	all = append(all, "evalsha", script.sha, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	all = append(all, args...)
	if s.testClock != nil {
		all = append(all, s.testClock().UnixMicro())
	}
	var reply any
	err := s.within(ctx, func(ctx context.Context) error {
		cmd := redis.NewCmd(ctx, all...)
		err := s.client.Process(ctx, once{cmd})
		if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
			all[0], all[1] = "eval", script.source
			cmd = redis.NewCmd(ctx, all...)
			err = s.client.Process(ctx, once{cmd})
		}
		if err == nil {
			reply = cmd.Val()
		}
		return err
	})
	if err != nil {
		return nil, err // and leave the reply alone: it may still come
	}
	return reply, nil
}
