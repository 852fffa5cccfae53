package redisstore_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/quota"
)

// snapshot is what all keys of a prefix hold.
func snapshot(t *testing.T, c *redis.Client, prefix string) map[string]string {
	t.Helper()
	keys, err := c.Keys(bg, prefix+"*").Result()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, key := range keys {
		if all[key], err = c.Dump(bg, key).Result(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// Writes that a script made before an error stay, so it must not find out in the
// middle that a key is something else.
func TestAKeyThatIsSomethingElse(t *testing.T) {
	c := dial(t, server.Addr)
	list := func(key string) error { return c.RPush(bg, key, "x").Err() }
	text := func(value string) func(string) error {
		return func(key string) error { return c.Set(bg, key, value, 0).Err() }
	}
	charges := []quota.Charge{pool("more", 1, 100), units(1, 100)}
	labels := quota.Labels{Method: "get"}
	ops := []struct {
		name string
		do   func(s quota.Store, token quota.Token) error
	}{
		{"reserve", func(s quota.Store, _ quota.Token) error {
			_, err := s.Reserve(bg, quota.Request{ID: "another", Charges: charges, Labels: labels})
			return err
		}},
		{"reserve the steady way", func(s quota.Store, _ quota.Token) error {
			_, err := s.Reserve(bg, quota.Request{ID: "fresh", Fresh: true, Charges: charges[1:], Labels: labels})
			return err
		}},
		{"reserve again", func(s quota.Store, _ quota.Token) error {
			_, err := s.Reserve(bg, quota.Request{ID: "one", Charges: charges, Labels: labels})
			return err
		}},
		{"record", func(s quota.Store, _ quota.Token) error {
			return errOf(s.Record(bg, quota.Request{ID: "third", Charges: charges, Labels: labels}))
		}},
		{"settle", func(s quota.Store, token quota.Token) error {
			_, err := s.Settle(bg, token, quota.Units{"more": 0, "units": 5})
			return err
		}},
		{"block", func(s quota.Store, _ quota.Token) error {
			return s.Block(bg, quota.BlockRequest{Charges: charges, For: time.Hour, Reason: "because"})
		}},
	}
	const all = "reserve, reserve the steady way, reserve again, record, settle, block"
	for _, test := range []struct {
		name  string
		key   string // how it ends, in part
		make  func(key string) error
		fails string // what cannot be done then
	}{
		{"a page is a list", ":page:units", list, all},
		{"a page is a short text", ":page:units", text("hello"), all},
		{"a page is a long text", ":page:units", text(strings.Repeat("hello", 1000)), all},
		{"a page is zeros", ":page:units", text(strings.Repeat("\x00", 5000)), all},
		{"a page is ones", ":page:units", text(strings.Repeat("\xff", 5000)), all},
		{"spend is a list", ":spend:units:", list, "reserve, reserve the steady way, reserve again, record, settle"},
		{"spend is a text", ":spend:units:", text("hello"), "reserve, reserve the steady way, reserve again, record, settle"},
		{"a receipt is a list", ":receipt:one", list, "reserve again, settle"},
		{"the pools are a list", ":pools", list, "reserve, reserve again, record, settle, block"},
		{"the reasons are a list", ":reasons", list, "block"},
	} {
		for _, op := range ops {
			t.Run(test.name+"/"+op.name, func(t *testing.T) {
				p := prefix()
				s := open(t, c, p)
				v, err := s.Reserve(bg, quota.Request{ID: "one", Charges: charges, Labels: labels})
				if err != nil || !v.Allowed {
					t.Fatal(v, err)
				}
				key := p + "{api/default}" + test.key
				for found := range snapshot(t, c, p) {
					if strings.Contains(found, test.key) {
						key = found
					}
				}
				if err := c.Del(bg, key).Err(); err != nil {
					t.Fatal(err)
				}
				if err := test.make(key); err != nil {
					t.Fatal(err)
				}
				before := snapshot(t, c, p)
				err = op.do(s, quota.Token{Upstream: "api", Account: quota.DefaultAccount, ID: "one", Nonce: v.Nonce})
				fails := strings.Contains(", "+test.fails+", ", ", "+op.name+", ")
				if fails != (err != nil) {
					t.Fatalf("got %v, want an error: %t", err, fails)
				}
				mustBeOutage(t, err)
				if after := snapshot(t, c, p); err != nil && !maps.Equal(before, after) {
					t.Errorf("something was written before it failed with %v", err)
				}
			})
		}
	}
}

func TestSettleMakesUpNoSpend(t *testing.T) {
	c := dial(t, server.Addr)
	labels := quota.Labels{Method: "get"}
	for name, after := range map[string]struct {
		spent quota.Labels // after the loss; zero for nothing
		want  []quota.Spent
	}{
		"of a day that is gone":           {},
		"of a day that others began anew": {quota.Labels{Method: "put"}, []quota.Spent{{Labels: quota.Labels{Method: "put"}, Units: 1, Calls: 1}}},
		"of a day that it began anew":     {labels, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := prefix()
			s := open(t, c, p)
			v, err := s.Reserve(bg, quota.Request{ID: "one", Charges: []quota.Charge{units(5, 100)}, Labels: labels})
			if err != nil || !v.Allowed {
				t.Fatal(v, err)
			}
			var day string
			for key := range snapshot(t, c, p) {
				if strings.Contains(key, ":spend:") {
					day = key
				}
			}
			if n, err := c.Del(bg, day).Result(); err != nil || n != 1 {
				t.Fatal(n, err)
			}
			if after.spent != (quota.Labels{}) {
				if v, err := s.Reserve(bg, quota.Request{Charges: []quota.Charge{units(1, 100)}, Labels: after.spent}); err != nil || !v.Allowed {
					t.Fatal(v, err)
				}
			}
			if _, err := s.Settle(bg, quota.Token{Upstream: "api", Account: quota.DefaultAccount, ID: "one", Nonce: v.Nonce}, quota.Units{"units": 0}); err != nil {
				t.Fatal(err)
			}
			got, err := s.Spend(bg, quota.SpendQuery{Upstream: "api", Account: quota.DefaultAccount})
			if err != nil || len(got) != len(after.want) {
				t.Fatalf("spend is %+v, %v; want %+v", got, err, after.want)
			}
			for i, w := range after.want {
				w.Pool, w.Day = got[i].Pool, got[i].Day
				if got[i] != w {
					t.Errorf("spend is %+v, want %+v", got[i], w)
				}
			}
			if n, err := c.TTL(bg, day).Result(); err != nil || n == -1 {
				t.Errorf("spend is kept for ever: %v, %v", n, err)
			}
		})
	}
}
