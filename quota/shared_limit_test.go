package quota_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

const sharedBook = `
revision: 1
upstreams:
  api:
    accounts: {default: {}, team: {}}
    pools:
      units: {quota: 100, headroom: 10, limit: learn, metric: api/units, windows: [{per: 24h}, {per: day}, {per: 10m, quota: 60, headroom: 0}]}
      own: {quota: 100, limit: learn, windows: [{per: day}]}
    methods:
      get: {pool: units, cost: 1}
      big: {pool: units, cost: 50}
families:
  client: {quota: 2, windows: [{per: 1h}]}
`

// sharedLedger is a process with a clock of its own.
type sharedLedger struct {
	*quota.Ledger
	*testing.T
	clock *limitClock
}

func newSharedLedger(t *testing.T, s quota.Store) *sharedLedger {
	t.Helper()
	return newSharedLedgerOf(t, s, sharedBook)
}

func newSharedLedgerOf(t *testing.T, s quota.Store, text string) *sharedLedger {
	t.Helper()
	b, err := book.Parse("test", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	l := &sharedLedger{T: t, clock: &limitClock{}}
	if l.Ledger, err = quota.New(b, s, &quota.Options{Clock: l.clock}); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *sharedLedger) observe(pool, account string, per time.Duration, limit int64) {
	l.Helper()
	if _, err := l.Observe(l.Context(), quota.Observation{Pool: quota.Pool{Upstream: "api", Account: account, Name: pool}, Per: per, Limit: limit}); err != nil {
		l.Fatal(err)
	}
}

// limits are those of the windows of units, for ordinary calls.
func (l *sharedLedger) limits(account string) (all []int64) {
	l.Helper()
	usage, err := l.View().Usage(l.Context(), "api", account)
	if err != nil {
		l.Fatal(err)
	}
	for _, u := range usage {
		if u.Pool.Name == "units" {
			for _, w := range u.Allowances {
				all = append(all, w.Limit)
			}
		}
	}
	return all
}

func (l *sharedLedger) want(what string, want ...int64) {
	l.Helper()
	if got := l.limits("default"); !slices.Equal(got, want) {
		l.Errorf("%s the limits are %v, want %v", what, got, want)
	}
}

// TestSharedLimit: what one process hears about a pool with a metric holds in all of them,
// also in those that start later, until the upstream reports another limit.
func TestSharedLimit(t *testing.T) {
	for name, open := range limitStores(t) {
		t.Run(name, func(t *testing.T) {
			one, other := newSharedLedger(t, open()), newSharedLedger(t, open())
			other.want("at first", 90, 90, 60)
			one.observe("units", "default", 24*time.Hour, 200)
			one.want("where it was heard", 190, 190, 60)
			other.clock.ahead.Add(int64(2 * time.Second))
			other.want("2 s later", 190, 190, 60)
			newSharedLedger(t, open()).want("after a restart", 190, 190, 60)
			if got := other.limits("team"); !slices.Equal(got, []int64{90, 90, 60}) {
				t.Errorf("another account has %v", got)
			}
			one.observe("units", "team", 24*time.Hour, 50)
			if got := newSharedLedger(t, open()).limits("team"); !slices.Equal(got, []int64{45, 45, 60}) {
				t.Errorf("a limit of another account: %v", got)
			}
			one.observe("units", "default", 10*time.Minute, 50)
			newSharedLedger(t, open()).want("after a report of a short window", 190, 190, 50)
			one.observe("own", "default", 0, 500)
			set, err := one.Admin().KeyLimits(t.Context(), 0, 10)
			if err != nil || len(set) != 3 || set[0].Family != quota.LimitsOfUpstream+"api" || set[0].Key != "units" || set[1].Key != "units@team" || set[2].Key != "units 10m0s" {
				t.Errorf("kept are %+v %v", set, err)
			}
			one.observe("units", "default", 24*time.Hour, 20)
			third := newSharedLedger(t, open())
			_, err = third.Reserve(t.Context(), quota.Call{Upstream: "api", Method: "big"})
			var refused *quota.RefusedError
			if !errors.As(err, &refused) || refused.RetryAfter <= 0 || refused.RetryAfter > 24*time.Hour {
				t.Errorf("a call above a lowered limit: %v", err)
			}
			for range 18 {
				must(t, third.Ledger, quota.Call{Upstream: "api", Method: "get"})
			}
			if _, err := third.Reserve(t.Context(), quota.Call{Upstream: "api", Method: "get"}); !errors.Is(err, quota.ErrRefused) {
				t.Errorf("beyond a lowered limit: %v", err)
			}
			one.observe("units", "default", 24*time.Hour, 100)
			newSharedLedger(t, open()).want("a moment after a lower one", 18, 18, 50)
			one.clock.ahead.Add(int64(2 * time.Minute))
			one.observe("units", "default", 24*time.Hour, 100)
			newSharedLedger(t, open()).want("when it is the quota again", 90, 90, 50)
		})
	}
}

// TestSharedLimitByHand: a person sets only the limits that processes share.
func TestSharedLimitByHand(t *testing.T) {
	l := newSharedLedger(t, limitStores(t)["sqlite"]())
	set := func(family, key string) error {
		_, err := l.Admin().SetLimit(t.Context(), quota.KeyLimit{Family: family, Key: key, Quota: 30, By: "ann"})
		return err
	}
	if err := set("api", "units"); err != nil {
		t.Error(err)
	}
	l.want("set by hand", 27, 27, 60)
	for range 20 {
		must(t, l.Ledger, quota.Call{Upstream: "api", Method: "get"})
	}
	for _, c := range []struct {
		key               string
		quota, now, limit int64
		used              int64
		refused           bool
	}{{"units", 22, 27, 19, 20, true}, {"units", 24, 27, 21, 20, false}, {"units", 0, 60, 60, 20, false}, {"units 10m0s", 20, 60, 20, 20, true}, {"units@team", 5, 90, 4, 0, false}} {
		trial, err := l.Admin().TryLimit(t.Context(), quota.KeyLimit{Family: "api", Key: c.key, Quota: c.quota, By: "ann"})
		if err != nil || trial.Used != c.used || trial.Before != c.now || trial.Limit != c.limit || trial.Refused != c.refused {
			t.Errorf("%s of %d would do %+v %v", c.key, c.quota, trial, err)
		}
	}
	l.want("after what was only tried", 27, 27, 60)
	try := func(key string, quotas, limit int64, refused bool) {
		t.Helper()
		trial, err := l.Admin().TryLimit(t.Context(), quota.KeyLimit{Family: "api", Key: key, Quota: quotas, By: "ann"})
		if err != nil || trial.Limit != limit || trial.Refused != refused {
			t.Errorf("%s of %d would do %+v %v, want a limit of %d, refused %t", key, quotas, trial, err, limit, refused)
		}
	}
	if err := set("api", "units 10m0s"); err != nil {
		t.Error(err)
	}
	try("units", 100, 30, false) // the limit of the other window stays
	try("units 10m0s", 15, 15, true)
	if err := l.BlockFor(t.Context(), quota.Pool{Upstream: "api", Name: "units"}, time.Hour, quota.ByHand("a test")); err != nil {
		t.Fatal(err)
	}
	try("units", 100, 30, true) // it is blocked
	_, err := l.Admin().TryLimit(t.Context(), quota.KeyLimit{Family: "api", Key: "units 99h0m0s", Quota: 5, By: "ann"})
	plain(t, err, quota.ErrBadInput, "no window \"99h0m0s\"")
	for _, key := range []string{"own", "nothing"} {
		_, err = l.Admin().TryLimit(t.Context(), quota.KeyLimit{Family: "api", Key: key, By: "ann"})
		plain(t, err, quota.ErrBadInput, key)
	}
	if err := set("api", "units 600s"); err != nil { // another form of 10m0s
		t.Error(err)
	}
	if k, err := l.Admin().KeyLimit(t.Context(), "api", "units 10m"); err != nil || k == nil || k.Key != "units 10m0s" || k.Quota != 30 {
		t.Errorf("the limit of the short window is %+v %v", k, err)
	}
	plain(t, set("api", "units@nobody"), quota.ErrBadInput, "nobody")
	plain(t, set("api", "units:key"), quota.ErrBadInput, "pool api/units has no keys")
	plain(t, set("api", "units 7h"), quota.ErrBadInput, `pool api/units has no window "7h"; it has 24h, day UTC, 10m`)
	if err := set("api", "own"); err != nil { // no answer reports about it
		t.Error(err)
	}
	plain(t, set("apis", "units"), quota.ErrBadInput, "there is no family")
	if err := set("client", "acme"); err != nil {
		t.Error(err)
	}
}

// TestSharedLimitOfTheRightWindow: a limit is that of the window that its key or a person names, and a key of a pool may end
// with a duration.
func TestSharedLimitOfTheRightWindow(t *testing.T) {
	l := newSharedLedgerOf(t, limitStores(t)["sqlite"](), `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    pools:
      same: {quota: 100, headroom: 10, windows: [{per: day, zone: UTC}, {per: 24h, quota: 50, headroom: 0}]}
      user: {quota: 100, by: {header: X-User}, windows: [{per: 24h}]}
    methods: {get: {charge: {same: 1, user: 1}}}
`)
	for _, c := range []struct{ key, window, kept, says string }{
		{"same", "24h", "same 24h0m0s", ""},
		{"same", "day UTC", "same", ""},
		{"same 24h0m0s", "", "same 24h0m0s", ""},
		{"same 1440m", "", "", "several windows of 1440m"},
		{"user:team 24h", "", "user:team 24h", ""},
		{"user:team 7h", "", "user:team 7h", ""},
		{"user", "", "", "a page per key"},
	} {
		key, err := c.key, error(nil)
		if c.window != "" {
			key, err = l.Admin().WindowKey("api", key, c.window)
		}
		k := quota.KeyLimit{Key: key}
		if err == nil {
			k, err = l.Admin().SetLimit(t.Context(), quota.KeyLimit{Family: "api", Key: key, Quota: 40, By: "ann"})
		}
		if c.says != "" {
			plain(t, err, quota.ErrBadInput, c.says)
		} else if err != nil || k.Key != c.kept {
			t.Errorf("%s of %s is kept as %s %v, want %s", c.key, c.window, k.Key, err, c.kept)
		}
	}
	for _, key := range []string{"same", "same 24h0m0s", "user:team 24h"} {
		if _, err := l.Admin().SetLimit(t.Context(), quota.KeyLimit{Family: "api", Key: key, By: "ann"}); err != nil {
			t.Errorf("removed: %v", err)
		}
	}
}

// TestSharedLimitWithHeadroom: a headroom that a person has set holds until it ends, also with the quota of the price
// book and after reports of other limits.
func TestSharedLimitWithHeadroom(t *testing.T) {
	l := newSharedLedger(t, limitStores(t)["sqlite"]())
	k := quota.KeyLimit{Family: "api", Key: "units", Quota: 100, Headroom: new(int64(0)), By: "ann", Until: l.clock.Now().Add(time.Hour)}
	if trial, err := l.Admin().TryLimit(t.Context(), k); err != nil || trial.Limit != 60 || trial.Before != 60 {
		t.Errorf("it would do %+v %v", trial, err)
	}
	if _, err := l.Admin().SetLimit(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	l.want("without headroom", 100, 100, 60)
	usage, err := l.View().Usage(t.Context(), "api", "default")
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range usage {
		if w := u.Allowances[0]; u.Pool.Name == "units" && (w.Reported != 100 || w.ReportedHeadroom != 0 || w.Headroom != 10) {
			t.Errorf("the usage says %+v", w)
		}
	}
	for _, limit := range []int64{100, 200, 30, 100} {
		l.clock.ahead.Add(int64(2 * time.Minute))
		l.observe("units", "default", 24*time.Hour, limit)
		l.want(fmt.Sprintf("after a report of %d", limit), limit, limit, 60)
	}
	if kept, err := l.Admin().KeyLimit(t.Context(), "api", "units"); err != nil || kept.Reason != "it reported this limit; the headroom is set by ann" || !kept.Until.Equal(k.Until.Truncate(time.Microsecond)) {
		t.Errorf("kept is %+v %v", kept, err)
	}
	l.observe("units", "default", 24*time.Hour, 40)
	l.clock.ahead.Add(int64(time.Hour))
	l.want("after its end, the limit that was reported", 36, 36, 60)

	// A headroom without an end outlasts reports that age, and smaller limits.
	k.Headroom, k.Until = new(int64(30)), time.Time{}
	if _, err := l.Admin().SetLimit(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ reported, limit int64 }{{20, 1}, {50, 20}} {
		l.clock.ahead.Add(int64(2 * time.Hour))
		l.observe("units", "default", 24*time.Hour, c.reported)
		l.want(fmt.Sprintf("with a headroom of 30, after a report of %d", c.reported), c.limit, c.limit, 60)
	}
	l.clock.ahead.Add(int64(25 * time.Hour))
	l.want("after the report has aged", 70, 70, 60)
	k.Headroom, k.Until = new(int64(100)), time.Time{}
	_, err = l.Admin().SetLimit(t.Context(), k)
	plain(t, err, quota.ErrBadInput, "the headroom must be 0 to 99, below the quota of 100, not 100")
	k.Headroom, k.Family, k.Key = new(int64(1)), "client", "acme"
	_, err = l.Admin().SetLimit(t.Context(), k)
	plain(t, err, quota.ErrBadInput, "a key has no headroom")
}

// A family with the name of the upstream has keys of its own, which clients may choose.
func TestSharedLimitBesideAFamilyOfTheSameName(t *testing.T) {
	for name, open := range limitStores(t) {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(sharedBook, "client:", "api:", 1)
			l := newSharedLedgerOf(t, open(), text)
			if _, err := l.Admin().SetLimit(t.Context(), quota.KeyLimit{Family: "api", Key: "units", Quota: 6000, By: "ann"}); err != nil {
				t.Fatal(err)
			}
			l.want("after a limit of a client that is called units", 90, 90, 60)
			l.observe("units", "default", 24*time.Hour, 200)
			l.want("as the upstream reports", 190, 190, 60)
			newSharedLedgerOf(t, open(), text).want("in another process", 190, 190, 60)
			if k, err := l.Admin().KeyLimit(t.Context(), "api", "units"); err != nil || k.Quota != 6000 {
				t.Errorf("the client's limit is %+v, %v", k, err)
			}
			if _, err := l.Admin().SetLimit(t.Context(), quota.KeyLimit{Family: quota.LimitsOfUpstream + "api", Key: "units", Quota: 30, By: "ann"}); err != nil {
				t.Fatal(err)
			}
			newSharedLedgerOf(t, open(), text).want("set by hand", 27, 27, 60)
		})
	}
}

