package sqlitestore

import (
	"context"
	"errors"
	"io"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/filetest"

	"github.com/headroom-quota/headroom/quota"
)

// reserve reserves units under an id.
func reserve(s *Store, id string, n int64) (quota.Verdict, error) {
	return s.Reserve(context.Background(), quota.Request{ID: id, Charges: []quota.Charge{units(n, math.MaxInt32)}})
}

// kept is how the ledger keeps its files.
var kept = filetest.Files{Kind: files, Open: func(path string) (io.Closer, error) { return Open(context.Background(), path, nil) }}

func TestOpenRefuses(t *testing.T) { kept.Refuses(t, "memstore") }

// stuckClock stands for a transaction that does not come to an end.
type stuckClock struct {
	quota.SystemClock
	reached, released chan struct{}
}

func (c stuckClock) Now() time.Time {
	c.reached <- struct{}{}
	<-c.released
	return c.SystemClock.Now()
}

// A transaction of the same process is waited for no longer than the file.
func TestBusyProcess(t *testing.T) {
	clock := stuckClock{reached: make(chan struct{}), released: make(chan struct{})}
	s := must(t, filepath.Join(t.TempDir(), "ledger.db"), &Options{Wait: 20 * time.Millisecond, Clock: clock})
	first := make(chan error)
	go func() {
		_, err := reserve(s, "a", 1)
		first <- err
	}()
	<-clock.reached
	_, err := reserve(s, "b", 1)
	filetest.Says(t, err, "write to "+s.file.Path, "busy for 20ms", "this process")
	close(clock.released)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

func TestFileTakenAway(t *testing.T) {
	kept.TakenAway(t, func(t *testing.T, path string) func() map[string]error {
		s := must(t, path, nil)
		first, err := reserve(s, "a", 5)
		if err != nil {
			t.Fatal(err)
		}
		return func() map[string]error {
			ctx, charges := context.Background(), []quota.Charge{units(1, 10)}
			_, reserve := reserve(s, "b", 1)
			_, settle := s.Settle(ctx, first.Token(), quota.Units{"units": 0})
			_, look := s.Look(ctx, charges)
			_, spend := s.Spend(ctx, quota.SpendQuery{Upstream: "youtube", Account: quota.DefaultAccount})
			all := map[string]error{
				"reserve": reserve, "settle": settle, "look": look, "spend": spend,
				"record": errOf(s.Record(ctx, quota.Request{Charges: charges})),
				"block":  s.Block(ctx, quota.BlockRequest{Charges: charges, For: time.Hour}),
			}
			for op, err := range all {
				if !errors.Is(err, quota.ErrOutage) {
					t.Errorf("%s: %v, want an outage", op, err)
				}
			}
			return all
		}
	})
}

func TestDamagedPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := must(t, path, nil)
	if _, err := reserve(s, "a", 5); err != nil {
		t.Fatal(err)
	}
	kept.Spoil(t, path, "UPDATE pools SET stamp = 1, page = x'010203'")
	_, err := reserve(s, "b", 1)
	filetest.Says(t, err, "youtube/units", path, "is damaged", "table pools")
	_, err = s.Look(context.Background(), []quota.Charge{units(0, 10)})
	filetest.Says(t, err, "youtube/units", "is damaged")
	if _, err := reserve(must(t, path, nil), "b", 1); err == nil {
		t.Error("granted by another process")
	}

	kept.Spoil(t, path, "DELETE FROM pools") // as the error says to
	if _, err := s.Record(context.Background(), quota.Request{Charges: []quota.Charge{units(5, 10)}, Restore: true}); err != nil {
		t.Fatal(err)
	}
	if used := used(t, s); used != 5 {
		t.Errorf("%d units are used, want the 5 that were put back", used)
	}
}

func TestCancelledBeforeNothingIsWritten(t *testing.T) {
	s := must(t, filepath.Join(t.TempDir(), "ledger.db"), nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Settle(ctx, quota.Token{}, nil); err != context.Canceled { //nolint:errorlint // unchanged is the promise
		t.Errorf("settle: %v, want %v as it is", err, context.Canceled)
	}
	if _, err := Open(ctx, filepath.Join(t.TempDir(), "new.db"), nil); err != context.Canceled { //nolint:errorlint // likewise
		t.Errorf("open: %v, want %v as it is", err, context.Canceled)
	}
}

func TestClosed(t *testing.T) {
	s := must(t, filepath.Join(t.TempDir(), "ledger.db"), nil)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err := reserve(s, "a", 1)
	filetest.Says(t, err, "closed")
	_, err = s.Look(context.Background(), []quota.Charge{units(1, 10)})
	filetest.Says(t, err, "")
}
