package builtin_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota"
)

func load(t *testing.T, path string) *quota.Book {
	t.Helper()
	b, err := headroom.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// write puts a price book in a file of its own.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "costs.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// YouTube's calls on www.googleapis.com are metered, however they are written. Google's
// other APIs on it are not affected.
func TestBuiltinMetersYouTubeOnASharedHost(t *testing.T) {
	b := load(t, "")
	for path, metered := range map[string]bool{
		"/youtube/v3/videos": true, "/youtube/v4/videos": true, "/youtube": true, "/youtube/": true, "//youtube/v3/videos": true,
		"/youtube/v3/search/": true, "/YouTube/v3/search": true, "/x/../youtube/v3/search": true, "/%79outube/v3/search": true,
		"/upload/youtube/v3/videos": true, "/resumable/upload/youtube/v3/videos": true, "/batch/youtube/v3": true,
		"/drive/v3/files": false, "/upload/drive/v3/files": false, "/batch/drive/v3": false, "/youtubeAnalytics/v2/reports": false,
		"/discovery/v1/apis/youtube/v3/rest": false, "/oauth2/v3/certs": false, "/": false,
	} {
		m := b.Match("GET", "www.googleapis.com", path)
		if (m.Upstream != nil) != metered {
			t.Errorf("%s is metered: %v, want %v", path, m.Upstream != nil, metered)
		}
		if m.Method != nil && path != "/youtube/v3/videos" {
			t.Errorf("%s has the price of %s", path, m.Method.Name)
		}
	}
}

func TestBuiltinPrices(t *testing.T) {
	now, before := load(t, ""), load(t, write(t, "extends: builtin/youtube-2025"))
	for _, c := range []struct {
		method           string
		pool             string
		units, unitsThen int64
		outage           quota.Policy
	}{
		{"search.list", "searches", 1, 100, quota.Refuse},
		{"videos.insert", "uploads", 1, 100, quota.Refuse},
		{"videos.batchGetStats", "batch_stats", 1, 1, quota.Refuse},
		{"videos.list", "units", 1, 1, quota.Admit},
		{"captions.update", "units", 450, 450, quota.Refuse},
		{"liveChat.messages.stream", "units", 5, 5, quota.Admit},
	} {
		m, then := now.Upstreams["youtube"].Methods[c.method], before.Upstreams["youtube"].Methods[c.method]
		if got, ok := m.Charges[c.pool]; !ok || got != c.units || len(m.Charges) != 1 || m.Outage != c.outage {
			t.Errorf("%s charges %v, outage %s; want %d of %s, %s", c.method, m.Charges, m.Outage, c.units, c.pool, c.outage)
		}
		if got, ok := then.Charges["units"]; !ok || got != c.unitsThen || len(then.Charges) != 1 {
			t.Errorf("in 2025 %s charges %v, want %d of units", c.method, then.Charges, c.unitsThen)
		}
	}
	if got := len(before.Upstreams["youtube"].Pools); got != 1 {
		t.Errorf("the book of 2025 has %d pools, want 1", got)
	}
	for name, want := range map[string][]string{
		"units":       {"24h", "day America/Los_Angeles", "10m"},
		"searches":    {"24h", "day America/Los_Angeles", "10m"},
		"uploads":     {"24h", "day America/Los_Angeles"},
		"batch_stats": {"24h", "day America/Los_Angeles"},
	} {
		var got []string
		for _, w := range now.Upstreams["youtube"].Pools[name].Windows {
			got = append(got, w.Spec.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("pool %s has windows %q, want %q", name, got, want)
		}
	}
}

// Writes and whatever has a scarce pool wait while the ledger is away.
func TestBuiltinAdmitsOnlyCheapReadsInAnOutage(t *testing.T) {
	for _, m := range load(t, "").Upstreams["youtube"].Methods {
		cheap := m.Routes[0].Verb == "GET" && m.Charges["units"] >= 1 && m.Charges["units"] <= 5
		if cheap != (m.Outage == quota.Admit) {
			t.Errorf("%s %v has outage %s", m.Name, m.Charges, m.Outage)
		}
	}
}

func TestLoad(t *testing.T) {
	if _, err := headroom.Load(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	path := write(t, "extends: builtin\nupstreams: {youtube: {methods: {search.lst: 1}}}")
	want := path + `:2:33: method "search.lst" is not in the route table; did you mean "search.list"?`
	if _, err := headroom.Load(path); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
	if _, ok := headroom.ReadBuiltin("builtin/"); ok {
		t.Error("there is a built-in book without a name")
	}
}

// TestEveryBuiltinBook loads each built-in book. It must say where its prices were read,
// and on which day. Together they make one book.
func TestEveryBuiltinBook(t *testing.T) {
	var current []string
	for _, name := range headroom.ListBuiltin() {
		b := load(t, name)
		for _, u := range b.Upstreams {
			if !strings.HasPrefix(u.Source, "https://") || u.Verified.IsZero() {
				t.Errorf("%s: %s was read in %q on %s", name, u.Name, u.Source, u.Verified)
			}
		}
		if name != "builtin/youtube-2025" && !strings.HasSuffix(name, "-prices") {
			current = append(current, name)
		}
	}
	if all := load(t, write(t, "extends: ["+strings.Join(current, ", ")+"]")); len(all.Upstreams) != len(current) {
		t.Errorf("together the books %v have %d upstreams, want one of each", current, len(all.Upstreams))
	}
}

// TestBuiltinNames tells a name from a path.
func TestBuiltinNames(t *testing.T) {
	if _, err := headroom.Load("builtin/../builtin/github"); !errors.Is(err, quota.ErrBadInput) || !strings.Contains(err.Error(), "builtin/github") {
		t.Errorf("a name that is none gave %v", err)
	}
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("builtin", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("builtin/github", []byte("revision: 1\nupstreams: {mine: {pools: {units: {quota: 10, windows: [{per: 1h}]}}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if load(t, "builtin/github").Upstreams["github"] == nil {
		t.Error("the name of a built-in book read a file")
	}
	if load(t, "./builtin/github").Upstreams["mine"] == nil {
		t.Error("a path to a file of the same name read the built-in book")
	}
}
