package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// A contender is a ledger with a number of pools.
type contender struct {
	*ledger
	*pools
	series string // as the figures call it
	calls  int64  // reservations that it has made in its turns
}

// reference is what every block measures too: one pool with a window of a day. A block's
// figures are compared with that of the same rounds.
const reference = "reference"

// block measures all numbers of pools of one store and one kind of pool.
func (p *plan) block(ctx context.Context, store string, s series) (all []figure, err error) {
	defer debug.SetGCPercent(debug.SetGCPercent(50)) // a million large pools must fit in memory twice
	dir, err := os.MkdirTemp(p.dir, "bench-grow")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var contenders []*contender
	defer func() {
		for _, c := range contenders {
			c.end()
		}
	}()
	add := func(s series, name string, n int) error {
		own := filepath.Join(dir, strconv.Itoa(len(contenders)))
		if err := os.Mkdir(own, 0o700); err != nil {
			return err
		}
		c, figures, err := p.fill(ctx, store, s, name, n, own)
		if err == nil {
			contenders, all = append(contenders, c), append(all, figures...)
		}
		return err
	}
	if err := add(allSeries[1], reference, 1); err != nil {
		return nil, err
	}
	for _, n := range sizes {
		if n <= p.most && (store != "PostgreSQL" || n <= p.reserved) {
			if err := add(s, s.name, n); err != nil {
				return nil, err
			}
		}
	}
	for round := range p.rounds {
		for _, callers := range crowds {
			for _, i := range rand.Perm(len(contenders)) {
				c := contenders[i]
				rate, err := c.turn(ctx, callers, p.each)
				if err != nil {
					return nil, err
				}
				all = append(all, figure{store, s.name, c.series == reference, len(c.names), callers, round + 1, perSecond, rate})
			}
		}
	}
	return all, nil
}

// fill opens a ledger, and reserves once from each of its pools.
func (p *plan) fill(ctx context.Context, store string, s series, name string, n int, dir string) (_ *contender, all []figure, err error) {
	c := &contender{series: name}
	if c.pools, err = newPools(s, n); err != nil {
		return nil, nil, err
	}
	if c.ledger, err = openers[store](ctx, dir); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			c.end()
		}
	}()
	empty, err := c.bytes(ctx)
	if err != nil {
		return nil, nil, err
	}
	own := heap()
	step := perAccount
	if s.client {
		step = 1
	}
	made, copying := n, c.copy != nil && n > p.reserved && (!s.client || store == "SQLite")
	if copying {
		made = step
	}
	began := time.Now()
	var group sync.WaitGroup
	errs := make([]error, crowds[len(crowds)-1])
	for w := range errs {
		group.Go(func() {
			for i := w * step; i < made && errs[w] == nil; i += len(errs) * step {
				errs[w] = reserve(ctx, c.ledger, quota.Request{Charges: c.together(i), Labels: labels})
			}
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	if copying {
		if err := c.copy(ctx, n/step, s.client); err != nil {
			return nil, nil, err
		}
	}
	took := time.Since(began)
	full, err := c.bytes(ctx)
	if err != nil || name == reference {
		return c, nil, err
	}
	note := func(measure string, value float64) {
		all = append(all, figure{store, s.name, false, n, 0, 0, measure, value})
	}
	note(bytesAll, float64(full-empty))
	if !copying {
		note(secondsFill, took.Seconds())
	}
	if store != "memory" && !copying {
		note(bytesProcess, float64(heap()-own))
	}
	if n > 1 || s.client {
		return c, all, nil
	}
	if _, err := c.turn(ctx, crowds[len(crowds)-1], 5*p.each); err != nil { // of one pool, so all that comes is receipts and rows
		return nil, nil, err
	}
	after, err := c.bytes(ctx)
	note(bytesCall, float64(after-full)/float64(c.calls))
	return c, all, err
}

// turn lets callers reserve for a while, each from a pool at random, and returns how many
// reservations they made a second.
func (c *contender) turn(ctx context.Context, callers int, long time.Duration) (float64, error) {
	var group sync.WaitGroup
	counts, errs := make([]int64, callers), make([]error, callers)
	turn := rand.Uint64()
	began := time.Now()
	for w := range callers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(turn, uint64(w)))
			id := fmt.Appendf(nil, "%016x-%d-", turn, w)
			for {
				r := quota.Request{Charges: []quota.Charge{c.charge(random.IntN(len(c.names)))}, Labels: labels}
				if !c.client {
					r.ID, r.Fresh = string(strconv.AppendInt(id, counts[w], 10)), true
				}
				errs[w] = reserve(ctx, c.ledger, r)
				counts[w]++
				if errs[w] != nil || time.Since(began) >= long {
					return
				}
			}
		})
	}
	group.Wait()
	took := time.Since(began)
	sum := int64(0)
	for _, n := range counts {
		sum += n
	}
	c.calls += sum
	return float64(sum) / took.Seconds(), errors.Join(errs...)
}

func reserve(ctx context.Context, s quota.Store, r quota.Request) error {
	v, err := s.Reserve(ctx, r)
	if err == nil && (!v.Allowed || v.Overflow) {
		err = fmt.Errorf("%w: %s: %+v", errRefused, r.Charges[0].Pool, v)
	}
	return err
}
