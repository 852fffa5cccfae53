package main

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
)

// TestServeWithoutYouTube: the server works with any price book and any jobs.
func TestServeWithoutYouTube(t *testing.T) {
	t.Parallel()
	for name, jobs := range map[string]string{
		"built-in jobs":   "",
		"jobs of YouTube": "jobs: {charts: {kind: trending, schedule: \"@hourly\", regions: [US]}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t, 1000, "")
			f.write("costs.yaml", "revision: 1\nupstreams: {maps: {pools: {units: {quota: 100, headroom: 5, windows: [{per: 24h}]}}, methods: {geocode: 5}}}\n")
			f.write("ingestor.yaml", "costs: costs.yaml\nledger: sqlite:ledger.db\ncatalog: catalog.db\n"+jobs)
			if r := f.run("quota", "adjust", "maps/units", "7", "--reason", "tried"); r.code != console.ExitDone {
				t.Fatal(r)
			}
			cmd := f.program(t.Context(), "serve", "--listen", "127.0.0.1:0")
			var problems strings.Builder
			cmd.Stderr = &problems
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			lines.Scan()
			url, serving := strings.CutPrefix(lines.Text(), "serving on ")
			if !serving {
				_, _ = io.Copy(io.Discard, out)
				t.Fatalf("%v\n%s", cmd.Wait(), &problems)
			}
			if page := get(t, url+"/"); !strings.Contains(page, "maps/units") {
				t.Errorf("the first page is\n%s", page)
			}
			if told := get(t, url+"/metrics"); !strings.Contains(told, `pool="maps/units"`) && !strings.Contains(told, `upstream="maps"`) {
				t.Errorf("the metrics are\n%s", told)
			}
			f.signal(cmd)
			if err := cmd.Wait(); err != nil || strings.Contains(problems.String(), "panic") {
				t.Errorf("%v\n%s", err, &problems)
			}
		})
	}
}
