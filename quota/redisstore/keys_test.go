package redisstore_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/redisstore"
)

// named draws a name from what keys are made of.
func named(rt *rapid.T, what string) string {
	parts := rapid.SliceOfN(rapid.SampledFrom([]string{
		"a", ":", "/", "%", "{", "}", "@", "3A", "25", "7B", "2F", "log1", "page:", "spend:", "receipt:", "2026-03-02", "lease", "pools",
	}), 1, 4).Draw(rt, what)
	return strings.Join(parts, "")
}

func TestNoTwoNamesShareAKey(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		// what each key is a function of
		type names struct {
			pool  quota.Pool
			extra string
		}
		owner := make(map[string]names)
		for range 3 {
			p := quota.Pool{Upstream: named(rt, "upstream"), Account: named(rt, "account")}
			if rapid.Bool().Draw(rt, "member") {
				p.Key = named(rt, "key")
			} else {
				p.Name = named(rt, "pool")
			}
			whole := p // all keys of a keyed pool, and all members of a family, leave their spend together
			whole.Key = ""
			account := whole
			account.Name = ""
			id, lease := named(rt, "id"), named(rt, "lease")
			day := rapid.SampledFrom([]string{"2026-03-02", "2026-03-03"}).Draw(rt, "day")
			for what, key := range redisstore.Keys("x:", p, id, day, lease) {
				is := names{p, what}
				switch what {
				case "receipt":
					is = names{account, what + " " + id}
				case "spend":
					is = names{whole, what + " " + day}
				case "lease":
					is = names{quota.Pool{}, what + " " + lease}
				case "pools", "reasons", "members":
					is.pool = account
				}
				if was, taken := owner[key]; taken && was != is {
					rt.Fatalf("%q is a key of %+v and of %+v", key, was, is)
				}
				owner[key] = is
			}
			if field, back := redisstore.PoolField(p.Name); back != p.Name {
				rt.Fatalf("pool %q is %q in a hash, which reads as %q", p.Name, field, back)
			}
		}
	})
}

// A ledger that is there must be found again.
func TestKeysAreAsTheyAlwaysWere(t *testing.T) {
	for _, test := range []struct {
		pool quota.Pool
		page string
	}{
		{quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}, "x:{youtube/default}:page:units"},
		{quota.Pool{Upstream: "a:b", Account: "c@d", Name: "e.f_g-H"}, "x:{a:b/c@d}:page:e.f_g-H"},
		{quota.Pool{Upstream: "{a}", Account: "b/c%", Name: "d/e{f}"}, "x:{%7Ba%7D/b%2Fc%25}:page:d/e{f}"},
		{quota.Pool{Upstream: "api", Account: "default", Name: "50% ключ"}, "x:{api/default}:page:50% ключ"},
		{quota.Pool{Upstream: "client", Account: "default", Key: "2001:db8::1"}, "x:{client/default/0/1}:page::key:2001%3Adb8%3A%3A1"},
	} {
		keys := redisstore.Keys("x:", test.pool, "id:1", "2026-03-02", "default/trending")
		tag := test.page[:strings.Index(test.page, "}:page:")+len("}:")]
		account := tag
		if test.pool.Name == "" {
			account = "x:{client/default}:"
			if former := "x:{client/default/2001:db8::1}:page:"; keys["former"] != former {
				t.Errorf("page of %s in earlier versions: %q, want %q", test.pool, keys["former"], former)
			}
		}
		for what, want := range map[string]string{
			"page":    test.page,
			"log1":    test.page + ":log1",
			"receipt": tag + "receipt:id:1",
			"spend":   tag + "spend:" + test.pool.Name + ":2026-03-02",
			"pools":   tag + "pools",
			"reasons": tag + "reasons",
			"members": account + "members",
			"lease":   "x:{lease/default/trending}",
		} {
			if keys[what] != want {
				t.Errorf("%s of %s: %q, want %q", what, test.pool, keys[what], want)
			}
		}
		if field, _ := redisstore.PoolField(test.pool.Name); field != test.pool.Name {
			t.Errorf("%q is %q in a hash", test.pool.Name, field)
		}
	}
}
