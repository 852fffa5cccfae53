package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// recordings measures how many calls a second pass our proxy while it records them, beside one that does not. Both
// are called as fast as they answer, in turns.
func recordings(ctx context.Context, out io.Writer, s sizes) (err error) {
	c, err := newContenders(ctx, "recording")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	var ratios []float64
	for range 10 * s.runs {
		plain, err := c.calls(ctx, c.bases[2], s.turn)
		if err != nil {
			return err
		}
		recorded, err := c.calls(ctx, c.bases[3], s.turn)
		if err != nil {
			return err
		}
		ratios = append(ratios, float64(recorded)/float64(max(plain, 1)))
	}
	slices.Sort(ratios)
	_, err = fmt.Fprintf(out, "calls a second with --record, beside those without: %.3f (at least 0.9), from %.3f to %.3f; median of %d pairs of %v\n",
		ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1], len(ratios), s.turn)
	return err
}

// calls returns how many calls were answered in a while, by eight callers.
func (c *contenders) calls(ctx context.Context, base string, length time.Duration) (n int, err error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	end := time.Now().Add(length)
	for range 8 {
		all.Go(func() {
			for time.Now().Before(end) {
				_, failed := call(ctx, c.client, base+"/items")
				mu.Lock()
				n, err = n+1, errors.Join(err, failed)
				mu.Unlock()
				if failed != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return n, err
}
