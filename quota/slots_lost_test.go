package quota_test

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/journal"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// lossy grants a call, and loses the reply.
type lossy struct {
	quota.Store
	lose int
}

func (s *lossy) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	v, err := s.Store.Reserve(ctx, r)
	if s.lose > 0 {
		s.lose--
		return quota.Verdict{}, errors.New("connection reset")
	}
	return v, err
}

// A call whose reply was lost is admitted without its slot. The ledger knows its units, and
// the journal does not keep it.
func TestALostReplyToACallWithASlot(t *testing.T) {
	j, err := journal.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), "ledger")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}()
	l, err := quota.New(mustParse(t, slotBook), &lossy{memstore.New(nil), 1}, &quota.Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	r := must(t, l, quota.Call{Method: "ask"})
	if !r.Outage {
		t.Fatalf("%+v, want it admitted", r.Verdict)
	}
	if err := l.Replay(t.Context()); err != nil {
		t.Error(err)
	}
	if left, err := j.Pending(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("the journal keeps %+v, %v", left, err)
	}
	if _, err := r.Settle(t.Context(), quota.Units{"tokens": 7}); err != nil {
		t.Error(err)
	}
	if err := r.Done(t.Context()); err != nil {
		t.Error(err)
	}
	all, err := l.View().Usage(t.Context(), "", "")
	if err != nil || all[1].Windows[0].Used != 7 {
		t.Errorf("%+v %v, want 7 tokens", all, err)
	}
}

// Two reservations of one id are one call. Its slot is renewed until both are gone.
func TestASlotOfAnIdThatWasRepeated(t *testing.T) {
	inBubble(t, func(r *slotRig) {
		call := r.enter
		call.ID = "once"
		first, again := must(r, r.a, call), must(r, r.a, call)
		if !again.Repeat {
			t.Fatalf("%+v, want a repeat", again.Verdict)
		}
		runtime.KeepAlive(first)
		for range 3 {
			runtime.GC()
			time.Sleep(time.Minute)
		}
		r.used(1, 0)
		r.done(again)
		r.used(0, 0)
	})
}
