package quota_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/headroom-quota/headroom/quota"
)

func TestPoolText(t *testing.T) {
	for _, test := range []struct {
		pool quota.Pool
		text string
	}{
		{quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}, "youtube/units"},
		{quota.Pool{Upstream: "youtube", Account: "staging", Name: "units"}, "youtube@staging/units"},
		{quota.Pool{Upstream: "youtube", Account: "me@example.org", Name: "a:b@c"}, "youtube@me@example.org/a%3Ab@c"},
		{quota.Pool{Upstream: "youtube", Account: "default", Name: "50%"}, "youtube/50%"},
		{quota.Pool{Upstream: "llm", Account: "default", Name: "tokens", Key: "vendor/model:2"}, "llm/tokens:vendor/model:2"},
		{quota.Pool{Upstream: "llm", Account: "staging", Name: "a:b", Key: "c"}, "llm@staging/a%3Ab:c"},
		{quota.Pool{Upstream: "client", Account: "default", Key: "2001:db8::1"}, "client:2001:db8::1"},
		{quota.Pool{Upstream: "client", Account: "staging", Key: "a/b@c%2F"}, "client@staging:a/b@c%2F"},
		{quota.Pool{Upstream: "a/b:c@d", Account: "e/f:g", Name: "h/i"}, "a%2Fb%3Ac%40d@e%2Ff%3Ag/h%2Fi"},
		{quota.Pool{Upstream: "a%2Fb", Account: "default", Name: "%25"}, "a%252Fb/%2525"},
	} {
		if got := test.pool.String(); got != test.text {
			t.Errorf("%+v is written %q, want %q", test.pool, got, test.text)
		}
		if got, err := quota.ParsePool(test.text); err != nil || got != test.pool {
			t.Errorf("%q is read as %+v, %v; want %+v", test.text, got, err, test.pool)
		}
	}
	for _, text := range []string{"", "youtube", "/units", "youtube/", "@a/units", "youtube@/units", "a/b/c", ":key", "client:", "client@:key", "a/b:", "a/:c"} {
		if got, err := quota.ParsePool(text); !errors.Is(err, quota.ErrBadInput) {
			t.Errorf("%q is read as %+v, %v; want bad input", text, got, err)
		}
	}
}

func TestPoolTextReadsBackWhateverTheNames(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		name := func(what string) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
				"a", "default", ":", "/", "@", "%", "25", "2F", "3A", "40", "2", "F", " ", "ключ",
			}), 1, 5).Draw(rt, what), "")
		}
		p := quota.Pool{Upstream: name("upstream"), Account: name("account")}
		kind := rapid.IntRange(0, 2).Draw(rt, "kind")
		if kind > 0 {
			p.Key = name("key")
		}
		if kind < 2 {
			p.Name = name("pool")
		}
		if back, err := quota.ParsePool(p.String()); err != nil || back != p {
			rt.Fatalf("%+v is written %q, which reads as %+v, %v", p, p, back, err)
		}
	})
}

// The id of a call of another owner names both, also where the id was hashed or is of a part of a block.
func TestTheOwnerOfAnID(t *testing.T) {
	for id, want := range map[string][2]string{
		"one":               {"", "one"},
		"@etl/one":          {"etl", "one"},
		"@etl/a/b#c":        {"etl", "a/b#c"},
		"@etl#9f86d0":       {"etl", "9f86d0"},
		"@/@etl":            {"", "@etl"},
		"@etl":              {"", "@etl"},
		"a~b@etl~c~d":       {"etl", "a~b@etl~c~d"},
		"a~b~c~d":           {"", "a~b~c~d"},
		"a~b@etl~c~d~again": {"", "a~b@etl~c~d~again"},
	} {
		if owner, own := quota.SplitID(id); owner != want[0] || own != want[1] {
			t.Errorf("%s is %q of %q, want %q of %q", id, own, owner, want[1], want[0])
		}
	}
}
