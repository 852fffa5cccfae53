package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/leasestore"
	"github.com/headroom-quota/headroom/quota/redisstore"
)

// side is the processes of one side. Each counts its grants in memory that it shares with
// this process, so that the count survives kill -9.
type side struct {
	all    []*exec.Cmd
	counts []*counter
	killed map[int]bool
}

// start starts all processes of a side, and lets them begin together.
func (b *bench) start(kind, pool string, limit int64) (*side, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	t := &side{killed: map[int]bool{}}
	for i := range processes {
		path := filepath.Join(b.dir, fmt.Sprintf("%s-%s-%d", pool, kind, i))
		if err := os.WriteFile(path, make([]byte, 8), 0o600); err != nil {
			return nil, err
		}
		count, err := openCounter(path)
		if err != nil {
			return nil, err
		}
		cmd := exec.Command(self, "-child", kind, "-addr", b.addr, "-pool", pool, "-count", path,
			"-limit", strconv.FormatInt(limit, 10), "-each", b.each.String())
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		t.all, t.counts = append(t.all, cmd), append(t.counts, count)
	}
	return t, nil
}

// kill ends a process as kill -9 does.
func (t *side) kill(i int) error {
	t.killed[i] = true
	return t.all[i].Process.Kill()
}

// wait waits until all processes have ended.
func (t *side) wait() error {
	for i, cmd := range t.all {
		if err := cmd.Wait(); err != nil && !t.killed[i] {
			return err
		}
	}
	return nil
}

// granted returns how many units all processes were granted.
func (t *side) granted() (all int64) {
	for _, c := range t.counts {
		all += c.Load()
	}
	return all
}

// counter is a number in a file that is mapped into memory.
type counter struct{ *atomic.Int64 }

func openCounter(path string) (*counter, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	b, err := syscall.Mmap(int(f.Fd()), 0, 8, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return &counter{(*atomic.Int64)(unsafe.Pointer(&b[0]))}, nil
}

// work is what one process does.
type work struct {
	addr, pool, count string
	leased            bool
	limit             int64
	each              time.Duration
}

// serve reserves one unit after the other: for a while, or until nothing was granted for
// longer than a block lives.
func (w *work) serve(ctx context.Context) error {
	granted, err := openCounter(w.count)
	if err != nil {
		return err
	}
	plain, err := redisstore.Open("redis://"+w.addr, nil)
	if err != nil {
		return err
	}
	defer func() { _ = plain.Close() }()
	var store quota.Store = plain
	if w.leased {
		leased := leasestore.New(plain, nil)
		defer func() { _ = leased.Close() }()
		store = leased
	}
	one := charge(w.pool, w.limit)
	r := quota.Request{Fresh: true, Charges: []quota.Charge{one}, Labels: quota.Labels{Method: "videos.list", Job: "trending", Region: "DE"}}
	began := time.Now()
	last, far := began, w.pool == "far"
	for n := 0; ; n++ {
		if far && n%64 == 0 && time.Since(began) >= w.each {
			return nil
		}
		r.ID = w.count + "-" + strconv.Itoa(n)
		v, err := store.Reserve(ctx, r)
		switch {
		case err != nil:
			return err
		case v.Allowed:
			granted.Add(1)
			if !far {
				last = time.Now()
			}
		case time.Since(last) > one.Lease.Life+time.Second:
			return nil
		default:
			time.Sleep(20 * time.Millisecond)
		}
	}
}
