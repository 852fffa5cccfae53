package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"
)

// A team is the processes of one contender, on one database.
type team struct{ children []*child }

// child is a process of this program. It says "ready", and works for a round whenever it
// reads a line; then it says how often a second it did, and its p99 in milliseconds.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func start(name, url string, l load, each time.Duration) (*team, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	t := &team{}
	for range l.processes {
		c := &child{cmd: exec.Command(self, "-child", name, "-url", url, "-callers", strconv.Itoa(l.callers), "-each", each.String())}
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
			t.kill()
			return nil, fmt.Errorf("start %s: %w", name, err)
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

// round lets all children work at once. It returns their rates together, and the highest of
// their p99.
func (t *team) round() (sum, late float64, err error) {
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
		var rate, p99 float64
		if _, err := fmt.Sscan(line, &rate, &p99); err != nil {
			return 0, 0, err
		}
		sum, late = sum+rate, max(late, p99)
	}
	return sum, late, nil
}

func (t *team) kill() {
	for _, c := range t.children {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait() // it was killed
	}
}

// serve is what a child does until there are no more lines.
func serve(ctx context.Context, name, url string, callers int, each time.Duration) error {
	i := slices.IndexFunc(contenders, func(c contender) bool { return c.name == name })
	if i < 0 {
		return fmt.Errorf("there is no contender %q", name)
	}
	do, end, err := contenders[i].open(ctx, url, callers)
	if err != nil {
		return err
	}
	defer end()
	if err := do(ctx); err != nil {
		return err
	}
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if err := work(ctx, do, callers, each); err != nil {
			return err
		}
	}
	return nil
}

// work lets all callers of a child work for a round.
func work(ctx context.Context, do func(context.Context) error, callers int, each time.Duration) error {
	var all sync.WaitGroup
	took, errs := make([][]float64, callers), make([]error, callers)
	began := time.Now()
	for i := range callers {
		all.Go(func() {
			for last := began; last.Sub(began) < each && errs[i] == nil; {
				errs[i] = do(ctx)
				now := time.Now()
				took[i] = append(took[i], now.Sub(last).Seconds()*1000)
				last = now
			}
		})
	}
	all.Wait()
	times := slices.Sorted(slices.Values(slices.Concat(took...)))
	fmt.Println(float64(len(times))/time.Since(began).Seconds(), times[len(times)*99/100])
	return errors.Join(errs...)
}
