package verdict_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/testing/viewtest"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/ingest/fleet"
)

// TestAHangingLedgerIsNoBrokenCatalog: who waits for all facts together waits for the ledger only a part of that
// time, so that the catalog is still read.
func TestAHangingLedgerIsNoBrokenCatalog(t *testing.T) {
	r := viewtest.New(t, nil)
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	r.Store.Before.Store(&hangs)
	src := r.Sources()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	is := verdict.NewReader(&verdict.Options{Clock: r.Clock, Timeout: time.Minute}).Read(ctx, &src)
	if is.Outage == nil || is.Unread != nil {
		t.Errorf("the ledger: %v; the catalog: %v", is.Outage, is.Unread)
	}
	if v := is.Verdict(); v.Word != "Not known" {
		t.Errorf("it says %s", v.Said())
	}
}

// lateBoard knows at the end of its time why it does not answer.
type lateBoard struct{ paused }

func (lateBoard) Status(ctx context.Context) (fleet.Status, error) {
	<-ctx.Done()
	return fleet.Status{}, &fleet.LockedError{Locks: []fleet.Lock{{Table: "river_job"}}}
}

// TestALockIsNamedAtTheEndOfTheTime: an error that comes with a deadline keeps its reason.
func TestALockIsNamedAtTheEndOfTheTime(t *testing.T) {
	r := viewtest.New(t, nil)
	src := r.Sources()
	src.Fleet = lateBoard{}
	is := verdict.NewReader(&verdict.Options{Clock: r.Clock, Timeout: 100 * time.Millisecond}).Read(t.Context(), &src)
	if _, named := errors.AsType[*fleet.LockedError](is.Unseen); !named {
		t.Errorf("it says %v", is.Unseen)
	}
}

// TestARunByHandHidesNoTimer: a timer runs the jobs, and then a person does.
func TestARunByHandHidesNoTimer(t *testing.T) {
	r := viewtest.New(t, nil)
	r.RunOnTime("trending")
	r.Clock.Advance(time.Minute)
	r.Run("trending")
	r.Run("retention")
	src := r.Sources()
	v := verdict.NewReader(&verdict.Options{Clock: r.Clock}).Read(t.Context(), &src).Verdict()
	if v.Word != "Available" {
		t.Errorf("it says %s", v.Said())
	}
}

// TestWhatADaemonNotedEndsWithIt: a daemon that could not write the ledger says nothing of it any more.
func TestWhatADaemonNotedEndsWithIt(t *testing.T) {
	r := viewtest.New(t, nil)
	src := r.Sources()
	for _, test := range []struct {
		ended, shut bool
		says        string
	}{{false, false, "are admitted"}, {false, true, "are refused"}, {true, true, "ended at"}} {
		all, err := json.Marshal([]verdict.Beat{{Host: "a", PID: 1, At: r.Clock.Now(), Ended: test.ended, Stuck: "no room", Shut: test.shut}})
		r.Must(err)
		r.Must(verdict.Change(t.Context(), r.Catalog, "daemons", func(string) (string, bool) { return string(all), true }))
		if test.ended {
			r.Clock.Advance(time.Minute)
		}
		v := verdict.NewReader(&verdict.Options{Clock: r.Clock}).Read(t.Context(), &src).Verdict().Said().String()
		if !strings.Contains(v, test.says) {
			t.Errorf("%+v: it says %s", test, v)
		}
	}
}
