// Package duel has what the benchmarks of ledgers in SQLite and in PostgreSQL share: a
// contender reserves, or does the least that a counter in such a database does, in processes
// that take turns with those of the others.
package duel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/team"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// Contender commits one transaction per call, and each must be granted or refused as it is
// meant to.
type Contender struct {
	Name   string
	Open   Open
	Judged bool // by the goals

	Callers []int // in one process, instead of processes
}

// Open opens a database that other processes have open too. It returns what is timed, for so
// many callers at once, and what ends it.
type Open func(ctx context.Context, place string, callers int) (do func(context.Context) error, end func() error, err error)

// Ours are the contenders that reserve in a store, with one window and with two.
func Ours(store func(ctx context.Context, place string) (quota.Store, func() error, error)) []Contender {
	return []Contender{
		{Name: "ours: 1 window, receipt, spend", Open: reserves(store, 1, roomy), Judged: true},
		{Name: "ours: 2 windows, receipt, spend", Open: reserves(store, 2, roomy), Judged: true},
		{Name: "ours: 2 windows, refused", Open: reserves(store, 2, 0)},
	}
}

// roomy is a limit that no timed call comes near.
const roomy = 1<<31 - 1

// reserves reserves as a ledger does for a transport: with an id that is fresh.
func reserves(store func(context.Context, string) (quota.Store, func() error, error), windows int, limit int64) Open {
	return func(ctx context.Context, place string, _ int) (func(context.Context) error, func() error, error) {
		s, end, err := store(ctx, place)
		if err != nil {
			return nil, nil, err
		}
		pacific, err := time.LoadLocation("America/Los_Angeles")
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		c := quota.Charge{
			Pool:  quota.Pool{Upstream: "youtube", Account: quota.DefaultAccount, Name: "units"},
			Units: 3, Revision: 1, Zone: pacific,
		}
		for _, spec := range []window.Spec{{Per: 24 * time.Hour}, {Period: window.Day, Zone: pacific}}[:windows] {
			if spec, err = spec.Normal(); err != nil {
				return nil, nil, errors.Join(err, end())
			}
			c.Windows = append(c.Windows, window.NewLimit(spec, limit))
		}
		var n atomic.Int64
		return func(ctx context.Context) error {
			v, err := s.Reserve(ctx, quota.Request{
				ID: fmt.Sprintf("%08x%08x", os.Getpid(), n.Add(1)), Charges: []quota.Charge{c}, Fresh: true,
				Labels: quota.Labels{Method: "videos.list", Job: "trending", Region: "DE", Class: "backfill"},
			})
			if err == nil && v.Allowed != (limit > 0) {
				err = errors.New("granted what it should have refused, or the other way round")
			}
			return err
		}, end, nil
	}
}

// Result is what was measured of a contender, by round.
type Result struct {
	Contender
	Rates, Ratios, Late []float64 // Ratios compare with the first contender; Late are p99 in seconds
}

// Compete lets teams work by turns; the processes of those whose turn it is not wait. The
// first rounds may be left out.
func Compete(all []*Result, teams []*team.Team, leftOut, rounds int) error {
	for n := range leftOut + rounds {
		for i, r := range all {
			rate, late, err := teams[i].Round()
			if err != nil {
				return fmt.Errorf("%s: %w", r.Name, err)
			}
			if n < leftOut {
				continue
			}
			r.Rates, r.Late = append(r.Rates, rate), append(r.Late, late)
			r.Ratios = append(r.Ratios, rate/all[0].Rates[len(r.Rates)-1])
		}
	}
	return nil
}

// Mark says whether a contender that is judged has reached its goals.
func (r *Result) Mark(reached bool) string {
	switch {
	case !r.Judged:
		return ""
	case reached:
		return "reached"
	}
	return "MISSED"
}

// Serve is what a child does: warm up with so many calls, and then work for a round whenever
// it is told to.
func Serve(ctx context.Context, all []Contender, name, place string, callers, warm int, each time.Duration) error {
	i := slices.IndexFunc(all, func(c Contender) bool { return c.Name == name })
	if i < 0 {
		return fmt.Errorf("there is no contender %q", name)
	}
	do, end, err := all[i].Open(ctx, place, callers)
	if err != nil {
		return err
	}
	for range warm {
		if err = do(ctx); err != nil {
			break
		}
	}
	if err == nil {
		err = team.Serve(ctx, callers, each, do)
	}
	return errors.Join(err, end())
}

// Try calls each contender three times in a place of its own.
func Try(ctx context.Context, all []Contender, place func() string) (failed error) {
	for _, c := range all {
		do, end, err := c.Open(ctx, place(), 1)
		for n := 0; err == nil && n < 3; n++ {
			err = do(ctx)
		}
		if end != nil {
			err = errors.Join(err, end())
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", c.Name, err))
		}
	}
	return failed
}
