package redisstore

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

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