// Earlier versions kept the limits of an upstream's pools as those of a family with its name,
// and may still do so beside this one.
func TestSharedLimitOfAnEarlierVersion(t *testing.T) {
	for name, open := range limitStores(t) {
		t.Run(name, func(t *testing.T) {
			earlier := func(n int64) {
				t.Helper()
				if _, err := open().(quota.LimitKeeper).SetLimit(t.Context(), quota.KeyLimit{Family: "api", Key: "units", Quota: n, By: "the upstream"}); err != nil {
					t.Fatal(err)
				}
			}
			restarted := func(what string, want ...int64) *sharedLedger {
				t.Helper()
				l := newSharedLedger(t, open())
				l.want(what, want...)
				return l
			}
			earlier(50)
			l := restarted("as an earlier version has set it", 45, 45, 60)
			if k, err := l.Admin().KeyLimit(t.Context(), "api", "units"); err != nil || k == nil || k.Quota != 50 {
				t.Errorf("the limit is %+v %v, want 50", k, err)
			}
			l.clock.ahead.Add(int64(2 * time.Minute)) // a lower one holds for a minute
			l.observe("units", "default", 24*time.Hour, 200)
			restarted("after a change", 190, 190, 60)
			earlier(70)
			restarted("after a change by the earlier version", 63, 63, 60)
			if _, err := l.Admin().SetLimit(t.Context(), quota.KeyLimit{Family: "api", Key: "units", By: "ann"}); err != nil {
				t.Fatal(err)
			}
			restarted("removed", 90, 90, 60)
			earlier(70)
			sameName := newSharedLedgerOf(t, open(), strings.Replace(sharedBook, "client:", "api:", 1))
			sameName.want("where a family has that name now", 90, 90, 60)
		})
	}
}

