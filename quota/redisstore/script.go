package redisstore

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var sources embed.FS

// script is a body behind the prelude, under a clock.
type script struct {
	source string
	sha    string
}

func newScript(clock, body string) script {
	var b strings.Builder
	for _, name := range []string{clock, "prelude", body} {
		text, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // it is embedded
		}
		b.Write(text)
	}
	source := b.String()
	sum := sha1.Sum([]byte(source)) // what Redis names scripts by
	return script{source, hex.EncodeToString(sum[:])}
}

// scripts are the bodies, one operation each.
type scripts struct{ reserve, settle, record, block, look, enrol script }

func newScripts(clock string) scripts {
	return scripts{
		reserve: newScript(clock, "reserve"),
		settle:  newScript(clock, "settle"),
		record:  newScript(clock, "record"),
		block:   newScript(clock, "block"),
		look:    newScript(clock, "look"),
		enrol:   newScript(clock, "enrol"),
	}
}

// once is a command that go-redis does not send again by itself after a lost
// reply. A receipt would make it harmless; without one it would charge twice.
type once struct{ *redis.Cmd }

// NoRetry tells go-redis.
func (once) NoRetry() bool { return true }

// eval runs a script by its name, and by its text only where the server does not
// know it: it was flushed, or the server is another one.
func (s *Store) eval(ctx context.Context, script script, keys []string, args []any) ([]any, error) {
	reply, err := s.send(ctx, "evalsha", script.sha, keys, args)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, err = s.send(ctx, "eval", script.source, keys, args)
	}
	if err != nil {
		return nil, err
	}
	list, ok := reply.([]any)
	if !ok || len(list) == 0 {
		return nil, fmt.Errorf("redis answered %T to a script", reply)
	}
	return list, nil
}

func (s *Store) send(ctx context.Context, command, what string, keys []string, args []any) (any, error) {
	all := make([]any, 0, 4+len(keys)+len(args))
	all = append(all, command, what, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	all = append(all, args...)
	if s.moved != nil {
		all = append(all, s.moved().UnixMicro())
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	cmd := once{redis.NewCmd(ctx, all...)}
	if err := s.client.Process(ctx, cmd); err != nil {
		return nil, err
	}
	return cmd.Result()
}
