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

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/peers"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/internal/boundary"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/open"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/window"
)

// The defaults of the limiters. On Redis the window takes real time.
const (
	proveLimit   = 50
	provePer     = 10 * time.Second
	provePerReal = 2 * time.Second
)

func ProveCommand(a *session.Session) *cobra.Command {
	var r boundary.Rate
	var svg string
	cmd := a.Command("prove", console.NoArgs, func(cmd *cobra.Command, _ []string) (err error) {
		ctx, ledger := cmd.Context(), "memory:"
		if flag := cmd.Flags().Lookup("ledger"); flag.Changed {
			ledger = flag.Value.String()
		}
		switch {
		case r.Limit < 1 || r.Limit > 10_000:
			return console.Usage("--limit must be 1 to 10000, not %d", r.Limit)
		case r.Per < time.Second || r.Per > 24*time.Hour || r.Per%time.Second != 0:
			return console.Usage("--per must be whole seconds from 1s to 24h, not %s", r.Per)
		}
		var done console.Closers
		defer func() { err = errors.Join(err, done.Close()) }()
		home, err := openProve(ctx, ledger, &done)
		if err != nil {
			return err
		}
		if home.real && !cmd.Flags().Changed("per") {
			r.Per = provePerReal
		}
		if home.real && a.Output != "json" {
			fmt.Fprintf(a.Stderr, "The clock of Redis cannot be simulated, so this takes up to %s.\n", console.Length(31*r.Per/10)) // a tenth before a boundary and two windows after it
		}
		results, err := home.run(ctx, r)
		if err != nil {
			return err
		}
		v := proved(home, r, results)
		if err := v.compared().print(a, svg, v, v.show); err != nil {
			return err
		}
		return v.broken()
	})
	cmd.Flags().IntVar(&r.Limit, "limit", proveLimit, "`number` of requests that a window may have")
	cmd.Flags().DurationVar(&r.Per, "per", provePer, "`duration` of the window")
	cmd.Flags().StringVar(&svg, "svg", "", "also draw a picture into this `file`")
	return cmd
}

// broken returns an error that names the limiters that promise the limit and did not keep
// it.
func (v *ProveView) broken() error {
	var names []string
	for _, l := range v.Limiters {
		if l.OverBy > 0 && l.Promises() {
			names = append(names, l.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%s let more than %d through, which must never happen\nPlease report it as a bug", strings.Join(names, " and "), v.Limit)
}

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

// ProveView is the result of ingestor prove, in JSON.
type ProveView struct {
	Limit    int             `json:"limit"`
	Per      float64         `json:"per_seconds"`
	Where    string          `json:"where"`
	Real     bool            `json:"real_time"`
	Boundary proveBoundary   `json:"boundary"`
	Limiters []provedLimiter `json:"limiters"`

	per time.Duration
}

// proveBoundary is what was accepted around a boundary.
type proveBoundary struct {
	Apart  float64      `json:"apart_seconds"`
	Bursts []proveBurst `json:"bursts"`
	Fixed  int          `json:"fixed_window"`
	Ours   int          `json:"sliding_window"`
}

type proveBurst struct {
	After float64 `json:"after_boundary_seconds"`
	Asked int     `json:"asked"`
	Fixed int     `json:"fixed_window"`
	Ours  int     `json:"sliding_window"`
}

type provedLimiter struct {
	ID       string    `json:"limiter"`
	Name     string    `json:"name"`
	Accepted int       `json:"accepted"` // in one trailing window
	Times    float64   `json:"times_limit"`
	OverBy   int       `json:"over_by"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Timeline string    `json:"timeline"`
	About    string    `json:"about"` // the timeline
}

// Promises reports whether the limiter promises never to exceed its limit.
func (l *provedLimiter) Promises() bool {
	return l.ID == string(window.Exact) || l.ID == string(window.Sliding)
}

func (l *provedLimiter) verdict() string {
	switch {
	case l.OverBy > 0:
		return "over by " + figure(l.OverBy)
	case l.Promises():
		return "never over"
	}
	return "not over" // a limit of 1 leaves little room
}

func fullest(id, name string, r boundary.Rate, worst boundary.Window, t boundary.Timeline) provedLimiter {
	return provedLimiter{
		ID: id, Name: name,
		Accepted: worst.Accepted,
		Times:    float64(worst.Accepted) / float64(r.Limit),
		OverBy:   max(worst.Accepted-r.Limit, 0),
		From:     worst.From, To: worst.To,
		Timeline: t.Name, About: t.About,
	}
}

func proved(h *proveHome, r boundary.Rate, results []boundary.Result) *ProveView {
	v := &ProveView{Limit: r.Limit, Per: r.Per.Seconds(), Where: h.where, Real: h.real, per: r.Per}
	bursts := map[string]*boundary.Trial{}
	for _, result := range results {
		bursts[result.ID] = result.Trials[0]
		v.Limiters = append(v.Limiters, fullest(result.ID, result.Name, r, result.Worst, result.At.Timeline))
	}
	fixed, ours := bursts["fixed"], bursts[string(window.Sliding)]
	for i, step := range fixed.Timeline.Steps {
		v.Boundary.Bursts = append(v.Boundary.Bursts, proveBurst{step.After.Seconds(), fixed.Asked[i], fixed.Given[i], ours.Given[i]})
		v.Boundary.Fixed += fixed.Given[i]
		v.Boundary.Ours += ours.Given[i]
	}
	v.Boundary.Apart = apart(r).Seconds()
	return v
}

func (v *ProveView) compared() *compared {
	c := &compared{rate: boundary.Rate{Limit: v.Limit, Per: v.per}, each: "each", tried: "limiter", rows: v.Limiters}
	c.title = "How much rate limiters let through in the worst case"
	c.about = fmt.Sprintf("All are set to %s. Around a boundary the fixed window lets %s through within %s, the sliding window %s.",
		inAny(c.rate), figure(v.Boundary.Fixed), console.Length(apart(c.rate)), figure(v.Boundary.Ours))
	c.head = "Both are set to " + inAny(c.rate) + ", and get two full bursts"
	fixed, ours := &c.panels[0], &c.panels[1]
	fixed.column, fixed.title = "fixed window", "A fixed window begins anew at the boundary"
	ours.column, ours.title = "sliding window", "A sliding window has no boundary"
	for _, b := range v.Boundary.Bursts {
		fixed.bursts = append(fixed.bursts, drawn{b.After / v.Per, b.Asked, b.Fixed})
		ours.bursts = append(ours.bursts, drawn{b.After / v.Per, b.Asked, b.Ours})
	}
	return c
}

func (v *ProveView) show(s *console.Sheet) {
	how := "on a moved clock"
	if v.Real {
		how = "in real time"
	}
	c := v.compared()
	s.Line("%s, %s, %s.", inAny(c.rate), v.Where, how)
	c.show(s)
}
