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

// openLoop calls at a steady rate, whatever the answers take. The contenders take turns, so
// that what else the machine does meets all of them. A call took the time from the instant
// at which it was due: a generator that waits for a slow answer, or for its own turn on the
// machine, does not leave the slow calls out. How late the calls left is shown beside it.
func openLoop(ctx context.Context, out io.Writer, s sizes) (err error) {
	c, err := newContenders(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if _, err := c.atRate(ctx, s, min(s.length, time.Second)); err != nil { // opens the connections
		return err
	}
	_, err = fmt.Fprintf(out, "open loop, %d a second, for %v each in turns of %v, %d runs\n%8s  %-24s %-24s %-24s %s\n", s.rate, s.length, s.turn, s.runs,
		"", "direct p50, p99", "bare proxy p50, p99", "ours p50, p99", "left late p50, p99")
	added := map[string][]time.Duration{}
	for n := range s.runs {
		took, err := c.atRate(ctx, s, s.length)
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%8d", n+1)
		for _, of := range took {
			line += fmt.Sprintf("  %-24s", fmt.Sprint(share(of, 50), ", ", share(of, 99)))
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
		for _, percent := range []int{50, 99} {
			for i, than := range []string{"direct", "bare"} {
				key := fmt.Sprint(percent, " ", than)
				added[key] = append(added[key], share(took[2], percent)-share(took[i], percent))
			}
		}
	}
	_, err = fmt.Fprintf(out, "  added to direct: %v at p50 (at most 1ms), %v at p99 (at most 5ms); to a bare proxy: %v and %v; median of %d runs\n",
		share(added["50 direct"], 50), share(added["99 direct"], 50), share(added["50 bare"], 50), share(added["99 bare"], 50), s.runs)
	return err
}

// atRate calls each contender for a while, in turns. It returns how long the calls took, and
// at last how late they left.
func (c *contenders) atRate(ctx context.Context, s sizes, length time.Duration) (took [][]time.Duration, err error) {
	turns := max(int(length/s.turn), 1)
	each := max(int(min(s.turn, length).Seconds()*float64(s.rate)), 1)
	took = make([][]time.Duration, len(c.bases)+1)
	for range turns {
		for i, base := range c.bases {
			times, late, errs := make([]time.Duration, each), make([]time.Duration, each), make([]error, each)
			var all sync.WaitGroup
			begun := time.Now()
			for n := range each {
				due := begun.Add(time.Duration(n) * time.Second / time.Duration(s.rate))
				time.Sleep(time.Until(due))
				all.Go(func() {
					late[n] = time.Since(due)
					var first time.Time
					first, errs[n] = call(ctx, c.client, base+"/items")
					times[n] = first.Sub(due)
				})
			}
			all.Wait()
			if err := errors.Join(errs...); err != nil {
				return nil, err
			}
			took[i], took[len(took)-1] = append(took[i], times...), append(took[len(took)-1], late...)
		}
	}
	return took, nil
}

// share returns the duration that a share of them, in percent, stay within.
func share(all []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)].Round(time.Microsecond)
}

// streams reads the first byte of a stream that goes on.
func streams(ctx context.Context, out io.Writer, s sizes) (err error) {
	c, err := newContenders(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	took := make([][]time.Duration, len(c.bases))
	for range s.streams {
		for i, base := range c.bases {
			begun := time.Now()
			first, err := call(ctx, c.client, base+"/stream")
			if err != nil {
				return err
			}
			took[i] = append(took[i], first.Sub(begun))
		}
	}
	line := "first byte of a stream, p50, p99:"
	for i, of := range took {
		line += fmt.Sprintf(" %s %v, %v;", []string{"direct", "bare proxy", "ours"}[i], share(of, 50), share(of, 99))
	}
	_, err = fmt.Fprintf(out, "%s\n  delayed by %v at p50 (at most 1ms); by %v beside a bare proxy; %d streams\n", line,
		share(took[2], 50)-share(took[0], 50), share(took[2], 50)-share(took[1], 50), s.streams)
	return err
}
