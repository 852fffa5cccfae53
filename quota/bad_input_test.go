package quota_test

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// atHome runs a test of a ledger in memory and of one in a file.
func atHome(t *testing.T, book string, test func(*testing.T, *quota.Ledger, *quota.SimClock)) {
	atHomes(t, book, func(t *testing.T, open func() *quota.Ledger, clock *quota.SimClock) { test(t, open(), clock) })
}

// atHomes runs a test in memory and in a file, with as many ledgers on one store as it
// opens.
func atHomes(t *testing.T, book string, test func(t *testing.T, open func() *quota.Ledger, clock *quota.SimClock)) {
	for home, open := range map[string]func(*testing.T, quota.Clock) quota.Store{
		"memory": func(_ *testing.T, clock quota.Clock) quota.Store {
			return memstore.New(&memstore.Options{Clock: clock})
		},
		"sqlite": func(t *testing.T, clock quota.Clock) quota.Store {
			s, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), &sqlitestore.Options{Clock: clock, Families: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		},
	} {
		t.Run(home, func(t *testing.T) {
			clock := quota.NewSimClock(noon)
			store := open(t, clock)
			test(t, func() *quota.Ledger {
				l, err := quota.New(mustParse(t, book), store, &quota.Options{Clock: clock})
				if err != nil {
					t.Fatal(err)
				}
				return l
			}, clock)
		})
	}
}

// byZone compares zones by what they are, which cmp cannot see.
var byZone = cmp.Comparer(func(a, b *time.Location) bool { return a == b })

