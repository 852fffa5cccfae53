package pages_test

import (
	"context"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/testing/viewtest"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/quota"
)

// aFleet is one daemon and its work.
type aFleet struct{ view.Fleet }

func (aFleet) Status(context.Context) (fleet.Status, error) {
	return fleet.Status{
		Daemons: []fleet.Daemon{{ID: "berlin-1", State: fleet.Running, StartedAt: viewtest.Noon, Leader: true}},
		Units:   []fleet.Unit{{Account: quota.DefaultAccount, Job: "trending", Work: "US", State: fleet.UnitIdle}},
	}, nil
}

var figures = regexp.MustCompile(`<a class="csv" href="([^"]+)">`)

// TestEachFigureIsThereAsCSV: each page with figures leads to them, and a row of each holds
// what the page shows.
func TestEachFigureIsThereAsCSV(t *testing.T) {
	r := newRig(t, "", nil)
	r.Run("trending")
	r.src.Fleet = aFleet{}
	r.mux.HandleFunc("GET /fleet", r.board.Fleet)
	r.Must(r.Catalog.Note(t.Context(), &catalog.Action{Who: "anna", What: "block", Target: "youtube/units", Detail: "for 2h"}))
	const units = "pool=youtube%2Funits"
	for path, want := range map[string][]string{
		"/": {
			"/csv/who?" + units + "&window=24h: trending,job,4,100,2026-11-19T19:59:00Z", "/csv/pools: youtube/units,24h,4,9500,9496,10000,500,4,2026-11-21T20:01:00Z,2026-11-21T20:01:00Z,",
			"/csv/history?by=job&range=24h&" + units + ": 2026-11-20T20:00:00Z,trending,4,,",
		},
		"/?by=method":       {"/csv/history?by=method&range=24h&" + units + ": 2026-11-20T20:00:00Z,videos.list,4,,"},
		"/regions":          {"/csv/regions: DE,,,fresh,2026-11-20T20:00:00Z,0,100,0,2026-11-20T20:00:00Z,done,2026-11-20T20:15:00Z"},
		"/regions/DE":       {"/csv/chart?category=&region=DE: 1,"},
		"/runs":             {"/csv/runs: 1,trending,2026-11-20T20:00:00Z,", "/csv/jobs: trending,15 * * * *,2026-11-20T20:15:00Z,4,1"},
		"/runs/1":           {"/csv/run?id=1: DE,done,2,2,0,"},
		"/history?" + units: {"/csv/history?by=job&" + units + "&range=7d: 2026-11-20,trending,4,,", "/csv/actions: 2026-11-20T20:00:00Z,anna,block,youtube/units,for 2h"},
		"/fleet":            {"/csv/daemons: berlin-1,", "/csv/work: trending,US,idle"},
	} {
		source, _ := r.page(path)
		var all []string
		for _, found := range figures.FindAllStringSubmatch(source, -1) {
			figure := html.UnescapeString(found[1])
			rows := r.rows(figure)
			if len(rows) == 0 {
				t.Errorf("%s: %s is empty", path, figure)
				continue
			}
			for _, row := range rows {
				all = append(all, fmt.Sprintf("%s: %s", figure, strings.Join(row, ",")))
			}
		}
		for _, w := range want {
			if !slices.ContainsFunc(all, func(one string) bool { return strings.HasPrefix(one, w) }) {
				t.Errorf("%s: no figure has %s, they are\n%s", path, w, strings.Join(all, "\n"))
			}
		}
	}
	r.src.Fleet = nil
	for _, path := range []string{"/csv/work", "/csv/daemons", "/csv/chart", "/csv/chart?region=ZZ"} {
		if a := r.ask(path); a.Code != 404 {
			t.Errorf("%s: %d", path, a.Code)
		}
	}
}
