package youtubesim_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
)

func TestQuota(t *testing.T) {
	search := params("part", "snippet", "q", "football", "type", "video")

	t.Run("every request costs 1, also one that is invalid", func(t *testing.T) {
		sim := youtubesim.New(&youtubesim.Options{Clock: at(noon).Now})
		get(sim, "videos", chart)
		get(sim, "videos", params("part", "snippet"))
		get(sim, "videos", params("part", "nonsense", "chart", "mostPopular"))
		if got := units(sim); got != 3 {
			t.Errorf("charged %d, want 3", got)
		}
	})
	t.Run("a 304 costs too", func(t *testing.T) {
		sim := youtubesim.New(&youtubesim.Options{Clock: at(noon).Now})
		tag := get(sim, "videos", chart).Header().Get("Etag")
		if r := get(sim, "videos", chart, "If-None-Match", tag); r.Code != http.StatusNotModified {
			t.Fatalf("status %d, want 304", r.Code)
		}
		if got := units(sim); got != 2 {
			t.Errorf("charged %d, want 2", got)
		}
	})
	t.Run("pools are apart", func(t *testing.T) {
		sim := youtubesim.New(&youtubesim.Options{Clock: at(noon).Now, Quota: youtubesim.Quota{youtubesim.SearchList: 2}})
		for range 5 {
			get(sim, "search", search)
			get(sim, "videos", chart)
			get(sim, "videos:batchGetStats", params("part", "statistics", "id", "x"))
		}
		for pool, want := range map[youtubesim.Pool][2]int64{
			youtubesim.SearchList: {2, 3}, youtubesim.Default: {5, 0}, youtubesim.VideoBatchGetStats: {5, 0}, youtubesim.VideoInsert: {0, 0},
		} {
			if got := sim.Counts().Where(youtubesim.Count{Pool: pool}).Total(); got.Units != want[0] || got.Refused != want[1] {
				t.Errorf("%s: %d units, %d refused, want %v", pool, got.Units, got.Refused, want)
			}
		}
	})
	t.Run("before there were four pools, a search cost 100 of the one", func(t *testing.T) {
		sim := youtubesim.New(&youtubesim.Options{Clock: at(noon).Now, Generation: youtubesim.OnePool, Quota: youtubesim.Quota{youtubesim.Default: 250}})
		for range 3 {
			get(sim, "search", search)
		}
		get(sim, "videos", chart)
		got := sim.Counts()
		if n := got.Where(youtubesim.Count{Method: "search.list"}).Total(); n.Units != 200 || n.Refused != 1 || n.Pool != youtubesim.Default {
			t.Errorf("searches: %+v", n)
		}
		if n := got.Where(youtubesim.Count{Method: "videos.list"}).Total(); n.Units != 1 {
			t.Errorf("a cheaper call still fits: %+v", n)
		}
	})
	t.Run("an upload is charged, though it needs more than a key", func(t *testing.T) {
		for generation, want := range map[youtubesim.Generation]youtubesim.Count{
			youtubesim.FourPools: {Pool: youtubesim.VideoInsert, Units: 2}, youtubesim.OnePool: {Pool: youtubesim.Default, Units: 3200},
		} {
			sim := youtubesim.New(&youtubesim.Options{Clock: at(noon).Now, Generation: generation})
			for _, path := range []string{"/upload/youtube/v3/videos", "/resumable/upload/youtube/v3/videos"} {
				w := httptest.NewRecorder()
				sim.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path+"?key=k&part=snippet&uploadType=resumable", nil))
				if w.Code != http.StatusUnauthorized {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			}
			if got := sim.Counts().Total(); got.Pool != want.Pool || got.Units != want.Units {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
	})
	t.Run("projects are charged by their keys", func(t *testing.T) {
		sim := youtubesim.New(&youtubesim.Options{
			Clock: at(noon).Now, Quota: youtubesim.Quota{youtubesim.Default: 3},
			Projects: map[string]youtubesim.Quota{"large": {youtubesim.Default: 5}},
			Keys:     map[string]youtubesim.Key{"k1": {Project: "small"}, "k2": {Project: "small"}, "k3": {Project: "large"}},
		})
		for range 10 {
			get(sim, "videos", with(chart, "key", "k1"))
			get(sim, "videos", with(chart, "key", ""), "X-Goog-Api-Key", "k2")
			get(sim, "videos", with(chart, "key", "k3"))
			get(sim, "videos", with(chart, "key", "k4"))
		}
		small, large := sim.Counts().Where(youtubesim.Count{Project: "small"}).Total(), sim.Counts().Where(youtubesim.Count{Project: "large"}).Total()
		if small.Units != 3 || small.Refused != 17 || large.Units != 5 || large.Refused != 5 {
			t.Errorf("small %+v, large %+v", small, large)
		}
		if all := sim.Counts().Total(); all.Calls+all.Refused != 30 {
			t.Errorf("a key that nobody has was charged to somebody: %+v", all)
		}
	})
}

// The upstream's day is a calendar day of California, whatever its length.
func TestTheDayIsPacific(t *testing.T) {
	california, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		day   time.Time
		hours int
	}{
		{"of 24 hours", time.Date(2026, 11, 20, 0, 0, 0, 0, california), 24},
		{"of 23 hours in March", time.Date(2026, 3, 8, 0, 0, 0, 0, california), 23},
		{"of 25 hours in November", time.Date(2026, 11, 1, 0, 0, 0, 0, california), 25},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := at(c.day.Add(-time.Second))
			sim := youtubesim.New(&youtubesim.Options{Clock: now.Now, Quota: youtubesim.Quota{youtubesim.Default: 1}})
			ask := func(when time.Duration) int {
				now.set(c.day.Add(when))
				return get(sim, "videos", chart).Code
			}
			length := time.Duration(c.hours) * time.Hour
			for _, step := range []struct {
				when time.Duration
				want int
			}{
				{-time.Second, 200},
				{0, 200},
				{time.Second, 403},
				{length - time.Second, 403},
				{length, 200},
				{length + time.Second, 403},
			} {
				if got := ask(step.when); got != step.want {
					t.Errorf("%s into the day: %d, want %d", step.when, got, step.want)
				}
			}
			if days := sim.Counts(); len(days) != 3 || days[1].Day != c.day.Format(time.DateOnly) {
				t.Errorf("days %+v", days)
			}
		})
	}
}