// everything returns all that a ledger reports: its usage and its spend.
func everything(t *testing.T, l *quota.Ledger) any {
	t.Helper()
	usage, err := l.View().Usage(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	spent, err := l.View().Spend(t.Context(), quota.SpendQuery{})
	if err != nil {
		t.Fatal(err)
	}
	return []any{usage, spent}
}

// Promise 10, as the ledger sees it.
func TestBadInputChangesNothing(t *testing.T) {
	atHome(t, testBook, func(t *testing.T, l *quota.Ledger, _ *quota.SimClock) {
		must(t, l, quota.Call{Upstream: "youtube", Method: "search.list"})
		t.Run("reserve", func(t *testing.T) { badCalls(t, l) })
		t.Run("others", func(t *testing.T) { badOthers(t, l) })
	})
}

func badCalls(t *testing.T, l *quota.Ledger) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	long := strings.Repeat("x", 10_000)
	for _, test := range []struct {
		name string
		ctx  context.Context
		call quota.Call
		is   error
		want string
	}{
		{"no upstream where there are two", nil, quota.Call{Method: "videos.list"}, quota.ErrBadInput, "name an upstream; the price book has github, youtube"},
		{"unknown upstream", nil, quota.Call{Upstream: "vimeo", Method: "x"}, quota.ErrBadInput, `there is no upstream "vimeo"; the price book has github, youtube`},
		{"unknown account", nil, quota.Call{Upstream: "youtube", Account: "prod", Method: "videos.list"}, quota.ErrBadInput, `youtube has no account "prod"; the price book has default, staging`},
		{"unknown class", nil, quota.Call{Upstream: "youtube", Class: "bulk", Method: "videos.list"}, quota.ErrBadInput, `youtube has no class "bulk"; the price book has backfill, careful, manual`},
		{"unknown pool", nil, quota.Call{Upstream: "youtube", Charges: map[string]int64{"unit": 1}}, quota.ErrBadInput, `there is no pool "unit"; the price book has searches, units`},
		{"unknown method", nil, quota.Call{Upstream: "youtube", Method: "video.list"}, quota.ErrUnpriced, `youtube has no price for "video.list"; did you mean "videos.list"?`},
		{"no method", nil, quota.Call{Upstream: "youtube"}, quota.ErrUnpriced, `youtube has no price for ""; name a method, or charges by pool`},
		{"negative units", nil, units(-1), quota.ErrBadInput, "youtube/units: units must be 1 to 9007199254740991, not -1"},
		{"zero units", nil, units(0), quota.ErrBadInput, "youtube/units: units must be 1 to 9007199254740991, not 0"},
		{"enormous units", nil, units(1 << 53), quota.ErrBadInput, "youtube/units: units must be 1 to 9007199254740991, not 9007199254740992"},
		{"the most units there are", nil, units(math.MaxInt64), quota.ErrBadInput, "youtube/units: units must be 1 to 9007199254740991, not 9223372036854775807"},
		{"the least units there are", nil, units(math.MinInt64), quota.ErrBadInput, "youtube/units: units must be 1 to 9007199254740991, not -9223372036854775808"},
		{"a misspelt method beside charges", nil, quota.Call{Upstream: "youtube", Method: "videos.lst", Charges: quota.Units{"units": 1}}, quota.ErrBadInput, `youtube has no method "videos.lst"; did you mean "videos.list"?`},
		{"an unknown method beside charges", nil, quota.Call{Upstream: "youtube", Method: "nosuch", Charges: quota.Units{"units": 1}}, quota.ErrBadInput, `youtube has no method "nosuch"; beside charges it only labels the spend, so leave it out`},
		{"no charges", nil, quota.Call{Upstream: "youtube", Charges: map[string]int64{}}, quota.ErrBadInput, "charges are empty: name a pool of searches, units"},
		{"an id of 10 kB", nil, quota.Call{Upstream: "youtube", Method: "videos.list", ID: long}, quota.ErrBadInput, "must be 1 to 128 printable bytes"},
		{"an id with a control character", nil, quota.Call{Upstream: "youtube", Method: "videos.list", ID: "a\nb"}, quota.ErrBadInput, `id "a\nb" must be 1 to 128 printable bytes`},
		{"a label with a control character", nil, quota.Call{Upstream: "youtube", Method: "videos.list", Job: "a\x00"}, quota.ErrBadInput, `label "a\x00" must be at most 128 printable bytes`},
		{"a key without a family", nil, quota.Call{Upstream: "youtube", Key: "k"}, quota.ErrBadInput, "key and units go with a family"},
		{"an unknown family", nil, quota.Call{Family: "peer", Key: "k"}, quota.ErrBadInput, `there is no family "peer"; the price book has client`},
		{"a family without a key", nil, quota.Call{Family: "client"}, quota.ErrBadInput, "family client: the key is empty"},
		{"a family with a method", nil, quota.Call{Family: "client", Key: "k", Method: "videos.list"}, quota.ErrBadInput, "a family has no upstream, method, charges, keys or class"},
		{"negative units of a family", nil, quota.Call{Family: "client", Key: "k", Units: -1}, quota.ErrBadInput, "family client: units must be 1 to 9007199254740991, not -1"},
		{"enormous units of a family", nil, quota.Call{Family: "client", Key: "k", Units: 1 << 53}, quota.ErrBadInput, "family client: units must be 1 to 9007199254740991, not 9007199254740992"},
		{"a family that is to be admitted in an outage", nil, quota.Call{Family: "client", Key: "k", Outage: quota.Admit}, quota.ErrBadInput, "family client: a family's member cannot be admitted in an outage"},
		{"an unknown outage policy", nil, quota.Call{Upstream: "youtube", Method: "videos.list", Outage: "maybe"}, quota.ErrBadInput, `outage "maybe" is neither refuse nor admit`},
		{"a method of 10 kB", nil, quota.Call{Upstream: "youtube", Method: long}, quota.ErrUnpriced, `youtube has no price for "` + long[:80] + `"; add it`},
		{"a class of 10 kB", nil, quota.Call{Upstream: "youtube", Method: "videos.list", Class: long}, quota.ErrBadInput, `youtube has no class "` + long[:40] + `"; the price book has`},
		{"an upstream of 10 kB", nil, quota.Call{Upstream: long}, quota.ErrBadInput, `there is no upstream "` + long[:40] + `"; the price book has`},
		{"a pool of 10 kB", nil, quota.Call{Upstream: "youtube", Charges: map[string]int64{long: 1}}, quota.ErrBadInput, `there is no pool "` + long[:40] + `"; the price book has`},
		{"an unknown pool of 0 units and 10 kB", nil, quota.Call{Upstream: "youtube", Charges: map[string]int64{long: 0}}, quota.ErrBadInput, `there is no pool "` + long[:40] + `"; the price book has`},
		{"a cancelled context", cancelled, quota.Call{Upstream: "youtube", Method: "videos.list"}, context.Canceled, "reserve youtube/units: context canceled"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := everything(t, l)
			ctx := test.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			r, err := l.Reserve(ctx, test.call)
			if r != nil {
				t.Errorf("granted: %+v", r.Verdict)
			}
			plain(t, err, test.is, test.want)
			if diff := cmp.Diff(before, everything(t, l), byZone); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// plain checks that an error is of a kind, and says what is wrong in few words.
func plain(t *testing.T, err, is error, want string) {
	t.Helper()
	if !errors.Is(err, is) || !strings.Contains(err.Error(), want) || len(err.Error()) > 300 {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func badOthers(t *testing.T, l *quota.Ledger) {
	pool := quota.Pool{Upstream: "youtube", Account: quota.DefaultAccount, Name: "units"}
	nowhere := quota.Pool{Upstream: "youtube", Account: quota.DefaultAccount, Name: "unit"}
	list := quota.Call{Upstream: "youtube", Method: "videos.list"}
	long := strings.Repeat("x", 10_000)
	made := must(t, l, list)
	foreign := made.Token()
	foreign.Nonce[0] ^= 1
	const noPool = `youtube has no pool "unit"; the price book has searches, units`
	for _, test := range []struct {
		name string
		do   func(ctx context.Context) error
		want string
	}{
		{"settle to less than nothing", func(ctx context.Context) error { _, err := made.Settle(ctx, quota.Units{"units": -1}); return err }, "settle: units of units must be 0 to 9007199254740991, not -1"},
		{"settle to enormous units", func(ctx context.Context) error { _, err := made.Settle(ctx, quota.Units{"units": 1 << 53}); return err }, "settle: units of units must be 0 to 9007199254740991, not 9007199254740992"},
		{"settle by token to less than nothing", func(ctx context.Context) error {
			_, err := l.Settle(ctx, made.Token(), quota.Units{"units": -1})
			return err
		}, "settle: units of units must be 0 to 9007199254740991, not -1"},
		{"settle no pool", func(ctx context.Context) error { _, err := made.Settle(ctx, nil); return err }, `the units of pool "units" are missing; the call charged units`},
		{"settle by token no pool", func(ctx context.Context) error { _, err := l.Settle(ctx, made.Token(), nil); return err }, `the units of pool "units" are missing; the call charged units`},
		{"settle a pool that was not charged", func(ctx context.Context) error { _, err := made.Settle(ctx, quota.Units{"searches": 1}); return err }, `the units of pool "units" are missing; the call charged units`},
		{"settle one pool too many", func(ctx context.Context) error {
			_, err := made.Settle(ctx, quota.Units{"units": 1, "searches": 1})
			return err
		}, `the call did not charge pool "searches"; it charged units`},
		{"settle by token one pool too many", func(ctx context.Context) error {
			_, err := l.Settle(ctx, made.Token(), quota.Units{"units": 1, "searches": 1})
			return err
		}, `the call did not charge pool "searches"; it charged units`},
		{"settle what is another's", func(ctx context.Context) error { _, err := l.Settle(ctx, foreign, quota.Units{"units": 0}); return err }, "no such reservation"},
		{"settle without a token", func(ctx context.Context) error { _, err := l.Settle(ctx, quota.Token{}, nil); return err }, "settle: this reservation has no receipt"},
		{"hold nothing", func(ctx context.Context) error { _, err := l.Hold(ctx, list, 0); return err }, "a hold is for 1 to 2147483647 calls, not 0"},
		{"hold less than nothing", func(ctx context.Context) error { _, err := l.Hold(ctx, list, -1); return err }, "a hold is for 1 to 2147483647 calls, not -1"},
		{"hold enormously many", func(ctx context.Context) error { _, err := l.Hold(ctx, list, 1<<31); return err }, "a hold is for 1 to 2147483647 calls, not 2147483648"},
		{"wait for what makes no sense", func(ctx context.Context) error { _, err := l.Wait(ctx, units(-1), time.Hour); return err }, "units must be 1 to 9007199254740991, not -1"},
		{"adjust by nothing", func(ctx context.Context) error { _, err := l.Admin().Adjust(ctx, pool, 0, "why"); return err }, "adjust youtube/units: units must be 1 to 9007199254740991, or as many less, not 0"},
		{"adjust by enormous units", func(ctx context.Context) error { _, err := l.Admin().Adjust(ctx, pool, 1<<53, "why"); return err }, "not 9007199254740992"},
		{"adjust by the least units there are", func(ctx context.Context) error {
			_, err := l.Admin().Adjust(ctx, pool, math.MinInt64, "why")
			return err
		}, "not -9223372036854775808"},
		{"adjust without a reason", func(ctx context.Context) error { _, err := l.Admin().Adjust(ctx, pool, 1, ""); return err }, "adjust youtube/units: say why"},
		{"adjust with a reason of 10 kB", func(ctx context.Context) error { _, err := l.Admin().Adjust(ctx, pool, 1, long); return err }, "must be at most 128 printable bytes"},
		{"adjust with a reason of two lines", func(ctx context.Context) error { _, err := l.Admin().Adjust(ctx, pool, 1, "a\nb"); return err }, `label "a\nb" must be at most 128 printable bytes`},
		{"adjust an unknown pool", func(ctx context.Context) error { _, err := l.Admin().Adjust(ctx, nowhere, 1, "why"); return err }, noPool},
		{"block an unknown pool", func(ctx context.Context) error { return l.BlockFor(ctx, nowhere, time.Hour, "why") }, noPool},
		{"block an unknown pool until its reset", func(ctx context.Context) error { return l.BlockUntilReset(ctx, nowhere, "why") }, noPool},
		{"unblock an unknown pool", func(ctx context.Context) error { return l.Admin().Unblock(ctx, nowhere) }, noPool},
		{"block for less than nothing", func(ctx context.Context) error { return l.BlockFor(ctx, pool, -time.Hour, "why") }, "a block needs a time until which it stands"},
		{"block until no time", func(ctx context.Context) error { return l.Block(ctx, pool, time.Time{}, "why") }, "a block needs a time until which it stands"},
		{"block for more than a year", func(ctx context.Context) error { return l.BlockFor(ctx, pool, math.MaxInt64, "why") }, "a block may last 8784h at most"},
		{"block until after 2100", func(ctx context.Context) error {
			return l.Block(ctx, pool, time.Date(2101, 1, 1, 0, 0, 0, 0, time.UTC), "why")
		}, "2101-01-01T00:00:00Z is too far off; a block may last 8784h at most"},
		{"block a family's member", func(ctx context.Context) error {
			return l.BlockFor(ctx, quota.Pool{Upstream: "client", Account: quota.DefaultAccount, Key: "k"}, time.Hour, "why")
		}, "client:k is a family's member, not a pool"},
		{"usage of an unknown upstream", func(ctx context.Context) error { _, err := l.View().Usage(ctx, "vimeo", ""); return err }, `there is no upstream "vimeo"; the price book has github, youtube`},
		{"usage of an account that no upstream has", func(ctx context.Context) error { _, err := l.View().Usage(ctx, "", "prod"); return err }, `no upstream has an account "prod"; the price book has default, staging`},
		{"spend of an account that no upstream has", func(ctx context.Context) error {
			_, err := l.View().Spend(ctx, quota.SpendQuery{Account: "prod"})
			return err
		}, `no upstream has an account "prod"; the price book has default, staging`},
		{"usage of an unknown account", func(ctx context.Context) error { _, err := l.View().Usage(ctx, "youtube", "prod"); return err }, `youtube has no account "prod"; the price book has default, staging`},
		{"spend of an unknown upstream", func(ctx context.Context) error {
			_, err := l.View().Spend(ctx, quota.SpendQuery{Upstream: "vimeo"})
			return err
		}, `there is no upstream "vimeo"; the price book has github, youtube`},
		{"spend of an unknown account", func(ctx context.Context) error {
			_, err := l.View().Spend(ctx, quota.SpendQuery{Upstream: "youtube", Account: "prod"})
			return err
		}, `youtube has no account "prod"; the price book has default, staging`},
		{"spend by what is no dimension", func(ctx context.Context) error {
			_, err := l.View().Spend(ctx, quota.SpendQuery{}, "colour")
			return err
		}, `"colour"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := everything(t, l)
			plain(t, test.do(t.Context()), quota.ErrBadInput, test.want)
			if diff := cmp.Diff(before, everything(t, l), byZone); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A caller over HTTP settles a call to a multiple of what it has reserved, by the price book, or to the highest price.
func TestSettleBounded(t *testing.T) {
	l, err := quota.New(mustParse(t, `
revision: 1
upstreams:
  api:
    pools:
      few: {quota: 1000, settle_factor: 3, windows: [{per: 1h}]}
      many: {quota: 1000, windows: [{per: 1h}]}
    methods: {few: {pool: few, cost: 5}, many: {pool: many, cost: 5}, dear: {pool: few, cost: 40}}
`), memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	for pool, most := range map[string]int64{"few": 60, "many": 200} {
		for _, n := range []int64{most + 1, most} {
			r := must(t, l, quota.Call{Upstream: "api", Charges: quota.Units{pool: 20}})
			if _, err := l.SettleBounded(t.Context(), r.Token(), quota.Units{pool: n}); errors.Is(err, quota.ErrBadInput) != (n > most) || err != nil && n <= most {
				t.Errorf("20 units of %s settled to %d: %v", pool, n, err)
			}
		}
	}
	r := must(t, l, quota.Call{Method: "few"})
	if _, err := l.SettleBounded(t.Context(), r.Token(), quota.Units{"few": 40}); err != nil {
		t.Errorf("settled to the highest price: %v", err)
	}
}
