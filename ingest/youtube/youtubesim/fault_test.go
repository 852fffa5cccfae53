package youtubesim_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
)

// TestFaultsOnTheWire needs connections that can break.
func TestFaultsOnTheWire(t *testing.T) {
	sim := youtubesim.New(&youtubesim.Options{Seed: 3, Clock: at(noon).Now})
	server := httptest.NewServer(sim)
	defer server.Close()
	client := server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	ask := func(ctx context.Context) (int, http.Header, string, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/youtube/v3/videos?"+with(chart, "key", "k").Encode(), nil)
		if err != nil {
			t.Fatal(err)
		}
		w, err := client.Do(r)
		if err != nil {
			return 0, nil, "", err
		}
		defer w.Body.Close()
		b, err := io.ReadAll(w.Body)
		return w.StatusCode, w.Header, string(b), err
	}
	charged := func(t *testing.T, want int64, during func()) {
		t.Helper()
		before := units(sim)
		during()
		if got := units(sim) - before; got != want {
			t.Errorf("charged %d, want %d", got, want)
		}
	}
	inject := func(t *testing.T, f ...youtubesim.Fault) {
		t.Cleanup(sim.Heal)
		sim.Inject(f...)
	}

	t.Run("a status, with a header", func(t *testing.T) {
		inject(t, youtubesim.Fault{Do: youtubesim.Answer, Status: 503, Header: http.Header{"Retry-After": {"7"}}})
		charged(t, 1, func() {
			status, header, text, err := ask(t.Context())
			if err != nil || status != 503 || header.Get("Retry-After") != "7" || !strings.Contains(text, `"code": 503`) {
				t.Errorf("%d %v %s %v", status, header, text, err)
			}
		})
	})
	t.Run("reset", func(t *testing.T) {
		client.CloseIdleConnections()
		inject(t, youtubesim.Fault{Do: youtubesim.Reset, Times: 1})
		charged(t, 1, func() {
			if _, _, _, err := ask(t.Context()); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
				t.Errorf("%v", err)
			}
		})
		charged(t, 1, func() {
			if status, _, _, err := ask(t.Context()); status != 200 || err != nil {
				t.Errorf("once was enough: %d %v", status, err)
			}
		})
	})
	t.Run("net/http asks again after the reset of a connection that it had used before, and that is charged twice", func(t *testing.T) {
		inject(t, youtubesim.Fault{Do: youtubesim.Reset, Skip: 1, Times: 1})
		charged(t, 3, func() {
			for range 2 {
				if status, _, _, err := ask(t.Context()); status != 200 || err != nil {
					t.Errorf("%d %v", status, err)
				}
			}
		})
	})
	t.Run("a reset that was not counted", func(t *testing.T) {
		client.CloseIdleConnections()
		inject(t, youtubesim.Fault{Do: youtubesim.Reset, Free: true})
		charged(t, 0, func() {
			if _, _, _, err := ask(t.Context()); err == nil {
				t.Error("no error")
			}
		})
	})
	t.Run("half a body", func(t *testing.T) {
		inject(t, youtubesim.Fault{Do: youtubesim.HalfBody})
		charged(t, 1, func() {
			status, header, text, err := ask(t.Context())
			if status != 200 || !errors.Is(err, io.ErrUnexpectedEOF) || len(text) < 1000 || header.Get("Content-Length") == "" {
				t.Errorf("%d, %d bytes, %v", status, len(text), err)
			}
		})
	})
	t.Run("a stall ends with the client's patience", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		inject(t, youtubesim.Fault{Do: youtubesim.Stall, Match: func(*http.Request) bool { cancel(); return true }})
		if _, _, _, err := ask(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
	t.Run("a stall that ends", func(t *testing.T) {
		inject(t, youtubesim.Fault{Do: youtubesim.Stall, Delay: time.Millisecond})
		charged(t, 1, func() {
			if status, _, text, err := ask(t.Context()); status != 200 || len(text) < 1000 || err != nil {
				t.Errorf("%d %v", status, err)
			}
		})
	})
	t.Run("a redirect", func(t *testing.T) {
		inject(t, youtubesim.Fault{Do: youtubesim.Redirect, Location: "https://elsewhere.example/"})
		charged(t, 1, func() {
			if status, header, _, err := ask(t.Context()); status != 302 || header.Get("Location") != "https://elsewhere.example/" || err != nil {
				t.Errorf("%d %v %v", status, header, err)
			}
		})
	})
	t.Run("a burst", func(t *testing.T) {
		inject(t, youtubesim.Fault{Do: youtubesim.Refuse, Refusal: youtubesim.PerMinute})
		charged(t, 0, func() {
			if status, _, text, err := ask(t.Context()); status != 429 || !strings.Contains(text, "1/min/{project}") || err != nil {
				t.Errorf("%d %s %v", status, text, err)
			}
		})
	})
}

// Which requests a fault is for.
func TestFaultsMatch(t *testing.T) {
	sim := youtubesim.New(&youtubesim.Options{Seed: 3, Clock: at(noon).Now, Keys: map[string]youtubesim.Key{"a": {Project: "one"}, "b": {Project: "two"}}})
	german, french := with(chart, "key", "a"), with(chart, "key", "a", "regionCode", "FR")
	for _, c := range []struct {
		name  string
		fault youtubesim.Fault
		want  []int // of asking: German, French, a search, another project, German again
	}{
		{"all", youtubesim.Fault{}, []int{500, 500, 500, 500, 500}},
		{"a method", youtubesim.Fault{Method: "search.list"}, []int{200, 200, 500, 200, 200}},
		{"a region", youtubesim.Fault{Region: "DE"}, []int{500, 200, 200, 500, 500}},
		{"a project", youtubesim.Fault{Project: "two"}, []int{200, 200, 200, 500, 200}},
		{"the second", youtubesim.Fault{Skip: 1, Times: 1}, []int{200, 500, 200, 200, 200}},
		{"the first two", youtubesim.Fault{Times: 2}, []int{500, 500, 200, 200, 200}},
		{"the second of a region", youtubesim.Fault{Region: "DE", Skip: 1, Times: 1}, []int{200, 200, 200, 500, 200}},
		{"whatever", youtubesim.Fault{Match: func(r *http.Request) bool { return r.URL.Query().Has("q") }}, []int{200, 200, 500, 200, 200}},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer sim.Heal()
			c.fault.Do, c.fault.Status = youtubesim.Answer, 500
			sim.Inject(c.fault)
			got := []int{
				get(sim, "videos", german).Code, get(sim, "videos", french).Code,
				get(sim, "search", params("part", "id", "q", "x", "key", "a")).Code,
				get(sim, "videos", with(german, "key", "b")).Code, get(sim, "videos", german).Code,
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// The effects of faults on an answer.
func TestFaultsInTheAnswer(t *testing.T) {
	sim := youtubesim.New(&youtubesim.Options{Seed: 3, Clock: at(noon).Now, Quota: youtubesim.Quota{youtubesim.SearchList: 1000}})
	whole := with(chart, "part", "snippet,contentDetails,statistics")
	ids := fetch(t, sim, "videos", whole).ids()
	inject := func(t *testing.T, f ...youtubesim.Fault) {
		t.Cleanup(sim.Heal)
		sim.Inject(f...)
	}
	t.Run("vanished videos are missing without a word", func(t *testing.T) {
		inject(t, youtubesim.Fault{Do: youtubesim.Vanish, IDs: ids[3:5]})
		want := slices.Concat(ids[:3], ids[5:])
		if got := fetch(t, sim, "videos", whole).ids(); !slices.Equal(got, want) {
			t.Errorf("in the chart: %v", got)
		}
		if got := fetch(t, sim, "videos", params("part", "id", "id", strings.Join(ids, ","))).ids(); !slices.Equal(got, want) {
			t.Errorf("by id: %v", got)
		}
		if got := fetch(t, sim, "videos:batchGetStats", params("part", "id", "id", strings.Join(ids, ","))).ids(); !slices.Equal(got, want) {
			t.Errorf("by batchGetStats: %v", got)
		}
	})
	t.Run("hidden likes", func(t *testing.T) {
		inject(t, youtubesim.Fault{Do: youtubesim.HideLikes})
		for _, v := range fetch(t, sim, "videos", whole).Items {
			if v.Statistics["likeCount"] != nil || v.Statistics["viewCount"] == nil {
				t.Fatalf("%v", v)
			}
		}
		for _, v := range fetch(t, sim, "videos:batchGetStats", params("part", "statistics", "id", strings.Join(ids, ","))).Items {
			if v.Statistics["likeCount"] != nil {
				t.Fatalf("%v", v)
			}
		}
	})
	t.Run("a premiere has no duration", func(t *testing.T) {
		inject(t, youtubesim.Fault{Do: youtubesim.Premiere, IDs: ids[:1]})
		v := fetch(t, sim, "videos", with(whole, "part", "snippet,contentDetails,liveStreamingDetails")).Items[0]
		if v.Snippet.LiveBroadcastContent != "upcoming" || v.ContentDetails["duration"] != nil {
			t.Errorf("%+v", v)
		}
	})
	t.Run("a missing chart, as documented and as seen", func(t *testing.T) {
		for status, reason := range map[int]string{400: "videoChartNotFound", 404: "notFound"} {
			sim.Heal()
			inject(t, youtubesim.Fault{Do: youtubesim.NoChart, Status: status, Region: "DE"})
			if r := get(sim, "videos", whole); r.Code != status || !strings.Contains(r.Body.String(), `"`+reason+`"`) {
				t.Errorf("%d %s", r.Code, r.Body)
			}
			if r := get(sim, "videos", with(whole, "regionCode", "FR")); r.Code != 200 {
				t.Errorf("France: %d", r.Code)
			}
		}
	})
	t.Run("a page token that never ends", func(t *testing.T) {
		inject(t, youtubesim.Fault{Do: youtubesim.Endless})
		uploads := params("part", "contentDetails", "playlistId", uploadsOf(t, sim, ids[0]), "maxResults", "50")
		for path, p := range map[string]map[string][]string{
			"videos": whole, "search": params("part", "snippet", "q", "x", "type", "video", "maxResults", "50"), "playlistItems": uploads,
		} {
			tokens := map[string]int{}
			first := fetch(t, sim, path, p)
			l := first
			for page := range 120 {
				if l.NextPageToken == "" || len(l.Items) == 0 {
					t.Fatalf("%s ended on page %d", path, page)
				}
				tokens[l.NextPageToken]++
				l = fetch(t, sim, path, with(p, "pageToken", l.NextPageToken))
			}
			if len(tokens) < 4 {
				t.Errorf("%s has %d tokens", path, len(tokens))
			}
		}
	})
}

func uploadsOf(t *testing.T, sim *youtubesim.Sim, video string) string {
	t.Helper()
	channel := fetch(t, sim, "videos", params("part", "snippet", "id", video)).Items[0].Snippet.ChannelID
	return "UU" + strings.TrimPrefix(channel, "UC")
}

// The same seed at the same time gives the same bytes, whoever asks in whatever
// order, and however many at once.
func TestDeterminism(t *testing.T) {
	asked := func(sim *youtubesim.Sim, order []int) []string {
		texts := make([]string, len(order))
		var wg sync.WaitGroup
		for _, i := range order {
			wg.Go(func() {
				p := with(chart, "regionCode", []string{"US", "DE", "JP", "BR"}[i%4], "maxResults", "20")
				if i%3 == 0 {
					p = params("part", "snippet", "q", "song", "maxResults", "20")
					texts[i] = get(sim, "search", p).Body.String()
					return
				}
				texts[i] = get(sim, "videos", p).Body.String()
			})
		}
		wg.Wait()
		return texts
	}
	order := make([]int, 48)
	for i := range order {
		order[i] = i
	}
	one := asked(youtubesim.New(&youtubesim.Options{Seed: 11, Clock: at(noon).Now}), order)
	slices.Reverse(order)
	other := asked(youtubesim.New(&youtubesim.Options{Seed: 11, Clock: at(noon).Now}), order)
	if !slices.Equal(one, other) {
		t.Error("two simulators with one seed differ")
	}
	if third := asked(youtubesim.New(&youtubesim.Options{Seed: 12, Clock: at(noon).Now}), order); slices.Equal(one, third) {
		t.Error("another seed gives the same")
	}
	golden(t, "chart.json", get(youtubesim.New(&youtubesim.Options{Seed: 11, Clock: at(noon).Now}), "videos",
		params("part", "snippet,contentDetails,statistics,status,player,topicDetails", "chart", "mostPopular", "regionCode", "JP", "maxResults", "1")).Body.String())
}

// However many ask at once, exactly the quota is given.
func TestQuotaUnderConcurrency(t *testing.T) {
	sim := youtubesim.New(&youtubesim.Options{Clock: at(noon).Now, Quota: youtubesim.Quota{youtubesim.Default: 100}})
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 20 {
				get(sim, "videos", params("part", "id", "id", "x"))
			}
		})
	}
	wg.Wait()
	if n := sim.Counts().Total(); n.Units != 100 || n.Calls != 100 || n.Refused != 220 {
		t.Errorf("%+v", n)
	}
}
