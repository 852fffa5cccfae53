package web_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/youtubesim"
)

// busy is a quota that does not pay for all that is wanted.
const busy = generous + `
upstreams:
  youtube:
    pools:
      units: {quota: 400, headroom: 40}
      searches: {quota: 30, headroom: 3}
`

// newDay serves what a daemon has done in a day in which not all went well: searches
// were deferred, and the chart of Brazil failed for a while. It is 20:40 UTC then.
func newDay(t *testing.T) *rig {
	t.Helper()
	r := newRigOf(t, nil, busy, &ingest.Config{
		Regions: []string{"US", "DE", "JP", "BR"}, Workers: 1, MaxWait: time.Minute,
		Jobs: map[string]ingest.Job{
			"trending": {Kind: ingest.Trending, Cron: "15 * * * *", Pages: 2},
			"news":     {Kind: ingest.Search, Cron: "50 */3 * * *", Regions: []string{"US", "DE"}, Queries: []string{"music", "game"}, Pages: 1},
			"music":    {Kind: ingest.Trending, Cron: "45 */4 * * *", Regions: []string{"US", "DE"}, Categories: []string{"10"}, Pages: 4},
			"stats":    {Kind: ingest.Stats, Cron: "30 5,17 * * *", Pages: 4},
		},
	})
	r.clock.Set(noon.Add(-25 * time.Hour))
	daemon := ingest.NewDaemon(r.runner, r.config.List(), nil)
	until := func(hours time.Duration) {
		r.must(daemon.Simulate(t.Context(), r.clock, noon.Add(hours*time.Hour)))
	}
	until(-7)
	r.sim.Inject(youtubesim.Fault{Method: "videos.list", Region: "BR", Do: youtubesim.Answer, Status: http.StatusServiceUnavailable})
	until(-5)
	r.sim.Heal()
	until(0)
	r.must(daemon.Simulate(t.Context(), r.clock, noon.Add(40*time.Minute)))
	return r
}

// wicked is a title that would like to be more than text.
const wicked = `<script>document.title="taken"</script><img src=x onerror="document.title='taken'">"'>&amp; sayonara`

// fetchWicked keeps a chart of GB whose only video has a hostile title, and a part of
// one of US that is there complete.
func (r *rig) fetchWicked() {
	r.Helper()
	ctx := r.Context()
	run, err := r.catalog.Begin(ctx, catalog.Start{Job: "elsewhere"})
	r.must(err)
	for _, p := range []catalog.Page{{Done: true, Region: "GB"}, {Next: "more", Region: "US"}} {
		p.Cursor, err = r.catalog.Cursor(ctx, "elsewhere", p.Region)
		r.must(err)
		p.Chart, p.Units = true, 1
		p.Videos = []catalog.Video{{
			ID: "dQw4w9WgXcQ", ChannelID: "UC1234567890123456789012", ChannelTitle: wicked, Title: wicked, Description: wicked,
			PublishedAt: r.clock.Now().Add(-time.Hour),
		}}
		_, err = run.Save(ctx, &p)
		r.must(err)
	}
	r.must(run.EndWork(ctx, "GB", "GB", catalog.Outcome{State: catalog.Failed, Error: wicked}))
	r.must(run.End(ctx, catalog.Outcome{State: catalog.Failed, Error: wicked}))
}
