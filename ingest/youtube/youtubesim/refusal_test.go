package youtubesim_test

import (
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; go test -update writes it anew\n%s", path, got)
	}
}

// TestRefusals holds the shapes of refusals, byte for byte.
func TestRefusals(t *testing.T) {
	for shape, want := range map[youtubesim.Refusal]int{
		youtubesim.QuotaExceeded: 403, youtubesim.DailyLimitExceeded: 403, youtubesim.RateLimitExceeded: 403,
		youtubesim.PerDay: 429, youtubesim.PerDayBare: 429, youtubesim.PerMinute: 429,
		youtubesim.KeyInvalid: 400, youtubesim.KeyInvalidOld: 400, youtubesim.KeyBlocked: 403, youtubesim.KeyMissing: 403,
	} {
		t.Run(string(shape), func(t *testing.T) {
			sim := youtubesim.New(&youtubesim.Options{Clock: at(noon).Now, Faults: []youtubesim.Fault{{Do: youtubesim.Refuse, Refusal: shape}}})
			r := get(sim, "search", params("part", "snippet", "q", "x"))
			if r.Code != want {
				t.Errorf("status %d, want %d", r.Code, want)
			}
			if r.Header().Get("Retry-After") != "" {
				t.Error("Retry-After: none was ever seen in a real refusal")
			}
			golden(t, string(shape)+".json", r.Body.String())
			if units(sim) != 0 {
				t.Error("a refusal costs nothing")
			}
		})
	}
}

// TestPoolsRefuse tells which pool refuses how, by itself.
func TestPoolsRefuse(t *testing.T) {
	none := youtubesim.Quota{youtubesim.Default: 0, youtubesim.SearchList: 0, youtubesim.VideoBatchGetStats: 0}
	for _, c := range []struct {
		name    string
		options youtubesim.Options
		path    string
		status  int
		says    string
	}{
		{"default pool", youtubesim.Options{}, "videos", 403, `"quotaExceeded"`},
		{"searches", youtubesim.Options{}, "search", 429, `"defaultSearchListPerDayPerProject"`},
		{"batchGetStats", youtubesim.Options{}, "videos:batchGetStats", 429, `"youtube.googleapis.com/video_batch_get_stats"`},
		{"the pool of before", youtubesim.Options{Generation: youtubesim.OnePool}, "search", 403, `"dailyLimitExceeded"`},
		{"as it was chosen", youtubesim.Options{Refusals: map[youtubesim.Pool]youtubesim.Refusal{youtubesim.SearchList: youtubesim.PerDayBare}}, "search", 429, "Search Queries per day"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := c.options
			o.Clock, o.Quota = at(noon).Now, none
			r := get(youtubesim.New(&o), c.path, params("part", "id"))
			if text := r.Body.String(); r.Code != c.status || !strings.Contains(text, c.says) {
				t.Errorf("%d, want %d with %s\n%s", r.Code, c.status, c.says, text)
			}
		})
	}
}

func TestKeys(t *testing.T) {
	const secret = "AIza-secret"
	for _, c := range []struct {
		name       string
		generation youtubesim.Generation
		keys       map[string]youtubesim.Key
		key        string
		status     int
		says       string
	}{
		{"any will do where none is configured", youtubesim.FourPools, nil, secret, 200, "kind"},
		{"but there must be one", youtubesim.FourPools, nil, "", 403, "unregistered callers"},
		{"unknown", youtubesim.FourPools, map[string]youtubesim.Key{"other": {}}, secret, 400, "API_KEY_INVALID"},
		{"unknown, before", youtubesim.OnePool, map[string]youtubesim.Key{"other": {}}, secret, 400, "keyInvalid"},
		{"not for this API", youtubesim.FourPools, map[string]youtubesim.Key{secret: {Project: "p", Blocked: true}}, secret, 403, "API_KEY_SERVICE_BLOCKED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sim := youtubesim.New(&youtubesim.Options{Clock: at(noon).Now, Generation: c.generation, Keys: c.keys})
			r := get(sim, "videos", with(chart, "key", c.key))
			text := r.Body.String()
			if r.Code != c.status || !strings.Contains(text, c.says) {
				t.Errorf("%d, want %d with %s\n%s", r.Code, c.status, c.says, text)
			}
			if strings.Contains(text, secret) {
				t.Error("the answer gives the key away")
			}
			if n := sim.Counts().Total(); c.status != http.StatusOK && (n.Calls+n.Units != 0 || n.BadKey != 1) {
				t.Errorf("counted as %+v, want a bad key that is charged to nobody", n)
			}
		})
	}
}
