package redisstore_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/redisclock"
	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/journal"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/storetest"
)

// both is a request for units of two pools, of 100 each.
func both(n int64) quota.Request {
	return quota.Request{Charges: []quota.Charge{units(n, 100), pool("more", n, 100)}}
}

// page is where a store keeps the page of api/units.
func page(prefix string) string { return prefix + "{api/default}:page:units" }

// granted checks that a request is granted, and returns what is used then.
func granted(t *testing.T, what string, s quota.Store, r quota.Request) int64 {
	t.Helper()
	v, err := s.Reserve(bg, r)
	if err != nil || !v.Allowed {
		t.Fatalf("%s: %+v, %v; want a grant", what, v, err)
	}
	return v.Used
}

// forgotten checks that a reservation is refused because the ledger has forgotten.
func forgotten(t *testing.T, what string, s quota.Store, r quota.Request) {
	t.Helper()
	var err error
	var lost *quota.ForgottenError
	_ = redistest.Await(patient(t), func() error { // after a restart a connection or two is dead
		_, err = s.Reserve(bg, r)
		if err == nil || errors.As(err, &lost) {
			return nil
		}
		return err
	})
	mustHaveForgotten(t, what, err)
}

// losses are ways in which a server forgets.
var losses = []struct {
	name string
	lose func(t *testing.T, s *redistest.Server, prefix string)
}{
	{"FLUSHALL", func(t *testing.T, s *redistest.Server, _ string) { run(t, s, "flushall") }},
	{"DEL of one page of two", func(t *testing.T, s *redistest.Server, p string) {
		if n := run(t, s, "del", page(p)); n != int64(1) {
			t.Errorf("%v pages deleted, want 1", n)
		}
	}},
	{"restart without persistence", func(t *testing.T, s *redistest.Server, _ string) {
		s.Kill()
		restart(t, s)
	}},
}

func TestLossIsNoticed(t *testing.T) {
	server := start(t)
	// what a process has done with pages that another one made
	deeds := []struct {
		name string
		do   func(s quota.Store, token quota.Token) error
	}{
		{"reserve", func(s quota.Store, _ quota.Token) error {
			_, err := s.Reserve(bg, both(1))
			return err
		}},
		{"a refusal", func(s quota.Store, _ quota.Token) error {
			_, err := s.Reserve(bg, both(100))
			return err
		}},
		{"settle", func(s quota.Store, token quota.Token) error {
			_, err := s.Settle(bg, token, quota.Units{"units": 1, "more": 1})
			return err
		}},
		{"record", func(s quota.Store, _ quota.Token) error { return errOf(s.Record(bg, both(1))) }},
		{"block", func(s quota.Store, _ quota.Token) error {
			return s.Block(bg, quota.BlockRequest{Charges: both(0).Charges, For: time.Microsecond})
		}},
		{"look", func(s quota.Store, _ quota.Token) error {
			_, err := s.Look(bg, both(0).Charges)
			return err
		}},
	}
	for _, loss := range losses {
		for _, deed := range deeds {
			t.Run(loss.name+"/after "+deed.name, func(t *testing.T) {
				c, p := dial(t, server.Addr), prefix()
				r := both(2)
				r.ID = "one"
				v, err := open(t, c, p).Reserve(bg, r)
				if err != nil || !v.Allowed {
					t.Fatal(v, err)
				}
				s := open(t, c, p)
				if err := deed.do(s, quota.Token{Upstream: "api", Account: quota.DefaultAccount, ID: "one", Nonce: v.Nonce}); err != nil {
					t.Fatal(err)
				}
				loss.lose(t, server, p)
				forgotten(t, "the page is gone", s, both(1))
				granted(t, "who knows nothing", open(t, c, p), both(1))
				forgotten(t, "the page is another one", s, both(1))
			})
		}
	}
	t.Run("of several, by who knew only the first page", func(t *testing.T) {
		c, p := dial(t, server.Addr), prefix()
		s, idle := open(t, c, p), open(t, c, p)
		one := quota.Request{Charges: []quota.Charge{units(1, 100)}}
		restore := quota.Request{Charges: []quota.Charge{units(10, 100)}, Restore: true}
		granted(t, "at first", s, one)
		granted(t, "at first", idle, one)
		for range 3 {
			run(t, server, "flushall")
			forgotten(t, "after a loss", s, one)
			if _, err := s.Record(bg, restore); err != nil {
				t.Fatal(err)
			}
			if n := granted(t, "put back", s, one); n != 11 {
				t.Errorf("%d used after 10 were put back, want 11", n)
			}
		}
		if n := granted(t, "put back by another", idle, one); n != 12 {
			t.Errorf("%d used, want 12", n)
		}
		run(t, server, "flushall")
		if _, err := open(t, c, p).Record(bg, restore); err != nil {
			t.Fatal(err)
		}
		for i, who := range []quota.Store{s, idle} {
			if n := granted(t, "put back by who knew nothing", who, one); n != int64(11+i) {
				t.Errorf("%d used, want %d", n, 11+i)
			}
		}
	})
	t.Run("a page of another birth that nobody put back, by all who knew one", func(t *testing.T) {
		c, p := dial(t, server.Addr), prefix()
		s, first := open(t, c, p), open(t, c, p)
		one := quota.Request{Charges: []quota.Charge{units(1, 100)}}
		granted(t, "at first", s, one)
		granted(t, "at first", first, one)
		run(t, server, "flushall")
		if _, err := s.Record(bg, quota.Request{Charges: []quota.Charge{units(1, 100)}, Restore: true}); err != nil {
			t.Fatal(err)
		}
		run(t, server, "flushall")
		granted(t, "who knows nothing", open(t, c, p), one)
		forgotten(t, "who knew the second page", s, one)
		forgotten(t, "who knew the first page", first, one)
	})
	t.Run("by a process that has just begun", func(t *testing.T) {
		c, p := dial(t, server.Addr), prefix()
		j, err := journal.Open(bg, filepath.Join(t.TempDir(), "journal.db"), "redis://test")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { j.Close() })
		granted(t, "at first", openWith(t, c, redisstore.Options{Prefix: p, Births: j}), both(1))
		run(t, server, "flushall")
		forgotten(t, "after a loss", openWith(t, c, redisstore.Options{Prefix: p, Births: j}), both(1))
	})
}