// TestSharedLimitWithoutAKeeper: a store that keeps no limits leaves it to the process.
func TestSharedLimitWithoutAKeeper(t *testing.T) {
	l := newSharedLedger(t, notKeeping{limitStores(t)["sqlite"]()})
	l.observe("units", "default", 24*time.Hour, 200)
	l.want("in the process", 190, 190, 60)
	l.observe("units", "default", 24*time.Hour, 300)
	l.want("after another report", 290, 290, 60)
}

// unchangeable is a store whose limits cannot be set.
type unchangeable struct {
	quota.Store
	quota.LimitKeeper
	err error
}

func (u *unchangeable) SetLimit(ctx context.Context, l quota.KeyLimit) (quota.KeyLimit, error) {
	if u.err != nil {
		return l, u.err
	}
	return u.LimitKeeper.SetLimit(ctx, l)
}

// A limit that cannot be kept for all processes holds in this one, and an observer hears of it. If another process has
// removed a limit meanwhile, all is well.
func TestSharedLimitThatCannotBeKept(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		limit int64
		fails int
		want  int64
	}{
		"kept":          {nil, 50, 0, 45},
		"cannot be set": {errBroken, 50, 1, 45},
		"it is removed": {quota.BadInput("no such limit"), 100, 0, 190},
		"not removed":   {errBroken, 100, 1, 190},
		"is bad":        {quota.BadInput("no such limit"), 50, 1, 45},
	} {
		t.Run(name, func(t *testing.T) {
			s := limitStores(t)["memory"]()
			u := &unchangeable{Store: s, LimitKeeper: s.(quota.LimitKeeper)}
			l := newSharedLedger(t, u)
			fails := 0
			var err error
			if l.Ledger, err = quota.New(l.Book(), u, &quota.Options{Clock: l.clock, Observer: quota.ObserverFunc(func(e quota.Event) {
				if e.Kind == quota.EventLimit && e.Err != nil {
					fails++
				}
			})}); err != nil {
				t.Fatal(err)
			}
			l.observe("units", "default", 24*time.Hour, 200)
			l.clock.ahead.Add(int64(2 * time.Minute))
			u.err = test.err
			l.observe("units", "default", 24*time.Hour, test.limit)
			if fails != test.fails {
				t.Errorf("the observer hears of %d limits that could not be kept, want %d", fails, test.fails)
			}
			l.want("afterwards", test.want, test.want, 60)
		})
	}
}

// notKeeping is a store that hides that it keeps limits.
type notKeeping struct{ quota.Store }
