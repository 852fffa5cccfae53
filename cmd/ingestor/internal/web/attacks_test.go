package web_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// The tests of attacks print figures, which begin with this word. To print them with full
// counts: make attacks.
const figure = "figure: "

// full returns the count that HEADROOM_SOAK=1 asks for, or the reduced one.
func full(reduced, all int) int {
	if os.Getenv("HEADROOM_SOAK") == "1" {
		return all
	}
	return reduced
}

// tally counts the statuses of answers, and keeps the slowest.
type tally struct {
	mu      sync.Mutex
	all     map[int]int
	slowest time.Duration
}

func (c *tally) add(status int, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[int]int{}
	}
	c.all[status]++
	c.slowest = max(c.slowest, took)
}

func (c *tally) String() string {
	return fmt.Sprintf("%v (status:answers), the slowest after %s", c.all, c.slowest.Round(100*time.Microsecond))
}

// timed asks for a path and counts.
func (r *rig) timed(c *tally, path string, headers ...string) answer {
	r.Helper()
	began := time.Now()
	a := r.ask("GET", path, "", headers...)
	c.add(a.StatusCode, time.Since(began))
	return a
}

// TestSearchesOnManyVideos: 58 one-letter searches at once leave all others alone.
func TestSearchesOnManyVideos(t *testing.T) {
	r := newRig(t, nil)
	r.Run("trending")
	videos := full(500, 250_000)
	r.fetchVideos(videos)
	var searches, others tally
	var all sync.WaitGroup
	for n := range 58 {
		all.Go(func() { r.timed(&searches, fmt.Sprintf("/api/v1/search?q=%c", 'a'+n%26)) })
	}
	searched := make(chan struct{})
	go func() { all.Wait(); close(searched) }()
	for rounds := 0; rounds < 3 || !done(searched); rounds++ {
		for _, path := range []string{"/readyz", "/livez", "/api/v1/trending?region=US", "/api/v1/quota", "/"} {
			if a := r.timed(&others, path); a.StatusCode != http.StatusOK {
				t.Errorf("%s: %s", path, a.Status)
			}
		}
	}
	t.Logf(figure+"58 one-letter searches at once on %d videos: %v; meanwhile probes, charts and pages: %v", videos, &searches, &others)
}

