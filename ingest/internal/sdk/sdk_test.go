package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/api/youtube/v3"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

const sdkKey = "AIzaKeyOfTheSandbox"

// metered is the real SDK, metered, against an upstream that counts for itself.
type metered struct {
	t       *testing.T
	clock   *quota.SimClock
	ledger  *quota.Ledger
	service *youtube.Service
}

// newMetered wraps the SDK as a user would. The overlay is laid over a built-in
// book.
func newMetered(t *testing.T, upstream http.Handler, clock *quota.SimClock, base, overlay string) *metered {
	t.Helper()
	server := httptest.NewServer(upstream)
	t.Cleanup(server.Close)
	book := load(t, fmt.Sprintf("extends: %s\nupstreams: {youtube: {hosts: [%q]%s}}", base, server.Listener.Addr(), overlay))
	ledger, err := quota.New(book, memstore.New(&memstore.Options{Clock: clock}), &quota.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	transport, err := meter.New(ledger, &meter.Options{
		Keys:   map[string]meter.KeySource{"youtube": meter.Key(sdkKey)},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: transport}
	t.Cleanup(client.CloseIdleConnections)
	service, err := youtube.NewService(t.Context(), option.WithHTTPClient(client), option.WithEndpoint(server.URL+"/"))
	if err != nil {
		t.Fatal(err)
	}
	return &metered{t, clock, ledger, service}
}

func (m *metered) used(pool string) int64 {
	m.t.Helper()
	all, err := m.ledger.View().Usage(context.Background(), "youtube", "")
	if err != nil {
		m.t.Fatal(err)
	}
	for _, u := range all {
		if u.Pool.Name == pool {
			return u.Windows[0].Used
		}
	}
	m.t.Fatalf("there is no pool %s", pool)
	return 0
}

func (m *metered) search() *youtube.SearchListCall {
	return m.service.Search.List([]string{"snippet"}).Q("music").Type("video").MaxResults(50)
}

// sandbox is a simulated upstream at noon of a day in California.
func sandbox(o *youtubesim.Options) (*youtubesim.Sim, *quota.SimClock) {
	clock := quota.NewSimClock(time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC))
	o.Seed, o.Clock = 1, clock.Now
	return youtubesim.New(o), clock
}

func TestSDK(t *testing.T) {
	endless := []youtubesim.Fault{{Method: "search.list", Do: youtubesim.Endless}}
	pages := func(m *metered, most int) (n int, err error) {
		enough := errors.New("enough")
		err = m.search().Pages(context.Background(), func(*youtube.SearchListResponse) error {
			if n++; n == most {
				return enough
			}
			return nil
		})
		if errors.Is(err, enough) {
			err = nil
		}
		return n, err
	}
	t.Run("ten pages are ten calls", func(t *testing.T) {
		sim, clock := sandbox(&youtubesim.Options{Faults: endless})
		m := newMetered(t, sim, clock, "builtin", "")
		if n, err := pages(m, 10); n != 10 || err != nil {
			t.Errorf("%d pages, %v", n, err)
		}
		if got, theirs := m.used("searches"), sim.Counts().Total().Units; got != 10 || theirs != 10 {
			t.Errorf("%d units charged, %d by the upstream's own count; want 10", got, theirs)
		}
	})
	t.Run("by the older book each is 100", func(t *testing.T) {
		sim, clock := sandbox(&youtubesim.Options{Faults: endless, Generation: youtubesim.OnePool})
		m := newMetered(t, sim, clock, "builtin/youtube-2025", "")
		if n, err := pages(m, 10); n != 10 || err != nil {
			t.Errorf("%d pages, %v", n, err)
		}
		if got, theirs := m.used("units"), sim.Counts().Total().Units; got != 1000 || theirs != 1000 {
			t.Errorf("%d units charged, %d by the upstream's own count; want 1000", got, theirs)
		}
	})
	t.Run("a refusal in page 6 leaves five pages, and page 6 unsent", func(t *testing.T) {
		sim, clock := sandbox(&youtubesim.Options{Faults: endless})
		m := newMetered(t, sim, clock, "builtin", ", pools: {searches: {quota: 5, headroom: 0, windows: [{per: 24h}]}}")
		n, err := pages(m, 0)
		var refused *quota.RefusedError
		if n != 5 || !errors.As(err, &refused) || refused.Pool.Name != "searches" || refused.RetryAfter != 24*time.Hour+time.Minute {
			t.Errorf("%d pages, %v", n, err)
		}
		if total := sim.Counts().Total(); total.Units != 5 || total.Refused != 0 {
			t.Errorf("the upstream counted %+v", total)
		}
		clock.Set(refused.RetryAt)
		if n, err := pages(m, 1); n != 1 || err != nil {
			t.Errorf("at the time it named: %d pages, %v", n, err)
		}
	})
	t.Run("a key that may not be used is a credential error", func(t *testing.T) {
		for _, refusal := range []youtubesim.Refusal{youtubesim.KeyBlocked, youtubesim.KeyInvalid, youtubesim.KeyInvalidOld, youtubesim.KeyMissing} {
			sim, clock := sandbox(&youtubesim.Options{Faults: []youtubesim.Fault{{Do: youtubesim.Refuse, Refusal: refusal}}})
			m := newMetered(t, sim, clock, "builtin", "")
			_, err := m.search().Do()
			var credential *meter.CredentialError
			if !errors.As(err, &credential) || strings.Contains(err.Error(), sdkKey) {
				t.Errorf("%s: %v", refusal, err)
			}
			sim.Heal()
			if _, err := m.search().Do(); err != nil {
				t.Errorf("%s shut a pool: %v", refusal, err)
			}
		}
	})
	t.Run("a quota that others have used up shuts the pool until midnight, and the SDK reads why", func(t *testing.T) {
		for _, c := range []struct {
			refusal youtubesim.Refusal
			until   string
		}{
			{youtubesim.QuotaExceeded, "2026-11-21T08:00:00Z"},
			{youtubesim.DailyLimitExceeded, "2026-11-21T08:00:00Z"},
			{youtubesim.PerDay, "2026-11-21T08:00:00Z"},
			{youtubesim.PerDayBare, "2026-11-21T08:00:00Z"},
			{youtubesim.PerMinute, "2026-11-20T20:00:30Z"},
			{youtubesim.RateLimitExceeded, "2026-11-20T20:00:30Z"},
		} {
			sim, clock := sandbox(&youtubesim.Options{Faults: []youtubesim.Fault{{Do: youtubesim.Refuse, Refusal: c.refusal}}})
			m := newMetered(t, sim, clock, "builtin", "")
			_, err := m.search().Do()
			var theirs *googleapi.Error
			if !errors.As(err, &theirs) || theirs.Message == "" || !strings.Contains(theirs.Body, theirs.Errors[0].Reason) {
				t.Errorf("%s: the SDK reads %v", c.refusal, err)
			}
			sim.Heal()
			_, err = m.search().Do()
			var ours *quota.RefusedError
			if !errors.As(err, &ours) || !errors.Is(err, quota.ErrBlocked) || ours.RetryAt.Format(time.RFC3339) != c.until {
				t.Errorf("%s: then %v, want a block until %s", c.refusal, err, c.until)
			}
			if want := link.ReplaceAllString(theirs.Message, ""); ours.Reason != want {
				t.Errorf("%s: the reason is %q, want the upstream's own, %q", c.refusal, ours.Reason, want)
			}
		}
	})
	t.Run("304 is charged", func(t *testing.T) {
		sim, clock := sandbox(&youtubesim.Options{})
		m := newMetered(t, sim, clock, "builtin", "")
		list := m.service.Videos.List([]string{"snippet"}).Chart("mostPopular").RegionCode("JP")
		first, err := list.Do()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := list.IfNoneMatch(first.Etag).Do(); !googleapi.IsNotModified(err) {
			t.Errorf("error %v, want not modified", err)
		}
		if got, theirs := m.used("units"), sim.Counts().Total().Units; got != 2 || theirs != 2 {
			t.Errorf("%d units charged, %d by the upstream's own count; want 2", got, theirs)
		}
	})
	t.Run("a custom verb has its own pool", func(t *testing.T) {
		sim, clock := sandbox(&youtubesim.Options{})
		m := newMetered(t, sim, clock, "builtin", "")
		if _, err := m.service.Videos.BatchGetStats().Part("statistics").Id("x").Do(); err != nil {
			t.Error(err)
		}
		if got := m.used("batch_stats"); got != 1 || m.used("units") != 0 {
			t.Errorf("%d units charged to batch_stats, want 1", got)
		}
	})
	t.Run("a key in the URL is refused", func(t *testing.T) {
		sim, clock := sandbox(&youtubesim.Options{})
		m := newMetered(t, sim, clock, "builtin", "")
		if _, err := m.search().Do(googleapi.QueryParameter("key", "x")); !errors.Is(err, quota.ErrBadInput) {
			t.Errorf("error %v", err)
		}
		if total := sim.Counts().Total(); total.Units != 0 {
			t.Errorf("the upstream counted %+v", total)
		}
	})
}

// link is what the upstream puts into a message for pages.
var link = regexp.MustCompile(`</?a[^>]*>`)

// An upload costs what it costs when it begins, in one request or in many.
func TestSDKUploads(t *testing.T) {
	var requests []string
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		requests = append(requests, fmt.Sprintf("%s %s %d", r.Method, r.URL.Query().Get("uploadType"), n/1024))
		switch {
		case r.Header.Get("X-Goog-Api-Key") != sdkKey:
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Query().Get("uploadType") == "resumable" && r.URL.Query().Get("upload_id") == "":
			w.Header().Set("Location", "http://"+r.Host+r.URL.Path+"?uploadType=resumable&upload_id=abc")
		case r.Header.Get("Content-Range") != "" && strings.HasSuffix(r.Header.Get("Content-Range"), "/*"):
			w.Header().Set("X-Http-Status-Code-Override", "308")
		default:
			io.WriteString(w, `{"id": "new"}`)
		}
	})
	m := newMetered(t, upstream, quota.NewSimClock(time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)), "builtin", "")
	for _, c := range []struct {
		name     string
		size     int
		requests string
	}{
		{"small", 10 << 10, "POST multipart 10"},
		{"large", 700 << 10, "POST resumable 0, POST resumable 256, POST resumable 256, POST resumable 188"},
	} {
		requests = nil
		before := m.used("uploads")
		v, err := m.service.Videos.Insert([]string{"snippet"}, &youtube.Video{}).
			Media(strings.NewReader(strings.Repeat("x", c.size)), googleapi.ChunkSize(256<<10), googleapi.ContentType("video/mp4")).Do()
		if err != nil || v.Id != "new" {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := strings.Join(requests, ", "); got != c.requests {
			t.Errorf("%s: requests %s, want %s", c.name, got, c.requests)
		}
		if got := m.used("uploads") - before; got != 1 {
			t.Errorf("%s: %d units charged, want 1", c.name, got)
		}
	}
}

