package content

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
)

// header makes headers of lines.
func header(lines ...string) http.Header {
	h := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return h
}

// shown writes limits in a line.
func shown(all []Limit) string {
	var texts []string
	for _, l := range all {
		left := "?"
		if l.Remaining != nil {
			left = fmt.Sprint(*l.Remaining)
		}
		texts = append(texts, strings.TrimSpace(fmt.Sprintf("%s %s of %d in %s, reset %s %s", l.Name, left, l.Quota, l.Per, l.Reset, l.Unit)))
	}
	return strings.Join(texts, "; ")
}

// The headers are the examples of the drafts, in the order of their sections.
func TestTheExamplesOfTheDrafts(t *testing.T) {
	for _, c := range []struct {
		draft  string
		header http.Header
		want   string
	}{
		{"11, 3", header(`RateLimit-Policy: "burst";q=100;w=60,"daily";q=1000;w=86400`), "burst ? of 100 in 1m0s, reset 0s; daily ? of 1000 in 24h0m0s, reset 0s"},
		{"11, 3.2, one", header(`RateLimit-Policy: "default";q=100;w=10`), "default ? of 100 in 10s, reset 0s"},
		{"11, 3.2, two", header(`RateLimit-Policy: "permin";q=50;w=60,"perhr";q=1000;w=3600`), "permin ? of 50 in 1m0s, reset 0s; perhr ? of 1000 in 1h0m0s, reset 0s"},
		{"11, 3.2, a partition", header(`RateLimit-Policy: "peruser";q=100;w=60;pk=:cHsdsRa894==:`), "peruser ? of 100 in 1m0s, reset 0s"},
		{"11, 3.2, a unit", header(`RateLimit-Policy: "peruser";q=65535;qu="content-bytes";w=10;pk=:sdfjLJUOUH==:`), "peruser ? of 65535 in 10s, reset 0s content-bytes"},
		{"11, 4.2, one", header(`RateLimit: "default";r=50;t=30`), "default 50 of 0 in 0s, reset 30s"},
		{"11, 4.2, no window", header(`RateLimit: "default";r=999;pk=:dHJpYWwxMjEzMjM=:`), "default 999 of 0 in 0s, reset 0s"},
		{"11, 4.2, bytes", header(`RateLimit: "default";r=300000000;t=60;pk=:QXBwLTk5OQ==:`), "default 300000000 of 0 in 0s, reset 1m0s"},
		{"11, 6", header(`Location: /foo/123`, `RateLimit: "problemPolicy";r=0;t=10`), "problemPolicy 0 of 0 in 0s, reset 10s"},
		{"11, 8.5", header(`RateLimit-Policy: "somepolicy";q=10000;w=1000`, `RateLimit: "somepolicy";r=10000;t=10`), "somepolicy 10000 of 10000 in 16m40s, reset 10s"},
		{"11, B.1.1", header(`RateLimit: "default";r=0;t=48`), "default 0 of 0 in 0s, reset 48s"},
		{"11, B.1.2", header(`RateLimit: "dayLimit";r=100;t=36000`), "dayLimit 100 of 0 in 0s, reset 10h0m0s"},
		{"11, B.1.3", header(`RateLimit-Policy: "basic";q=100;w=60`, `RateLimit: "basic";r=20;t=56`), "basic 20 of 100 in 1m0s, reset 56s"},
		{"11, B.1.4", header(`Date: Mon, 05 Aug 2019 09:27:00 GMT`, `Retry-After: Mon, 05 Aug 2019 09:27:05 GMT`, `RateLimit: "default";r=0;t=5`), "default 0 of 0 in 0s, reset 5s"},
		{"11, B.2.3", header(`RateLimit-Policy: "dynamic";q=15;w=20`, `RateLimit: "dynamic";r=0;t=20`), "dynamic 0 of 15 in 20s, reset 20s"},
		{"11, B.3", header(`Retry-After: 20`, `RateLimit-Policy: "dynamic";q=100;w=60`, `RateLimit: "dynamic";r=15;t=40`), "dynamic 15 of 100 in 1m0s, reset 40s"},
		{"11, B.3.1", header(`RateLimit-Policy: "hour";q=1000;w=3600, "day";q=5000;w=86400`, `RateLimit: "day";r=100;t=36000`), "day 100 of 5000 in 24h0m0s, reset 10h0m0s; hour ? of 1000 in 1h0m0s, reset 0s"},
		{"11, FAQ 8, in several lines", header(`RateLimit-Policy: "sliding";q=100;w=60;burst=1000`, `RateLimit-Policy: "fixed";q=5000;w=3600;burst=0`, `RateLimit: "sliding";r=50;t=44`), "sliding 50 of 100 in 1m0s, reset 44s; fixed ? of 5000 in 1h0m0s, reset 0s"},
		{"08, tokens for names", header(`RateLimit-Policy: default;q=100;w=60`, `RateLimit: default;r=50;t=30`), "default 50 of 100 in 1m0s, reset 30s"},
		{"07, B.1.1", header(`RateLimit: limit=100, remaining=0, reset=50`), "0 of 100 in 0s, reset 50s"},
		{"07, B.1.4", header(`Date: Mon, 05 Aug 2019 09:27:00 GMT`, `Retry-After: Mon, 05 Aug 2019 09:27:07 GMT`, `RateLimit: limit=100, remaining=0, reset=5`), "0 of 100 in 0s, reset 7s"},
		{"07, B.2.1", header(`RateLimit: limit=100, remaining=99, reset=50`, `RateLimit-Policy: 100;w=60`), "99 of 100 in 1m0s, reset 50s"},
		{"07, B.2.2", header(`RateLimit: limit=10, remaining=9, reset=50`, `RateLimit-Policy: 100;w=60`), "9 of 10 in 0s, reset 50s; ? of 100 in 1m0s, reset 0s"},
		{"07, B.3.1", header(`RateLimit: limit=10, reset=1`), "? of 10 in 0s, reset 1s"},
		{"07, B.3.2", header(`RateLimit: limit=5000, remaining=100, reset=36000`, `RateLimit-Policy: 1000;w=3600, 5000;w=86400`), "100 of 5000 in 24h0m0s, reset 10h0m0s; ? of 1000 in 1h0m0s, reset 0s"},
		{"07, FAQ 9", header(`RateLimit: limit=100, remaining=50, reset=44`, `RateLimit-Policy: 100;w=60;burst=1000;comment="sliding window", 5000;w=3600;burst=0;comment="fixed window"`), "50 of 100 in 1m0s, reset 44s; ? of 5000 in 1h0m0s, reset 0s"},
		{"06, separate fields", header(`RateLimit-Limit: 100`, `RateLimit-Policy: 100;w=60`, `RateLimit-Remaining: 99`, `RateLimit-Reset: 50`), "99 of 100 in 1m0s, reset 50s"},
		{"02, the policy in the limit", header(`RateLimit-Limit: 10, 10;w=1, 50;w=60, 1000;w=3600`, `RateLimit-Remaining: 9`, `RateLimit-Reset: 1`), "9 of 10 in 1s, reset 1s; ? of 50 in 1m0s, reset 0s; ? of 1000 in 1h0m0s, reset 0s"},

		{"the least of two partitions", header(`RateLimit: "user";r=50;t=30;pk=:YQ==:, "user";r=7;t=9;pk=:Yg==:`), "user 7 of 0 in 0s, reset 9s"},
		{"a reset that has come", header(`RateLimit: "a";r=5;t=0`), "a 5 of 0 in 0s, reset -1ns"},
		{"a malformed field is ignored", header(`RateLimit: "a;r=5`, `RateLimit-Policy: "a";q=10;w=1`), "a ? of 10 in 1s, reset 0s"},
		{"a negative number is ignored", header(`RateLimit: "a";r=-1;t=-5`), "a ? of 0 in 0s, reset 0s"},
		{"a number of the wrong kind is ignored", header(`RateLimit-Policy: "a";q="10";w=1`), ""},
		{"from a cache", header(`Age: 3`, `RateLimit: "a";r=5;t=7`), ""},
		{"nothing", header(`X-RateLimit-Limit: 5`), ""},
	} {
		t.Run(c.draft, func(t *testing.T) {
			if got := shown(Limits(c.header)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestWhichPoolAPolicyIsAbout(t *testing.T) {
	b, err := book.Parse("costs.yaml", []byte(`
revision: 1
upstreams:
  api:
    pools:
      core: {windows: [{per: 1m, quota: 100}, {per: 1h, quota: 1000}]}
      search: {windows: [{per: 1m, quota: 30}]}
      both: {quota: 500, windows: [{per: 24h}, {per: day}]}
      content-bytes: {quota: 65535, windows: [{per: 10s}]}
      bucket: {windows: [{algorithm: bucket, quota: 10, per: 1s, burst: 100}]}
      slots: {windows: [{in_flight: 5}]}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	u := b.Upstreams["api"]
	core := map[string]int64{"core": 1, "slots": 1}
	for _, c := range []struct {
		name    string
		limit   Limit
		charged map[string]int64
		want    string
	}{
		{"by its name", Limit{Name: "search"}, core, "search 1m0s"},
		{"by its name and its length", Limit{Name: "core", Per: time.Hour}, core, "core 1h0m0s"},
		{"by a name as we send it", Limit{Name: "core-1m"}, core, "core 1m0s"},
		{"by the length alone", Limit{Name: "burst", Per: time.Minute}, core, "core 1m0s"},
		{"by the quota alone", Limit{Quota: 1000}, core, "core 1h0m0s"},
		{"of a day in both forms", Limit{Name: "daily", Per: 24 * time.Hour}, map[string]int64{"both": 1}, "both 24h0m0s"},
		{"of a bucket, by the time to be full", Limit{Name: "x", Per: 10 * time.Second}, map[string]int64{"bucket": 1}, "bucket 1s"},
		{"by its unit", Limit{Name: "peruser", Unit: "content-bytes", Per: 10 * time.Second}, core, "content-bytes 10s"},
		{"the quota tells which", Limit{Per: time.Minute, Quota: 30}, map[string]int64{"core": 1, "search": 1}, "search 1m0s"},
		{"a policy that changes", Limit{Name: "search", Per: 20 * time.Second, Quota: 15}, core, "search 1m0s"},
		{"another length", Limit{Name: "burst", Per: time.Second}, core, " 0s"},
		{"another unit", Limit{Name: "x", Unit: "tokens", Per: time.Minute}, core, " 0s"},
		{"slots", Limit{Name: "x", Unit: "concurrent-requests", Per: time.Minute}, core, " 0s"},
		{"several", Limit{Name: "x", Per: time.Minute}, map[string]int64{"core": 1, "search": 1}, " 0s"},
		{"a pool that the call does not charge", Limit{Name: "x", Per: 10 * time.Second}, core, " 0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool, w := c.limit.In(u, c.charged)
			if got := fmt.Sprintf("%s %s", pool, w.Length()); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
