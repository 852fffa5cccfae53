//go:build linux

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// fault is one of the schedule.
type fault struct {
	after time.Duration // the begin of the faults
	what  string
	to    int // a daemon
	lasts time.Duration
}

func (f fault) String() string {
	name := f.what
	if kinds[f.what].daemon {
		name += fmt.Sprintf(", daemon %d", f.to)
	}
	if f.lasts > 0 {
		name += fmt.Sprintf(", for %.1fs", f.lasts.Seconds())
	}
	return name
}

// kind is a kind of fault.
type kind struct {
	daemon bool             // it hits one daemon
	lasts  [2]time.Duration // from, to
	do     func(c *chaos, f fault) error
}

const second = time.Second

// kinds are all faults. A long stop is longer than River waits for a job.
var kinds = map[string]kind{
	"kill -9": {daemon: true, lasts: [2]time.Duration{0, 3 * second}, do: func(c *chaos, f fault) error {
		d := c.daemons[f.to]
		d.kill()
		time.Sleep(f.lasts)
		d.start()
		return nil
	}},
	"stop":      {daemon: true, lasts: [2]time.Duration{2 * second, 6 * second}, do: stopped},
	"long stop": {daemon: true, lasts: [2]time.Duration{22 * second, 30 * second}, do: stopped},
	"rolling restart": {do: func(c *chaos, _ fault) error {
		for _, d := range c.daemons {
			c.exits = append(c.exits, d.end(syscall.SIGTERM))
			d.start()
		}
		return nil
	}},
	"restart of PostgreSQL, fast": {lasts: [2]time.Duration{0, 3 * second}, do: func(c *chaos, f fault) error {
		c.database.Stop()
		time.Sleep(f.lasts)
		return c.database.Restart()
	}},
	"restart of PostgreSQL, immediate": {lasts: [2]time.Duration{0, 3 * second}, do: func(c *chaos, f fault) error {
		c.database.Crash()
		time.Sleep(f.lasts)
		return c.database.Restart()
	}},
	"restart of Redis": {lasts: [2]time.Duration{0, 3 * second}, do: func(c *chaos, f fault) error {
		c.redis.Kill()
		time.Sleep(f.lasts)
		return c.redis.Run()
	}},
	// A machine that has never charged the ledger cannot know what was lost, so a daemon that
	// starts there before the restoration ends as wrongly configured, and rightly so. On a busy
	// machine a daemon may not have come to its first call yet.
	"flushed Redis": {do: func(c *chaos, _ fault) error {
		for end := time.Now().Add(5 * time.Minute); c.upstream.callers() < len(c.daemons); time.Sleep(200 * time.Millisecond) {
			if time.Now().After(end) {
				return fmt.Errorf("only %d of %d daemons have called the upstream", c.upstream.callers(), len(c.daemons))
			}
		}
		if err := c.redis.With(func(client *redis.Client) error { return client.FlushAll(context.Background()).Err() }); err != nil {
			return err
		}
		return c.restore()
	}},
	"cut link to PostgreSQL":  {daemon: true, lasts: [2]time.Duration{1 * second, 6 * second}, do: cut(func(d *process) *link { return d.sql }, (*link).cut)},
	"mute link to PostgreSQL": {daemon: true, lasts: [2]time.Duration{4 * second, 15 * second}, do: cut(func(d *process) *link { return d.sql }, (*link).mute)},
	"cut link to the ledger":  {daemon: true, lasts: [2]time.Duration{1 * second, 6 * second}, do: cut(func(d *process) *link { return d.ledger }, (*link).cut)},
	"mute link to the ledger": {daemon: true, lasts: [2]time.Duration{2 * second, 8 * second}, do: cut(func(d *process) *link { return d.ledger }, (*link).mute)},
	"full disk": {lasts: [2]time.Duration{3 * second, 8 * second}, do: func(c *chaos, f fault) error {
		if c.disk == nil {
			return nil
		}
		if err := c.disk.fill(); err != nil {
			return err
		}
		time.Sleep(f.lasts)
		return c.disk.empty()
	}},
}

