package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/team"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/leasestore"
	"github.com/headroom-quota/headroom/quota/window"
)

// These are what the hot key must show.
const (
	wantRatio    = 50.0
	mostStranded = 0.02 // of the limit
)

// side is a family with a hot key among many others: its calls go to the store, or to four
// processes with leased blocks on top of it.
type side struct {
	name   string
	life   time.Duration // of blocks; 0: there are none
	stores []quota.Store
}

// charge is a unit of a key.
func (s *side) charge(key string, per time.Duration, limit int64) quota.Charge {
	spec, err := window.Spec{Per: per, Late: s.life}.Normal()
	if err != nil {
		panic(err) // it is a constant
	}
	return quota.Charge{
		Pool: quota.Pool{Upstream: s.name, Account: quota.DefaultAccount, Key: key}, Units: 1, Windows: []window.Limit{window.NewLimit(spec, limit)},
		Revision: 1, MaxKeys: 200_000, Lease: quota.Lease{Life: s.life, Most: limit / 20},
	}
}

// take takes a unit through one of the processes.
func (s *side) take(ctx context.Context, process int, c *quota.Charge) (bool, error) {
	v, err := s.stores[process%len(s.stores)].Reserve(ctx, quota.Request{Charges: []quota.Charge{*c}})
	return v.Allowed, err
}

// all runs so many callers and returns their errors.
func all(callers int, do func(i int) error) error {
	errs := make([]error, callers)
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() { errs[i] = do(i) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// each calls once for each of the other keys, which are not hot.
func (s *side) each(ctx context.Context, keys int) error {
	const callers = 16
	return all(callers, func(w int) error {
		for i := w; i < keys; i += callers {
			c := s.charge("key"+strconv.Itoa(i), time.Minute, 1<<30)
			if granted, err := s.take(ctx, w, &c); err != nil || !granted {
				return fmt.Errorf("key %d: granted %t: %w", i, granted, err)
			}
		}
		return nil
	})
}

// rate returns how many units a second eight callers take of the hot key, while another caller
// takes one of some other key 500 times a second.
func (s *side) rate(ctx context.Context, keys int, each time.Duration) (float64, error) {
	var granted atomic.Int64
	ends := time.Now().Add(each)
	err := all(9, func(w int) error {
		c := s.charge("hot", time.Minute, 1<<30)
		mine := int64(0)
		defer func() { granted.Add(mine) }()
		for n := 0; n%64 != 0 || time.Now().Before(ends); n++ {
			if w == 8 {
				if c = s.charge("key"+strconv.Itoa(rand.IntN(keys)), time.Minute, 1<<30); time.Now().After(ends) {
					return nil
				}
				time.Sleep(2 * time.Millisecond)
			}
			ok, err := s.take(ctx, w, &c)
			if err != nil || !ok {
				return fmt.Errorf("granted %t: %w", ok, err)
			}
			if w < 8 {
				mine++
			}
			if s.life == 0 && time.Now().After(ends) {
				return nil
			}
		}
		return nil
	})
	return float64(granted.Load()) / each.Seconds(), err
}

// upToTheLimit takes all units of a key, until nothing was granted for a second longer than blocks
// live. It returns how many were granted.
func (s *side) upToTheLimit(ctx context.Context, c quota.Charge) (int64, error) {
	var granted, last atomic.Int64
	last.Store(time.Now().UnixNano())
	err := all(8, func(w int) error {
		for {
			ok, err := s.take(ctx, w, &c)
			switch {
			case err != nil:
				return err
			case ok:
				granted.Add(1)
			case time.Since(time.Unix(0, last.Load())) > s.life+time.Second:
				return nil
			default:
				time.Sleep(20 * time.Millisecond)
				continue
			}
			last.Store(time.Now().UnixNano())
		}
	})
	return granted.Load(), err
}

// hot measures a hot key among many in each store but memory, where blocks save nothing.
func (p *plan) hot(ctx context.Context, keys int) error {
	missed := false
	for _, name := range p.stores {
		if name == "memory" {
			continue
		}
		dir, err := os.MkdirTemp(p.dir, "hot")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		l, err := openers[name](ctx, dir)
		if err != nil {
			return err
		}
		defer l.end()
		reached, err := p.hotKey(ctx, name, l, keys)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		missed = missed || !reached
	}
	if missed {
		return errors.New("a target was missed")
	}
	return nil
}

func (p *plan) hotKey(ctx context.Context, name string, l *ledger, keys int) (reached bool, err error) {
	sides := []*side{{name: "plain", stores: []quota.Store{l.Store}}, {name: "leased", life: 2 * time.Second}}
	for range 4 {
		s := leasestore.New(l.Store, nil)
		defer func() { err = errors.Join(err, s.Close()) }()
		sides[1].stores = append(sides[1].stores, s)
	}
	fmt.Printf("%s, one hot key among %d, median of %d rounds of %s\n", name, keys, p.rounds, p.each)
	for _, s := range sides {
		before, err := l.bytes(ctx)
		if err != nil {
			return false, err
		}
		process := heap()
		if err := s.each(ctx, keys); err != nil {
			return false, err
		}
		after, err := l.bytes(ctx)
		if err != nil {
			return false, err
		}
		fmt.Printf("  %-6s %8.0f B in the store and %4.0f B in the process for a key that was used once\n",
			s.name, float64(after-before)/float64(keys), float64(heap()-process)/float64(keys))
	}
	var rates, cold [2][]float64
	var ratios []float64
	for range p.rounds {
		for i, s := range sides {
			some, began := max(keys/20, 1), time.Now()
			if err := s.each(ctx, some); err != nil {
				return false, err
			}
			cold[i] = append(cold[i], float64(time.Since(began).Microseconds())/float64(some))
			rate, err := s.rate(ctx, keys, p.each)
			if err != nil {
				return false, err
			}
			rates[i] = append(rates[i], rate)
		}
		ratios = append(ratios, rates[1][len(ratios)]/rates[0][len(ratios)])
	}
	for i, s := range sides {
		fmt.Printf("  %-6s %8.0f us for a call of another key, %10.0f units a second of the hot key\n", s.name, team.Median(cold[i]), team.Median(rates[i]))
	}
	ratio, limit := team.Median(ratios), 20*int64(keys)
	fmt.Printf("  %.0f times as many\n", ratio)
	c := sides[1].charge("limited", time.Hour, limit)
	granted, err := sides[1].upToTheLimit(ctx, c)
	if err != nil {
		return false, err
	}
	pages, err := l.Look(ctx, []quota.Charge{c})
	if err != nil {
		return false, err
	}
	used := pages[0].Windows[0].Used
	fmt.Printf("  of a limit of %d: %d granted, %d stranded, %d left\n", limit, granted, used-granted, limit-used)
	return ratio >= wantRatio && granted <= limit && float64(limit-granted) <= mostStranded*float64(limit), nil
}
