package main

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
)

// callsOf are the calls for one page of a job of a kind.
var callsOf = map[ingest.Kind][]string{
	ingest.Trending:  {"videos.list"},
	ingest.Search:    {"search.list"},
	ingest.Uploads:   {"playlistItems.list", "channels.list"},
	ingest.Stats:     {"videos.batchGetStats"},
	ingest.Retention: {"videos.list", "channels.list"},
}

// TestTheFirstScheduleFitsTheQuota prices what init writes, and also with all that is
// commented out in it.
func TestTheFirstScheduleFitsTheQuota(t *testing.T) {
	everything := string(initial)
	head, jobs, _ := strings.Cut(everything, "\njobs:\n")
	for _, line := range []string{"search:", "  kind: search", "uploads:", "  kind: uploads"} {
		if !strings.Contains(jobs, "  #"+line) {
			t.Fatalf("the file has no line %q", line)
		}
	}
	everything = head + "\njobs:\n" + regexp.MustCompile(`(?m)^  #(\S|  )`).ReplaceAllString(jobs, "  $1")
	for name, yaml := range map[string]string{"as it is": string(initial), "with all its jobs": everything} {
		t.Run(name, func(t *testing.T) {
			home(t, yaml)
			s, err := load("", flagsOf(t))
			if err != nil {
				t.Fatal(err)
			}
			u := s.book.Upstreams[metered]
			units := map[string]int64{}
			for _, j := range s.List() {
				works := int64(1)
				if j.Regional() {
					works = int64(len(j.Regions) * max(len(j.Categories), len(j.Queries), 1))
				}
				works *= int64(max(len(j.Channels), 1))
				day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
				for at := j.Schedule().Next(day.Add(-time.Second)); at.Before(day.Add(24 * time.Hour)); at = j.Schedule().Next(at) {
					for _, call := range callsOf[j.Kind] {
						for pool, cost := range u.Methods[call].Charges {
							units[pool] += works * int64(j.Pages) * cost
						}
					}
				}
			}
			if units["units"] == 0 || units["batch_stats"] == 0 {
				t.Fatalf("it spends %v: nothing was priced", units)
			}
			for pool, spent := range units {
				for _, w := range u.Pools[pool].Windows {
					if limit := w.Quota - w.Headroom; w.Per != 10*time.Minute && spent > limit {
						t.Errorf("%s: %d units a day of %d", pool, spent, limit)
					}
				}
			}
			t.Log(units)
		})
	}
}

func TestTheSchemaHasEverySetting(t *testing.T) {
	text, err := settingsSchema()
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]any
		Additional bool                                           `json:"additionalProperties"`
		Defs       map[string]struct{ Properties map[string]any } `json:"$defs"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(maps.Keys(defaults("/")))
	want = append(want, "accounts", "jobs")
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(schema.Properties)); !slices.Equal(got, want) {
		t.Errorf("the schema has %v, the settings are %v", got, want)
	}
	if _, ok := schema.Defs["Job"].Properties["max_lateness"]; schema.Additional || !ok {
		t.Errorf("the schema lets unknown keys pass, or lacks those of jobs")
	}
}

func TestInitLeavesNothingHalfWritten(t *testing.T) {
	home(t, "")
	if err := os.WriteFile("ingestor.yaml", []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeWhole("ingestor.yaml", initial, false); err == nil || !strings.Contains(err.Error(), "--force overwrites it") {
		t.Errorf("it says %v", err)
	}
	kept, err := os.ReadFile("ingestor.yaml")
	if err != nil || string(kept) != "mine" {
		t.Errorf("it holds %q, %v", kept, err)
	}
	if all, err := os.ReadDir("."); err != nil || len(all) != 1 {
		t.Errorf("beside it there are %v, %v", all, err)
	}
}
