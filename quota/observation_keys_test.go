package quota_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

const modelsBook = `
revision: 1
upstreams:
  hub:
    pools:
      tokens: {quota: 100, windows: [{per: 1h}], by: {body: model, default: other}, max_keys: 1000000, keys: {large: 1000}}
    feedback: [{pool: tokens, limit: {header: X-Limit}, remaining: {header: X-Left}}]
    methods: {chat: {pool: tokens, cost: 10}}
`

// A report is about the page of one key, with its own limit.
func TestReportsOfKeys(t *testing.T) {
	clock := quota.NewSimClock(noon)
	l, err := quota.New(mustParse(t, modelsBook), memstore.New(&memstore.Options{Clock: clock}), &quota.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	hear := func(key string, limit, left int64) error {
		pool := poolOf("tokens")
		pool.Key = key
		_, err := l.Observe(t.Context(), quota.Observation{Pool: pool, Limit: limit, Remaining: &left, ResetIn: 30 * time.Minute})
		return err
	}
	chat := func(key string) error {
		_, err := l.Reserve(t.Context(), quota.Call{Method: "chat", Keys: map[string]string{"tokens": key}})
		return err
	}
	for _, err := range []error{hear("small", 100, 5), hear("large", 1000, 600), hear("lowered", 15, 15)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := hear("", 100, 5); !errors.Is(err, quota.ErrBadInput) {
		t.Errorf("a report of no key: %v", err)
	}
	if err := chat("small"); !errors.Is(err, quota.ErrRefused) {
		t.Errorf("the key of which 5 are left: %v", err)
	}
	for _, key := range []string{"large", "lowered", "another", ""} {
		if err := chat(key); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
	if err := chat("lowered"); !errors.Is(err, quota.ErrRefused) {
		t.Errorf("20 of the lowered limit of 15: %v", err)
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := l.View().Usage(t.Context(), "hub", "")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]int64{}
	for _, u := range all {
		used[u.Pool.Key] = u.Windows[0].Used
	}
	for key, want := range map[string]int64{"small": 95, "large": 410, "another": 10, "other": 10} {
		if used[key] != want {
			t.Errorf("%d are used of %q, want %d", used[key], key, want)
		}
	}
	clock.Advance(time.Hour)
	if err := chat("lowered"); err != nil {
		t.Errorf("an hour after the report: %v", err)
	}
}

// Reports about many keys are forgotten again. That costs no units.
func TestReportsOfManyKeysAreForgotten(t *testing.T) {
	clock := quota.NewSimClock(noon)
	l, err := quota.New(mustParse(t, modelsBook), memstore.New(&memstore.Options{Clock: clock}), &quota.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	const many = 6000
	for i := range many {
		key := fmt.Sprint(i)
		if _, err := l.Reserve(t.Context(), quota.Call{Method: "chat", Keys: map[string]string{"tokens": key}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := l.Heard(); n > many*3/4 {
		t.Errorf("%d windows are remembered", n)
	}
	left := int64(90)
	for i := range many { // what we have reserved ourselves, also where that is forgotten
		pool := poolOf("tokens")
		pool.Key = fmt.Sprint(i)
		if _, err := l.Observe(t.Context(), quota.Observation{Pool: pool, Remaining: &left, ResetIn: 50 * time.Minute}); err != nil {
			t.Fatal(err)
		}
	}
	if n := l.Heard(); n > many*3/4 {
		t.Errorf("%d windows are remembered", n)
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := l.View().Usage(t.Context(), "hub", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range all {
		if u.Pool.Key != "large" && u.Windows[0].Used != 10 {
			t.Errorf("%d are used of %q, want our 10", u.Windows[0].Used, u.Pool.Key)
		}
	}
	clock.Advance(3 * time.Hour)
	if _, err := l.Reserve(t.Context(), quota.Call{Method: "chat"}); err != nil {
		t.Fatal(err)
	}
}

// What is not written yet outlives the windows that are forgotten, and those that have ended go first.
func TestWhichReportsAreForgotten(t *testing.T) {
	clock := quota.NewSimClock(noon)
	l, err := quota.New(mustParse(t, modelsBook), memstore.New(&memstore.Options{Clock: clock}), &quota.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	untilForgotten := func() (windows int) { // how many are made until some are forgotten
		for before := 0; l.Heard() >= before; windows++ {
			before, made = l.Heard(), made+1
			must(t, l, quota.Call{Method: "chat", Keys: map[string]string{"tokens": fmt.Sprint(made)}})
		}
		return windows
	}
	pool, left := poolOf("tokens"), int64(40)
	pool.Key = "watched"
	if _, err := l.Observe(t.Context(), quota.Observation{Pool: pool, Remaining: &left, ResetIn: 50 * time.Minute}); err != nil {
		t.Fatal(err)
	}
	untilForgotten()
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Reserve(t.Context(), quota.Call{Method: "chat", Keys: map[string]string{"tokens": "watched"}, Charges: quota.Units{"tokens": 41}}); !errors.Is(err, quota.ErrRefused) {
		t.Errorf("41 of the 40 that are left: %v", err)
	}
	clock.Advance(3 * time.Hour)
	if windows := untilForgotten(); l.Heard() > windows {
		t.Errorf("%d windows are remembered, of which %d have not ended", l.Heard(), windows)
	}
}
