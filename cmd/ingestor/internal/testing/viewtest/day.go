package viewtest

import (
	"net/http"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
)

// Day returns the options of a quota that is too small for its jobs. See [Rig.LiveADay].
func Day() *Options {
	return &Options{
		Prices: "upstreams: {youtube: {pools: {units: {quota: 400, headroom: 40}, searches: {quota: 30, headroom: 3}}}}",
		Config: &ingest.Config{
			Regions: []string{"US", "DE", "JP", "BR"}, Workers: 1, MaxWait: time.Minute,
			Jobs: map[string]ingest.Job{
				"trending": {Kind: ingest.Trending, Cron: "15 * * * *", Pages: 2},
				"news":     {Kind: ingest.Search, Cron: "50 */3 * * *", Regions: []string{"US", "DE"}, Queries: []string{"music", "game"}, Pages: 1},
				"music":    {Kind: ingest.Trending, Cron: "45 */4 * * *", Regions: []string{"US", "DE"}, Categories: []string{"10"}, Pages: 4},
				"stats":    {Kind: ingest.Stats, Cron: "30 5,17 * * *", Pages: 4},
			},
		},
	}
}

// LiveADay runs the daemon for 25 hours in which searches are deferred and the chart of
// Brazil fails for a while. It is 20:40 UTC afterwards.
func (r *Rig) LiveADay() {
	r.Helper()
	r.Clock.Set(Noon.Add(-25 * time.Hour))
	daemon := ingest.NewDaemon(r.Runner, r.Config.List(), nil)
	until := func(d time.Duration) { r.Must(daemon.Simulate(r.Context(), r.Clock, Noon.Add(d))) }
	until(-7 * time.Hour)
	r.Sim.Inject(youtubesim.Fault{Method: "videos.list", Region: "BR", Do: youtubesim.Answer, Status: http.StatusServiceUnavailable})
	until(-5 * time.Hour)
	r.Sim.Heal()
	until(0)
	until(40 * time.Minute)
}

// NewDay returns a rig that has lived a day.
func NewDay(t testing.TB) *Rig {
	t.Helper()
	r := New(t, Day())
	r.LiveADay()
	return r
}

// Hostile is a title that tries to be more than text.
const Hostile = `<script>document.title="taken"</script><img src=x onerror="document.title='taken'">"'>&amp; sayonara` + "\u009b31m\u202egnp\u2066\x1b[2J"

// FetchHostile saves a complete chart of GB whose only video has a hostile title, and an
// incomplete chart of US with the same video.
func (r *Rig) FetchHostile() {
	r.Helper()
	ctx := r.Context()
	run, err := r.Catalog.Begin(ctx, catalog.Start{Job: "elsewhere"})
	r.Must(err)
	for _, p := range []catalog.Page{{Done: true, Region: "GB"}, {Next: "more", Region: "US"}} {
		p.Cursor, err = r.Catalog.Cursor(ctx, "elsewhere", p.Region)
		r.Must(err)
		p.Chart, p.Units = true, 1
		p.Videos = []catalog.Video{{
			ID: "dQw4w9WgXcQ", ChannelID: "UC1234567890123456789012", ChannelTitle: Hostile, Title: Hostile, Description: Hostile,
			PublishedAt: r.Clock.Now().Add(-time.Hour),
		}}
		_, err = run.Save(ctx, &p)
		r.Must(err)
	}
	r.Must(run.EndWork(ctx, "GB", "GB", catalog.Outcome{State: catalog.Failed, Error: Hostile}))
	r.Must(run.End(ctx, catalog.Outcome{State: catalog.Failed, Error: Hostile}))
}