// done reports whether a channel is closed.
func done(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// fetchVideos saves so many videos.
func (r *rig) fetchVideos(n int) {
	r.Helper()
	const page = 1000
	ctx := r.Context()
	run, err := r.Catalog.Begin(ctx, catalog.Start{Job: "many"})
	r.Must(err)
	for from := 0; from < n; from += page {
		cursor, err := r.Catalog.Cursor(ctx, "many", "all")
		r.Must(err)
		p := catalog.Page{Next: "more", Region: "US", Cursor: cursor, Units: 1}
		for i := range min(page, n-from) {
			p.Videos = append(p.Videos, catalog.Video{
				ID: fmt.Sprintf("v%010d", from+i), ChannelID: "UC1234567890123456789012", ChannelTitle: "A channel of many", PublishedAt: noon,
				Title: fmt.Sprintf("%c%d a brown cat does every funny game hour in june", 'a'+i%26, i), Description: strings.Repeat("k l m n o p quick river song that under video we xylophone yes zoo ", 3),
			})
		}
		_, err = run.Save(ctx, &p)
		r.Must(err)
	}
	r.Must(run.End(ctx, catalog.Outcome{State: catalog.Done}))
}

// TestWrongTokensStopOnlyThemselves: many wrong ones come from the address of a right one.
func TestWrongTokensStopOnlyThemselves(t *testing.T) {
	r := newRig(t, nil)
	r.token(theToken)
	var wrong, right tally
	for range full(200, 2_000) {
		r.timed(&wrong, "/v1/pools", "Authorization", "Bearer "+wrongSecret)
		r.timed(&right, "/v1/pools", withToken...)
	}
	t.Logf(figure+"wrong tokens: %v; the right token from the same address: %v", &wrong, &right)
	if len(right.all) != 1 || right.all[http.StatusOK] == 0 || wrong.all[http.StatusTooManyRequests] == 0 {
		t.Error("wrong tokens stop the right one, or are not slowed")
	}
}

// TestOtherSitesUseUpNothing: what pages of other sites send does not count for the limit of
// the operator.
func TestOtherSitesUseUpNothing(t *testing.T) {
	r := newLimitedRig(t, nil, "")
	var theirs, own tally
	for range full(200, 2_000) {
		r.timed(&theirs, "/api/v1/regions", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image")
	}
	for range 60 {
		r.timed(&own, "/api/v1/regions")
	}
	t.Logf(figure+"requests of other sites: %v; then 60 of the operator, whose limit is 60 a minute: %v", &theirs, &own)
	if len(theirs.all) != 1 || theirs.all[http.StatusForbidden] == 0 || own.all[http.StatusOK] != 60 {
		t.Error("they used up the operator's limit, or were answered")
	}
}

// TestScrapesAreCheap: eight scrape as fast as they can.
func TestScrapesAreCheap(t *testing.T) {
	spent := func(share time.Duration) (perScrape time.Duration, all *tally) {
		all = &tally{}
		r := newRig(t, &web.Options{Metrics: metrics.New(&metrics.Options{Share: share})})
		r.Run("trending")
		r.timed(&tally{}, "/metrics")
		n := full(5, 500)
		before := cpu()
		var scrapers sync.WaitGroup
		for range 8 {
			scrapers.Go(func() {
				for range n {
					if a := r.timed(all, "/metrics"); a.StatusCode != http.StatusOK {
						t.Error(a.Status)
					}
				}
			})
		}
		scrapers.Wait()
		return (cpu() - before) / time.Duration(8*n), all
	}
	shared, all := spent(0)
	each, _ := spent(-1)
	t.Logf(figure+"8 scrapers without a pause: %v; a scrape takes %s of CPU, client and server together, and %s without the shared answer", all, shared.Round(time.Microsecond), each.Round(time.Microsecond))
}

// cpu returns the CPU time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestHeapStaysSmall: after ten times as many requests from many clients, the server keeps as
// much as before.
func TestHeapStaysSmall(t *testing.T) {
	r := newRig(t, nil)
	r.token(theToken)
	r.Run("trending")
	s := r.serve()
	first, addresses := full(60, 20_000), full(64, 4096)
	paths := []string{"/", "/api/v1/quota", "/api/v1/trending?region=US", "/api/v1/search?q=a", "/api/v1/search?q=b%d", "/regions", "/runs", "/runs/1", "/history", "/csv/who", "/metrics", "/readyz", "/nothing/%d", "/api/v1/runs?job=j%d"}
	ask := func(from, to int) {
		var clients sync.WaitGroup
		for c := range 4 {
			clients.Go(func() {
				for n := from + c; n < to; n += 4 {
					path := paths[n%len(paths)]
					if strings.Contains(path, "%d") {
						path = fmt.Sprintf(path, n%200) // what the server keeps of ever-new ones is bounded apart
					}
					at := netip.AddrFrom4([4]byte{127, 0, byte(1 + n%addresses>>8), byte(n % addresses)})
					if status, err := r.once(s, at, path); err != nil || status >= http.StatusInternalServerError {
						t.Errorf("%s: %d, %v", path, status, err)
					}
				}
			})
		}
		clients.Wait()
	}
	ask(0, first)
	before := heap()
	ask(first, 10*first)
	after := heap()
	t.Logf(figure+"heap after collection: %d KiB at %d requests, %d KiB at %d: %.3f times", before>>10, first, after>>10, 10*first, float64(after)/float64(before))
	if allowed := before + before/10 + uint64(full(1<<20, 0)); after > allowed {
		t.Errorf("%d bytes, and then %d", before, after)
	}
}