// The server's clock says whether a page had run out when it went. The machine's own
// may show anything.
func TestExpiryIsNoLoss(t *testing.T) {
	for _, skew := range []time.Duration{0, 5 * time.Hour, -5 * time.Hour, 1000 * time.Hour, -1000 * time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			c := dial(t, server.Addr)
			clock := storetest.NewClock()
			redisclock.Set(clock.Now)
			t.Cleanup(func() { redisclock.Set(nil) })
			opened := func(t *testing.T) (*redisstore.Store, string) {
				p := prefix()
				s := open(t, c, p)
				s.SetLocal(func() time.Time { return clock.Now().Add(skew) })
				return s, p
			}
			one := quota.Request{Charges: []quota.Charge{units(1, 100)}}
			const longest = 48*time.Hour + 2*time.Minute // of its windows, with the precision

			t.Run("when it runs out", func(t *testing.T) {
				s, p := opened(t)
				granted(t, "at first", s, one)
				clock.Advance(expire(t, c, page(p)))
				if n := granted(t, "another time", s, one); n != 1 {
					t.Errorf("%d used, want 1", n)
				}
			})
			t.Run("but it is one while something counts", func(t *testing.T) {
				s, p := opened(t)
				granted(t, "at first", s, one)
				clock.Advance(longest - time.Second)
				if err := c.Del(bg, page(p)).Err(); err != nil {
					t.Fatal(err)
				}
				forgotten(t, "the page is gone", s, one)
				granted(t, "who knows nothing", open(t, c, p), one)
				forgotten(t, "the page is another one", s, one)
			})
			t.Run("but it is one while what was kept by others counts", func(t *testing.T) {
				s, p := opened(t)
				granted(t, "at first", s, one)
				clock.Advance(90 * time.Minute)
				granted(t, "by another", open(t, c, p), one)
				granted(t, "by both", s, one)
				clock.Advance(longest - time.Second)
				if err := c.Del(bg, page(p)).Err(); err != nil {
					t.Fatal(err)
				}
				forgotten(t, "the page is gone", s, one)
			})
			t.Run("when it runs out, and is one when it goes again", func(t *testing.T) {
				s, p := opened(t)
				granted(t, "at first", s, one)
				clock.Advance(expire(t, c, page(p)))
				granted(t, "another time", s, one)
				if err := c.Del(bg, page(p)).Err(); err != nil {
					t.Fatal(err)
				}
				forgotten(t, "the page is gone", s, one)
			})
		})
	}
}

// expire lets a key run out at once, and returns how long it had to live. A server's
// own clock cannot be moved.
func expire(t *testing.T, c *redis.Client, key string) time.Duration {
	t.Helper()
	left, err := c.PTTL(bg, key).Result()
	if err != nil || left <= 0 {
		t.Fatalf("%s lives for %s: %v", key, left, err)
	}
	if err := c.PExpire(bg, key, time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	err = redistest.Await(patient(t), func() error {
		if n, err := c.Exists(context.Background(), key).Result(); err != nil || n > 0 {
			return errors.New("it is still there")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return left
}
