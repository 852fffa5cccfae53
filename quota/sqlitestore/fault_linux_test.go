package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/filetest"

	"github.com/headroom-quota/headroom/internal/testing/childtest"
	"github.com/headroom-quota/headroom/quota"
)

func init() {
	children["as nobody"] = filetest.AsNobody(func(path string) error {
		s, err := Open(context.Background(), path, nil)
		if err == nil {
			_, err = reserve(s, "", 1)
			err = errors.Join(err, s.Close())
		}
		return err
	})
}

func TestWithoutTheRightToWrite(t *testing.T) {
	kept.WithoutRights(t, func(t *testing.T, path string) (io.Closer, func(*testing.T)) {
		s := must(t, path, nil)
		if _, err := reserve(s, "a", 5); err != nil {
			t.Fatal(err)
		}
		return s, func(t *testing.T) {
			if used := used(t, must(t, path, nil)); used != 5 {
				t.Errorf("%d units are used, want 5", used)
			}
		}
	})
}

// ready asks what a health check asks.
func ready(s *Store) error {
	_, err := s.Settle(context.Background(), quota.Token{Upstream: "youtube", Account: quota.DefaultAccount, ID: quota.ReadyID}, nil)
	if errors.Is(err, quota.ErrNoReceipt) {
		return nil
	}
	return err
}

func TestFullDisk(t *testing.T) {
	fill := func(t *testing.T, s *Store) (granted int, err error) {
		for ; granted < 100_000; granted++ {
			v, err := reserve(s, fmt.Sprint("call ", granted), 1)
			if err != nil {
				return granted, err
			}
			if !v.Allowed {
				t.Fatalf("refused: %+v", v)
			}
		}
		return granted, nil
	}
	after := func(t *testing.T, s *Store, granted int) {
		if used := used(t, s); used != int64(granted) {
			t.Errorf("%d units are used, want %d", used, granted)
		}
		if v, err := reserve(s, "one more", 1); err != nil || !v.Allowed {
			t.Errorf("when there was room again: %+v %v", v, err)
		}
		for _, i := range []int{0, granted - 1} {
			if v, err := reserve(s, fmt.Sprint("call ", i), 1); err != nil || !v.Repeat {
				t.Errorf("call %d had been granted: %+v %v", i, v, err)
			}
		}
	}
	t.Run("no_more_pages", func(t *testing.T) {
		s := must(t, filepath.Join(t.TempDir(), "ledger.db"), nil)
		if err := s.file.Writer.Script("PRAGMA max_page_count = 40"); err != nil {
			t.Fatal(err)
		}
		granted, err := fill(t, s)
		filetest.Says(t, err, "write to "+s.file.Path, "the disk is full")
		if err := s.file.Writer.Script("PRAGMA max_page_count = 4000"); err != nil {
			t.Fatal(err)
		}
		after(t, s, granted)
	})
	t.Run("no_more_room", func(t *testing.T) {
		dir := t.TempDir()
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
			t.Skip("cannot mount a small disk: ", err)
		}
		defer func() {
			if err := syscall.Unmount(dir, 0); err != nil {
				t.Error(err)
			}
		}()
		s := must(t, filepath.Join(dir, "ledger.db"), nil)
		granted, err := fill(t, s)
		filetest.Says(t, err, "write to "+s.file.Path, "the disk is full")
		if granted == 0 {
			t.Error("nothing was granted before")
		}
		filetest.Says(t, ready(s), "write to "+s.file.Path, "the disk is full")
		if used := used(t, s); used != int64(granted) { // it can be read
			t.Errorf("%d units are used, want %d", used, granted)
		}
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=8m"); err != nil {
			t.Fatal(err)
		}
		if err := ready(s); err != nil {
			t.Error(err)
		}
		after(t, s, granted)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestBusyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := must(t, path, &Options{Wait: 50 * time.Millisecond})
	holder := childtest.Start(t, "hold", path)

	_, err := reserve(s, "a", 1)
	filetest.Says(t, err, "busy for 50ms", "write to "+path, fmt.Sprintf("process %d (", holder.Process.Pid), "may hold it")
	if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v passes for the caller's deadline", err)
	}
	_, err = Open(context.Background(), path, &Options{Wait: 50 * time.Millisecond})
	filetest.Says(t, err, "busy for 50ms", "open "+path, fmt.Sprintf("process %d (", holder.Process.Pid))

	s.file.wait = time.Hour
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Record(ctx, quota.Request{Charges: []quota.Charge{units(1, 10)}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a caller with a deadline: %v, want its own", err)
	}
	if used := used(t, s); used != 0 { // looking waits for nobody
		t.Errorf("%d units are used, want 0", used)
	}

	holder.Begin()
	holder.Rest()
	if v, err := reserve(s, "a", 1); err != nil || v.Repeat {
		t.Errorf("when it was free: %+v %v", v, err)
	}
}