func stopped(c *chaos, f fault) error {
	d := c.daemons[f.to]
	d.signal(syscall.SIGSTOP)
	time.Sleep(f.lasts)
	d.signal(syscall.SIGCONT)
	return nil
}

func cut(which func(*process) *link, how func(*link)) func(*chaos, fault) error {
	return func(c *chaos, f fault) error {
		k := which(c.daemons[f.to])
		how(k)
		time.Sleep(f.lasts)
		k.heal()
		return nil
	}
}

// kindsFor returns the names of the faults, in a fixed order. Faults of Redis need a ledger in
// Redis.
func kindsFor(ledger string) (names []string) {
	for name := range kinds {
		if ledger == "redis" || !strings.HasSuffix(name, "Redis") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// schedule returns the faults of a seed: all kinds in a random order, again and again.
func schedule(seed uint64, names []string, daemons int, lasts, every time.Duration) (all []fault) {
	random := rand.New(rand.NewPCG(seed, 14))
	var deck []string
	for at := time.Duration(0); at < lasts; at += every {
		if len(deck) == 0 {
			deck = slices.Clone(names)
			random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		name := deck[0]
		deck = deck[1:]
		f := fault{after: at + time.Duration(random.Int64N(int64(every)))/2, what: name, to: random.IntN(daemons)}
		if most := kinds[name].lasts; most[1] > 0 {
			f.lasts = most[0] + time.Duration(random.Int64N(int64(most[1]-most[0])))
			f.lasts = f.lasts.Round(100 * time.Millisecond)
		}
		all = append(all, f)
	}
	return all
}

// chaos is a rig whose parts fail.
type chaos struct {
	*rig
	disk  *disk // of the daemons' state; nil if the system allows none
	exits []time.Duration

	mu      sync.Mutex
	printed [][]string
}

// inject injects the faults at their times. Faults of one part wait for each other.
func (c *chaos) inject(all []fault) (last time.Time) {
	begin := time.Now()
	var under sync.WaitGroup
	parts := map[string]*sync.Mutex{}
	part := func(f fault) *sync.Mutex {
		name := f.what
		switch {
		case kinds[f.what].daemon:
			name = fmt.Sprint(f.to)
		case f.what == "restart of Redis" || f.what == "flushed Redis":
			name = "redis"
		case f.what != "full disk" && f.what != "rolling restart":
			name = "database"
		}
		if parts[name] == nil {
			parts[name] = new(sync.Mutex)
		}
		return parts[name]
	}
	var every []*sync.Mutex // of all daemons
	for n := range c.daemons {
		every = append(every, part(fault{what: "stop", to: n}))
	}
	for _, f := range all {
		time.Sleep(time.Until(begin.Add(f.after)))
		its := []*sync.Mutex{part(f)}
		if f.what == "rolling restart" {
			its = every
		}
		under.Go(func() {
			for _, m := range its {
				m.Lock()
				defer m.Unlock()
			}
			from := time.Now()
			err := kinds[f.what].do(c, f)
			c.mu.Lock()
			defer c.mu.Unlock()
			row := []string{c.at(from), f.String(), f.what}
			if err != nil {
				row = append(row, "error: "+err.Error())
				c.t.Errorf("%s: %v", f, err)
			}
			c.printed = append(c.printed, row)
		})
	}
	under.Wait()
	return time.Now()
}

// restore does as a person does whose ledger has forgotten: it looks in the upstream's console
// how many units were spent, and puts them back. A pool of which nothing was spent is accepted.
// At last it accepts the ledger, which the catalog may not have taken yet: it may be down, too.
func (c *chaos) restore() error {
	const why = "Redis was flushed"
	for _, pool := range []string{"units", "searches"} {
		n := c.upstream.spent(pool, time.Minute)
		if err := c.operate("quota", "adjust", "youtube/"+pool, fmt.Sprint(max(n, 1)), "--reason", why); err != nil {
			return err
		}
	}
	return c.operate("ledger", "fresh", "--reason", why)
}

// operate runs a command until it succeeds: a server may be slow on a busy machine, or down.
func (c *chaos) operate(args ...string) (err error) {
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Second) {
		if err = c.daemons[0].operate(args...); err == nil || time.Now().After(end) {
			return err
		}
	}
}
