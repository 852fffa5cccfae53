package redisstore_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/redisclock"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/storetest"
	"github.com/headroom-quota/headroom/quota/window"
)

// testdata/ledger-9455905.json is every key of a ledger that commit 9455905 wrote under
// the prefix "old:", with the clock at 12:00 and then 12:10. It reserved
//
//	first   5 of units, 7 of "50% ключ"       units has a window of every kind
//	second  3 of units                        at 12:10
//	third   2 of plain
//	fourth  2 of plain                        the steady way
//
// blocked the pool shut for a day, and reserved 1 and 2 of the keys of a family of two.
type oldLedger struct {
	Tokens map[string]string
	Keys   []struct {
		Key    string
		Text   []byte
		Hash   map[string][]byte
		Scores map[string]float64
	}
}

// readOldLedger puts the ledger into a server of its own.
func readOldLedger(t *testing.T) (*redis.Client, oldLedger) {
	t.Helper()
	text, err := os.ReadFile("testdata/ledger-9455905.json")
	if err != nil {
		t.Fatal(err)
	}
	var l oldLedger
	if err := json.Unmarshal(text, &l); err != nil {
		t.Fatal(err)
	}
	c := dial(t, start(t).Addr)
	for _, k := range l.Keys {
		switch {
		case k.Text != nil:
			err = c.Set(bg, k.Key, k.Text, 0).Err()
		case k.Hash != nil:
			for field, value := range k.Hash {
				err = c.HSet(bg, k.Key, field, value).Err()
			}
		default:
			for member, score := range k.Scores {
				err = c.ZAdd(bg, k.Key, redis.Z{Member: member, Score: score}).Err()
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return c, l
}

func TestALedgerOfBeforeKeepsItsCounts(t *testing.T) {
	clock := storetest.NewClock()
	begin := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	clock.Set(begin.Add(20 * time.Minute))
	redisclock.Set(clock.Now)
	t.Cleanup(func() { redisclock.Set(nil) })
	c, old := readOldLedger(t)
	s := openWith(t, c, redisstore.Options{Prefix: "old:"})

	windows := func(specs ...window.Spec) (all []window.Limit) {
		for _, spec := range specs {
			normal, err := spec.Normal()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, window.NewLimit(normal, 100))
		}
		return all
	}
	hour := window.Spec{Per: time.Hour, Precision: time.Minute}
	one, every := windows(hour), windows(hour, window.Spec{Per: time.Hour, Algorithm: window.Exact},
		window.Spec{Per: time.Hour, Algorithm: window.Estimate}, window.Spec{Period: window.Day})
	charge := func(name string, units int64, w []window.Limit) quota.Charge {
		p := quota.Pool{Upstream: "api.v1", Account: "me@example.org", Name: name}
		return quota.Charge{Pool: p, Units: units, Windows: w, Revision: 3}
	}
	look := func(want map[string]int64) {
		t.Helper()
		for name, used := range want {
			w := one
			if name == "units" {
				w = every
			}
			pages, err := s.Look(bg, []quota.Charge{charge(name, 0, w)})
			if err != nil || !pages[0].Known {
				t.Fatalf("%s: %+v, %v", name, pages, err)
			}
			for _, w := range pages[0].Windows {
				if w.Used != used {
					t.Errorf("%s of %s has used %d, want %d", w.Window, name, w.Used, used)
				}
			}
			if blocked := name == "shut"; blocked != (pages[0].Reason == "the upstream said no") {
				t.Errorf("%s: %+v", name, pages[0])
			}
		}
	}

	look(map[string]int64{"units": 8, "50% ключ": 7, "plain": 4, "shut": 0})
	spent, err := s.Spend(bg, quota.SpendQuery{Upstream: "api.v1", Account: "me@example.org"})
	if err != nil || len(spent) != 3 {
		t.Errorf("spend of three pools: %+v, %v", spent, err)
	}
	for _, sum := range spent {
		if want := map[string]int64{"units": 8, "50% ключ": 7, "plain": 4}[sum.Pool.Name]; sum.Units != want || sum.Labels.Job != "trends" {
			t.Errorf("spend: %+v, want %d by trends", sum, want)
		}
	}

	both := []quota.Charge{charge("units", 5, every), charge("50% ключ", 7, one)}
	if v, err := s.Reserve(bg, quota.Request{ID: "first", Charges: both}); err != nil || !v.Repeat {
		t.Errorf("the first call again: %+v, %v", v, err)
	}
	for id, want := range map[string]struct {
		units quota.Units
		back  int64
	}{
		"first":  {quota.Units{"units": 1, "50% ключ": 7}, 4},
		"second": {quota.Units{"units": 0}, 3},
		"fourth": {quota.Units{"plain": 1}, 1},
	} {
		token, err := quota.ParseToken(old.Tokens[id])
		if err != nil {
			t.Fatal(err)
		}
		if done, err := s.Settle(bg, token, want.units); err != nil || done.Back != want.back {
			t.Errorf("settle %s: %+v, %v; want %d back", id, done, err, want.back)
		}
	}
	look(map[string]int64{"units": 1, "50% ключ": 7, "plain": 3, "shut": 0})
	if v, err := s.Reserve(bg, quota.Request{Charges: []quota.Charge{charge("plain", 97, one)}}); err != nil || v.Used != 100 {
		t.Errorf("up to the limit: %+v, %v", v, err)
	}
	if v, err := s.Reserve(bg, quota.Request{Charges: []quota.Charge{charge("plain", 1, one)}}); err != nil || v.Allowed {
		t.Errorf("past the limit: %+v, %v", v, err)
	}

	for _, want := range []struct {
		key      string
		used     int64
		overflow bool
	}{{"new", 1, true}, {"2001:db8::1", 2, false}, {"b", 3, false}} { // the new key comes first: both places are taken before
		member := charge("", 1, one)
		member.Pool, member.MaxKeys = quota.Pool{Upstream: "client", Account: quota.DefaultAccount, Key: want.key}, 2
		v, err := s.Reserve(bg, quota.Request{Charges: []quota.Charge{member}})
		if err != nil || !v.Allowed || v.Used != want.used || v.Overflow != want.overflow {
			t.Errorf("%s: %+v, %v; want %+v", want.key, v, err, want)
		}
	}
}