// TestAMonthOfCharts is what simulations are: every half hour, every region, all
// its pages, on a moved clock. HEADROOM_SOAK=1 makes it 60 days, a daylight-saving
// change among them.
func TestAMonthOfCharts(t *testing.T) {
	days := 3
	if os.Getenv("HEADROOM_SOAK") != "" {
		days = 60
	}
	now := at(time.Date(2026, 10, 20, 7, 0, 0, 0, time.UTC)) // midnight in California
	sim := youtubesim.New(&youtubesim.Options{Seed: 5, Clock: now.Now, Quota: youtubesim.Quota{youtubesim.Default: 1000}})
	for range days * 48 {
		for _, region := range []string{"US", "GB", "DE", "FR", "IN", "BR", "AU", "CA"} {
			p := params("part", "id", "chart", "mostPopular", "regionCode", region, "maxResults", "50", "prettyPrint", "false", "fields", "nextPageToken")
			for {
				var l struct{ NextPageToken string }
				r := get(sim, "videos", p)
				if r.Code != http.StatusOK {
					break
				}
				decode(t, r, &l)
				if l.NextPageToken == "" {
					break
				}
				p.Set("pageToken", l.NextPageToken)
			}
		}
		now.advance(30 * time.Minute)
	}
	counts := sim.Counts()
	if len(counts) < days || len(counts) > days+1 {
		t.Fatalf("%d days", len(counts))
	}
	for _, c := range counts[:days] {
		if c.Units != 1000 || c.Refused < 100 { // demand is 1,536
			t.Errorf("%+v", c)
		}
	}
}
