package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// start is the beginning of timelines, a Monday. It is the edge of a bucket of every ring
// here, and far from the boundaries of days.
var start = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// rig is a fresh store under test, with the pools of one account.
type rig struct {
	testing.TB
	h        Harness
	s        quota.Store
	now      time.Time // where the clock was set to
	pools    map[string][]window.Limit
	tokens   map[string]quota.Token // by id
	last     quota.Verdict
	revision int64 // of the price book
}

// newRig opens a store whose pool "units" has these windows.
func newRig(t testing.TB, h Harness, windows ...window.Limit) *rig {
	t.Helper()
	r := &rig{TB: t, h: h, s: h.Open(t), pools: map[string][]window.Limit{"units": windows}, tokens: map[string]quota.Token{}, revision: 1}
	if h.SetClock == nil {
		r.now = time.Now()
	} else {
		r.set(start)
	}
	return r
}

// needClock skips a test that must move the clock, if the harness cannot.
func needClock(t testing.TB, h Harness) {
	t.Helper()
	if h.SetClock == nil {
		t.Skip("the harness cannot move this store's clock")
	}
}

// set moves the clock.
func (r *rig) set(now time.Time) {
	r.Helper()
	r.h.SetClock(r, r.s, now)
	r.now = now
}

// setTime moves the clock to a time after the start.
func (r *rig) setTime(d time.Duration) {
	r.Helper()
	if r.h.SetClock != nil {
		r.set(start.Add(d))
	}
}

// charge returns a charge of a pool of the rig.
func (r *rig) charge(pool string, units int64) quota.Charge {
	return quota.Charge{
		Pool:     quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: pool},
		Units:    units,
		Windows:  r.pools[pool],
		Revision: r.revision,
	}
}

// ask reserves, and checks the rules of every verdict.
func (r *rig) ask(req quota.Request) (quota.Verdict, error) {
	r.Helper()
	v, err := r.s.Reserve(context.Background(), req)
	if err != nil {
		return v, err
	}
	r.last = v
	if v.Token().ID != "" {
		r.tokens[v.ID] = v.Token()
	}
	if problem := unsound(r.now, r.h.SetClock != nil, &v); problem != "" {
		r.Errorf("%s: %+v", problem, v)
	}
	return v, nil
}

// reserve reserves without an id.
func (r *rig) reserve(charges ...quota.Charge) quota.Verdict {
	r.Helper()
	v, err := r.ask(quota.Request{Charges: charges})
	if err != nil {
		r.Fatalf("reserve: %v", err)
	}
	return v
}

// record charges units, even above the limits.
func (r *rig) record(req quota.Request) {
	r.Helper()
	if _, err := r.s.Record(context.Background(), req); err != nil {
		r.Fatalf("record: %v", err)
	}
}

// look reads the pages of pools.
func (r *rig) look(pools ...string) []quota.PageState {
	r.Helper()
	var charges []quota.Charge
	for _, p := range pools {
		charges = append(charges, r.charge(p, 0))
	}
	pages, err := r.s.Look(context.Background(), charges)
	if err != nil {
		r.Fatalf("look: %v", err)
	}
	if len(pages) != len(pools) {
		r.Fatalf("look at %d pools found %d pages", len(pools), len(pages))
	}
	return pages
}

// used returns the count of the first window of a pool.
func (r *rig) used(pool string) int64 {
	r.Helper()
	return r.look(pool)[0].Windows[0].Used
}

// unsound returns what is wrong with a verdict, or "".
func unsound(now time.Time, exact bool, v *quota.Verdict) string {
	switch {
	case v.Remaining != max(v.Limit-v.Used, 0):
		return "remaining is not limit - used"
	case v.Pool == (quota.Pool{}) || v.Window == "":
		return "the verdict names no pool or no window"
	case v.At.IsZero():
		return "the verdict has no time"
	case v.Allowed && (v.RetryAfter != 0 || !v.RetryAt.IsZero() || v.Blocked || v.Impossible):
		return "granted, and yet to be retried"
	case !v.Allowed && v.RetryAfter <= 0:
		return "refused without a time to retry after"
	case !v.Allowed && !v.Impossible && exact && !v.RetryAt.Equal(now.Add(v.RetryAfter)):
		return "retry at is not now + retry after"
	case !v.Allowed && v.Nonce != [16]byte{}:
		return "refused, and yet there is a token"
	}
	return ""
}

// tell puts the outcome of a reservation in words, as tables state it:
//
//	granted 5/10
//	refused 10/10, retry after 9s
//	blocked, retry after 1m0s
//	impossible, limit 10
func tell(v quota.Verdict, err error) string {
	var b strings.Builder
	switch {
	case err != nil:
		return fault(err)
	case v.Impossible:
		return fmt.Sprintf("impossible, limit %d", v.Limit)
	case v.Blocked:
		fmt.Fprintf(&b, "blocked, retry after %s", v.RetryAfter)
	case v.Allowed:
		fmt.Fprintf(&b, "granted %d/%d", v.Used, v.Limit)
	default:
		fmt.Fprintf(&b, "refused %d/%d, retry after %s", v.Used, v.Limit, v.RetryAfter)
	}
	if v.Repeat {
		return "granted again"
	}
	if v.Overflow {
		b.WriteString(", overflow")
	}
	if v.Rebased {
		b.WriteString(", rebased")
	}
	return b.String()
}

// fault names the sentinel that an error matches.
func fault(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, quota.ErrBadInput):
		return "bad input"
	case errors.Is(err, quota.ErrStaleBook):
		return "stale book"
	}
	return "error: " + err.Error()
}
