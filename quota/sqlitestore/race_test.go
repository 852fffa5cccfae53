package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/internal/testing/childtest"
	"github.com/headroom-quota/headroom/quota"
)

func init() {
	children["race"] = raceFor
	children["stream"] = stream
	children["hold"] = hold
}

// raceFor reserves a unit as often as HEADROOM_TEST_TIMES says, and writes how
// many it was granted of HEADROOM_TEST_LIMIT.
func raceFor(path string, begin func() bool, out io.Writer) error {
	times, err := strconv.Atoi(os.Getenv("HEADROOM_TEST_TIMES"))
	limit, err2 := strconv.ParseInt(os.Getenv("HEADROOM_TEST_LIMIT"), 10, 64)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	ctx := context.Background()
	s, err := Open(ctx, path, patient)
	if err != nil {
		return err
	}
	defer s.Close()
	begin()
	granted := 0
	for range times {
		v, err := s.Reserve(ctx, quota.Request{Charges: []quota.Charge{units(1, limit)}})
		if err != nil {
			return err
		}
		if v.Allowed {
			granted++
		}
	}
	_, err = fmt.Fprintln(out, granted)
	return err
}

func TestProcessesRacingAreGrantedTheLimitExactly(t *testing.T) {
	processes, times, limit := scaled(4, 8), scaled(100, 500), scaled(200, 1000)
	path := filepath.Join(t.TempDir(), "ledger.db")
	var all []*childtest.Child
	for range processes { // they race to make the file too
		all = append(all, childtest.Start(t, "race", path, fmt.Sprint("HEADROOM_TEST_TIMES=", times), fmt.Sprint("HEADROOM_TEST_LIMIT=", limit)))
	}
	for _, c := range all {
		c.Begin()
	}
	granted := 0
	for _, c := range all {
		n, err := strconv.Atoi(strings.Join(c.Rest(), ""))
		if err != nil {
			t.Fatal(err)
		}
		granted += n
	}
	s := must(t, path, nil)
	if used := used(t, s); granted != limit || used != int64(limit) {
		t.Errorf("%d processes were granted %d of %d units, the ledger says %d", processes, granted, limit, used)
	}
}

// stream reserves a unit over and over, and writes each id once it was granted.
func stream(path string, begin func() bool, out io.Writer) error {
	ctx := context.Background()
	s, err := Open(ctx, path, patient)
	if err != nil {
		return err
	}
	defer s.Close()
	begin()
	for i := 0; ; i++ {
		id := fmt.Sprintf("%d-%d", os.Getpid(), i)
		v, err := s.Reserve(ctx, quota.Request{ID: id, Charges: []quota.Charge{units(1, math.MaxInt32)}})
		if err != nil || !v.Allowed {
			return fmt.Errorf("%+v %w", v, err)
		}
		fmt.Fprintln(out, id)
	}
}

func TestKilledInMidStreamNothingGrantedIsForgotten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	var granted []string
	for kill := range scaled(5, 50) {
		c := childtest.Start(t, "stream", path)
		c.Begin()
		for range 10 + kill { // at another place each time
			granted = append(granted, c.Line())
		}
		granted = append(granted, c.Kill()...)
	}
	s := must(t, path, nil)
	for _, id := range granted {
		v, err := s.Reserve(context.Background(), quota.Request{ID: id, Charges: []quota.Charge{units(1, math.MaxInt32)}})
		if err != nil || !v.Allowed || !v.Repeat {
			t.Fatalf("%q had been granted; now %+v %v", id, v, err)
		}
	}
	// of each kill one may have been committed and not said yet
	if used := used(t, s); used < int64(len(granted)) || used > int64(len(granted)+scaled(5, 50)) {
		t.Errorf("%d units were granted, the ledger says %d", len(granted), used)
	}
	if sound, err := s.file.Writer.One("PRAGMA integrity_check"); err != nil || sound.Text(0) != "ok" {
		t.Errorf("integrity_check: %v %v", sound, err)
	}
}

// used is what the trailing day of the pool counts.
func used(t testing.TB, s *Store) int64 {
	t.Helper()
	states, err := s.Look(context.Background(), []quota.Charge{units(0, math.MaxInt32)})
	if err != nil {
		t.Fatal(err)
	}
	return states[0].Windows[0].Used
}

// hold holds the write lock until it is told to end.
func hold(path string, begin func() bool, _ io.Writer) error {
	s, err := Open(context.Background(), path, patient)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.file.Writer.Begin(); err != nil {
		return err
	}
	begin()
	return nil
}