// Five lines around the real SDK; what uses it stays as it was.
func Example_sdk() {
	ctx := context.Background()
	ledger, server := rehearsal() // yours, and https://youtube.googleapis.com
	defer server.Close()

	transport, err := meter.New(ledger, &meter.Options{
		MaxWait: 2 * time.Minute,
		Keys:    map[string]meter.KeySource{"youtube": meter.Key(os.Getenv("YOUTUBE_API_KEY"))},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: transport}
	service, err := youtube.NewService(ctx, option.WithHTTPClient(client), option.WithEndpoint(server.URL+"/"))
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx = meter.WithJob(ctx, "news") // who spends it
	search := service.Search.List([]string{"snippet"}).Q("music").Type("video").MaxResults(50)
	err = search.Pages(ctx, func(page *youtube.SearchListResponse) error {
		fmt.Println("a page of", len(page.Items))
		return nil
	})
	var refused *quota.RefusedError
	if errors.As(err, &refused) {
		fmt.Printf("%d of %d used in %s; go on at %s\n", refused.Used, refused.Limit, refused.Window, refused.RetryAt)
	}
	// Output:
	// a page of 50
	// a page of 50
	// 2 of 2 used in 24h; go on at 2026-11-21 20:01:00 +0000 UTC
}

// rehearsal is a ledger with two searches a day, and a simulated upstream.
func rehearsal() (*quota.Ledger, *httptest.Server) {
	os.Setenv("YOUTUBE_API_KEY", sdkKey)
	sim, clock := sandbox(&youtubesim.Options{})
	server := httptest.NewServer(sim)
	costs, err := book.Parse("costs.yaml", fmt.Appendf(nil, `
extends: builtin
upstreams:
  youtube:
    hosts: [%q]
    pools: {searches: {quota: 2, headroom: 0, windows: [{per: 24h}]}}
`, server.Listener.Addr()), &book.Options{Builtins: headroom.ReadBuiltin})
	if err != nil {
		log.Fatal(err)
	}
	ledger, err := quota.New(costs, memstore.New(&memstore.Options{Clock: clock}), &quota.Options{Clock: clock})
	if err != nil {
		log.Fatal(err)
	}
	return ledger, server
}
