package ledger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/peers"
	"github.com/headroom-quota/headroom/internal/boundary"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/open"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/window"
)

// proveHome is where limiters are put to the proof. It is never a ledger that
// anything else uses.
type proveHome struct {
	where string // for people
	store quota.Store
	peers peers.Home
	clock quota.Clock
	real  bool // the clock is the server's, which nobody can move
}

// proveStart is where a clock stands that can be moved.
var proveStart = time.Date(2026, time.November, 20, 12, 0, 0, 0, time.UTC)

// openProve opens a home of the kind that the address of a ledger names.
func openProve(ctx context.Context, address string, done *console.Closers) (*proveHome, error) {
	h := &proveHome{clock: quota.NewSimClock(proveStart)}
	switch scheme, rest, _ := strings.Cut(address, ":"); {
	case scheme == "memory" && rest == "":
		store, _, err := open.Store(ctx, "memory:", h.clock)
		h.where, h.store, h.peers = "in memory", store, &peers.Memory{Clock: h.clock}
		return h, err
	case scheme == "sqlite":
		return h, console.Config(h.openFile(ctx, rest, done))
	case scheme == "redis", scheme == "rediss", scheme == "unix":
		return h, h.openRedis(ctx, address, done)
	}
	if strings.HasPrefix(address, "postgres") {
		return nil, console.Config(errors.New("ledger: prove has no limiters to compare with in PostgreSQL; name memory:, redis://HOST:PORT/DB or sqlite:PATH"))
	}
	return nil, console.Config(fmt.Errorf("ledger: %q is not one of memory:, redis://HOST:PORT/DB and sqlite:PATH", open.Shown(address)))
}

// openFile makes a folder beside a ledger, and new files in it: on the same disk, and
// without a look at the ledger.
func (h *proveHome) openFile(ctx context.Context, ledger string, done *console.Closers) error {
	beside := "" // the folder for what is temporary
	if ledger != "" {
		beside = filepath.Dir(ledger)
	}
	dir, err := os.MkdirTemp(beside, "ingestor-prove-")
	if err != nil {
		return fmt.Errorf("ledger: make a folder beside it: %w", err)
	}
	done.Add(func() error { return os.RemoveAll(dir) })
	store, closer, err := open.Store(ctx, "sqlite:"+filepath.Join(dir, "ledger.db"), h.clock)
	if err != nil {
		return err
	}
	done.Add(closer)
	others, err := peers.OpenSQLite(ctx, filepath.Join(dir, "peers.db"), h.clock)
	if err != nil {
		return err
	}
	done.Add(others.Close)
	h.where, h.store, h.peers = "in SQLite", store, others
	return nil
}

// openRedis takes a prefix that nobody else has, and removes what is under it.
func (h *proveHome) openRedis(ctx context.Context, address string, done *console.Closers) error {
	client, err := redisstore.Dial(address)
	if err != nil {
		return console.Config(err)
	}
	done.Add(client.Close)
	prefix := "ingestor-prove-" + rand.Text() + ":"
	store, err := redisstore.New(client, &redisstore.Options{Prefix: prefix})
	if err != nil {
		return console.Config(err)
	}
	others := peers.NewRedis(client, prefix)
	if h.clock, err = others.Clock(ctx); err != nil {
		return &console.Exit{Code: console.ExitDown, Err: fmt.Errorf("%s: %w", open.Shown(address), err)}
	}
	done.Add(func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer cancel()
		if err := others.Remove(ctx); err != nil {
			return fmt.Errorf("remove the keys of this proof: %w; do it with redis-cli --scan --pattern '%s*' | xargs redis-cli unlink", err, prefix)
		}
		return nil
	})
	done.Add(store.Close) // first: it waits for what was asked before an interrupt
	h.where, h.store, h.peers, h.real = "in Redis", store, others, true
	return nil
}

// contenders are all limiters, ours last.
func (h *proveHome) contenders(r boundary.Rate) []boundary.Contender {
	other := func(id, name string, open func(string, boundary.Rate) boundary.Limiter) boundary.Contender {
		return boundary.Contender{ID: id, Name: name, Open: func(name string) (boundary.Limiter, error) { return open(name, r), nil }}
	}
	ours := func(name string, by window.Algorithm) boundary.Contender {
		return boundary.Contender{ID: string(by), Name: name, Open: func(name string) (boundary.Limiter, error) {
			return boundary.Ledger(h.store, h.clock, name, r, by)
		}}
	}
	return []boundary.Contender{
		other("fixed", "fixed window", h.peers.Fixed),
		other("gcra", "GCRA, burst = limit", h.peers.GCRA),
		ours("two-counter estimate", window.Estimate),
		ours("exact log", window.Exact),
		ours("ring, our default", window.Sliding),
	}
}

// run puts them to the proof.
func (h *proveHome) run(ctx context.Context, r boundary.Rate) ([]boundary.Result, error) {
	before := r.Per / 100
	if h.real {
		before = r.Per / 20 // a burst takes its time
	}
	results, err := boundary.Prove(ctx, h.clock, r, []boundary.Timeline{boundary.Bursts(r), boundary.Greed(r, before)}, h.contenders(r))
	if ctx.Err() != nil {
		return nil, &console.Exit{Code: console.ExitDeferred, Err: errors.New("interrupted; nothing is proved")}
	}
	return results, err
}
