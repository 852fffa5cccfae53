package leasestore_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/childtest"
	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/leasestore"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/window"
)

func TestMain(m *testing.M) {
	childtest.Main(m, map[string]childtest.Task{"pool": spendAll(pool), "key": spendAll(key)})
}

// Processes use one of these up together.
var (
	pool = quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: "units"}
	key  = quota.Pool{Upstream: "client", Account: quota.DefaultAccount, Key: "hot"}
)

// all is a charge of what processes use up together.
func all(p quota.Pool) quota.Charge {
	const life = 500 * time.Millisecond
	return quota.Charge{
		Pool: p, Units: 1, Revision: 1,
		Windows: []window.Limit{
			limit(allUnits, window.Spec{Per: time.Hour, Late: life}), limit(allUnits, window.Spec{Period: window.Month}),
		},
		Lease: quota.Lease{Life: life, Most: allUnits / 20},
	}
}

const allUnits = 20_000

// spendAll is a process. It spends until so many calls in a row were refused that all blocks of
// others have ended meanwhile, and writes a byte for each grant, which outlives kill -9.
func spendAll(p quota.Pool) childtest.Task {
	return func(dir string, begin func() bool, _ io.Writer) error { return spend(p, dir, begin) }
}

func spend(p quota.Pool, dir string, begin func() bool) error {
	address, err := os.ReadFile(filepath.Join(dir, "address"))
	if err != nil {
		return err
	}
	ledger, err := redisstore.Open(string(address), nil)
	if err != nil {
		return err
	}
	store := leasestore.New(ledger, nil)
	granted, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(os.Getpid())), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	begin()
	charge := all(p)
	const pause = 5 * time.Millisecond
	for n, refused := 0, time.Duration(0); refused*pause < 2*charge.Lease.Life; n++ {
		v, err := store.Reserve(context.Background(), quota.Request{ID: fmt.Sprint(os.Getpid(), "-", n), Fresh: true, Charges: []quota.Charge{charge}})
		if err != nil {
			return err
		}
		if !v.Allowed {
			refused++
			time.Sleep(pause)
			continue
		}
		refused = 0
		if _, err := granted.WriteString("1"); err != nil {
			return err
		}
	}
	return store.Close()
}

// Processes use a limit up together. One of them is killed. What the others were granted,
// with what it was granted and its last block, is the limit.
func TestKilledProcess(t *testing.T) {
	for task, p := range map[string]quota.Pool{"pool": pool, "key": key} {
		t.Run(task, func(t *testing.T) { killOne(t, task, p) })
	}
}

func killOne(t *testing.T, task string, p quota.Pool) {
	server, err := redistest.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	dir, address := t.TempDir(), "redis://"+server.Addr
	if err := os.WriteFile(filepath.Join(dir, "address"), []byte(address), 0o600); err != nil {
		t.Fatal(err)
	}
	granted := func() (sum int64) {
		files, err := filepath.Glob(filepath.Join(dir, "[0-9]*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if info, err := os.Stat(file); err == nil {
				sum += info.Size()
			}
		}
		return sum
	}
	var children []*childtest.Child
	for range 4 {
		children = append(children, childtest.Start(t, task, dir))
	}
	for _, c := range children {
		c.Begin()
	}
	for deadline := time.Now().Add(3 * time.Minute); granted() < allUnits/3; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("only %d units were granted in three minutes", granted())
		}
	}
	children[0].Kill()
	for _, c := range children[1:] {
		c.Rest()
	}
	ledger, err := redisstore.Open(address, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ledger.Close() })
	charge := all(p)
	pages, err := ledger.Look(t.Context(), []quota.Charge{charge})
	if err != nil {
		t.Fatal(err)
	}
	used := pages[0].Windows[0].Used
	stranded := used - granted()
	t.Logf("%d granted, %d stranded", granted(), stranded)
	if used != allUnits || stranded < 0 || stranded > charge.Lease.Most {
		t.Errorf("%d of %d units count, %d of them are stranded, want at most %d", used, allUnits, stranded, charge.Lease.Most)
	}
}
