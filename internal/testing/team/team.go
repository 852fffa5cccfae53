// Package team runs the processes of a benchmark in turns, and times what their callers do.
package team

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// Team is the processes of one contender, on one database.
type Team struct{ children []*child }

// child is a process that runs [Serve]. It says "ready", and works for a round whenever it reads
// a line. Then it says how many calls it made in a second, and their 99th percentile in seconds.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// Start starts a program so many times, and waits until all are ready.
func Start(program string, processes int, args ...string) (*Team, error) {
	t := &Team{}
	for range processes {
		c := &child{cmd: exec.Command(program, args...)}
		c.cmd.Stderr = os.Stderr
		out, err := c.cmd.StdoutPipe()
		if err == nil {
			c.in, err = c.cmd.StdinPipe()
		}
		if err == nil {
			err = c.cmd.Start()
		}
		if err == nil {
			t.children = append(t.children, c)
			c.out = bufio.NewScanner(out)
			_, err = c.line()
		}
		if err != nil {
			t.Kill()
			return nil, fmt.Errorf("start %q: %w", args, err)
		}
	}
	return t, nil
}

// line reads what the child says next.
func (c *child) line() (string, error) {
	if !c.out.Scan() {
		return "", errors.New("a process has ended before its time")
	}
	return c.out.Text(), nil
}

// Round lets all processes work at once. It returns the calls in a second of all together, and
// the highest of their 99th percentiles, in seconds.
func (t *Team) Round() (rate, p99 float64, err error) {
	for _, c := range t.children {
		if _, err := io.WriteString(c.in, "\n"); err != nil {
			return 0, 0, err
		}
	}
	for _, c := range t.children {
		line, err := c.line()
		if err != nil {
			return 0, 0, err
		}
		var mine, late float64
		if _, err := fmt.Sscan(line, &mine, &late); err != nil {
			return 0, 0, err
		}
		rate, p99 = rate+mine, max(p99, late)
	}
	return rate, p99, nil
}

// Kill ends all processes.
func (t *Team) Kill() {
	for _, c := range t.children {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait() // it was killed
	}
}

// Serve makes this process one of a team, until nobody reads its lines. In a round, each caller
// makes one call after the other for this long.
func Serve(ctx context.Context, callers int, each time.Duration, call func(context.Context) error) error {
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var all sync.WaitGroup
		took, failed := make([][]time.Duration, callers), make([]error, callers)
		began := time.Now()
		for i := range callers {
			all.Go(func() {
				for last := began; last.Sub(began) < each && failed[i] == nil; {
					failed[i] = call(ctx)
					now := time.Now()
					took[i] = append(took[i], now.Sub(last))
					last = now
				}
			})
		}
		all.Wait()
		whole := time.Since(began)
		if err := errors.Join(failed...); err != nil {
			return err
		}
		times := slices.Sorted(slices.Values(slices.Concat(took...)))
		fmt.Println(float64(len(times))/whole.Seconds(), times[len(times)*99/100].Seconds())
	}
	return nil
}

// Median returns the median of some figures; of none it is 0.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[len(v)/2] + v[(len(v)-1)/2]) / 2
}
