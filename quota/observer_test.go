package quota_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

type callerKey struct{}

// seen notes each event with the caller that its context names.
type seen struct{ got []string }

func (s *seen) Observe(ctx context.Context, e quota.Event) {
	who, _ := ctx.Value(callerKey{}).(string)
	s.got = append(s.got, string(e.Kind)+" "+who)
}

// An observer can tell whose call it sees, for example to find its span.
func TestAnObserverGetsTheContextOfTheCaller(t *testing.T) {
	var s seen
	clock := quota.NewSimClock(noon)
	l, err := quota.New(mustParse(t, testBook), memstore.New(&memstore.Options{Clock: clock}), &quota.Options{Clock: clock, Observer: &s})
	if err != nil {
		t.Fatal(err)
	}
	as := func(who string) context.Context { return context.WithValue(t.Context(), callerKey{}, who) }
	call := quota.Call{Upstream: "youtube", Method: "videos.list"}
	pool := quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}
	r, err := l.Reserve(as("a"), call)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Release(as("b")); err != nil {
		t.Fatal(err)
	}
	l.Reserve(as("c"), quota.Call{Upstream: "youtube", Method: "no such"})
	if _, err := l.Admin().Adjust(as("d"), pool, 1, "a test"); err != nil {
		t.Fatal(err)
	}
	if err := l.BlockFor(as("e"), pool, time.Hour, "a test"); err != nil {
		t.Fatal(err)
	}
	l.Reserve(as("f"), call)
	if err := l.Admin().Unblock(as("g"), pool); err != nil {
		t.Fatal(err)
	}
	want := []string{"granted a", "settled b", "unpriced c", "adjusted d", "shut e", "blocked f", "opened g"}
	if diff := cmp.Diff(want, s.got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
