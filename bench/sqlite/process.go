package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"
)

// A team is the processes of one contender, on one file.
type team struct{ children []*child }

// child is a process of this program. It says "ready", and works for a round
// whenever it reads a line; then it says how often a second it did.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func start(program, name string, n, callers int, each time.Duration, dir string) (_ *team, err error) {
	if dir, err = os.MkdirTemp(dir, "ledger"); err != nil {
		return nil, err
	}
	t := &team{}
	for range n {
		c := &child{cmd: exec.Command(program, "-child", name, "-callers", strconv.Itoa(callers), "-path", filepath.Join(dir, "ledger.db"),
			"-warm", strconv.Itoa(warmUp/n), "-each", each.String())}
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

// round lets all children work at once. It returns their rates together, and the highest
// of their 99th percentiles, in seconds.
func (t *team) round() (sum, p99 float64, err error) {
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
		var rate, late float64
		if _, err := fmt.Sscan(line, &rate, &late); err != nil {
			return 0, 0, err
		}
		sum, p99 = sum+rate, max(p99, late)
	}
	return sum, p99, nil
}

func (t *team) kill() {
	for _, c := range t.children {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait() // it was killed
	}
}

// serve is what a child does until there are no more lines.
func serve(ctx context.Context, name, path string, callers, warm int, each time.Duration) error {
	for _, c := range contenders {
		if c.name != name {
			continue
		}
		do, end, err := c.open(ctx, path)
		if err != nil {
			return err
		}
		return errors.Join(work(ctx, do, callers, warm, each), end())
	}
	return fmt.Errorf("there is no contender %q", name)
}

// warmUp is so many calls on a file that its -wal has been filled and begun again:
// until then it grows, and committing to a growing file is slower.
const warmUp = 6000

func work(ctx context.Context, do func(context.Context) error, callers, warm int, each time.Duration) error {
	for range warm {
		if err := do(ctx); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var group sync.WaitGroup
		took, failed := make([][]time.Duration, callers), make([]error, callers)
		began := time.Now()
		for i := range callers {
			group.Go(func() {
				for at := began; failed[i] == nil && at.Sub(began) < each; {
					failed[i] = do(ctx)
					now := time.Now()
					took[i] = append(took[i], now.Sub(at))
					at = now
				}
			})
		}
		group.Wait()
		whole := time.Since(began)
		if err := errors.Join(failed...); err != nil {
			return err
		}
		all := slices.Sorted(slices.Values(slices.Concat(took...)))
		fmt.Println(float64(len(all))/whole.Seconds(), all[len(all)*99/100].Seconds())
	}
	return nil
}
