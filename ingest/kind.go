package ingest

import (
	"context"
	"slices"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube"
)

// Kind is what a job does. The table kinds has all that the program knows of each.
type Kind string

// The kinds of jobs.
const (
	Trending  Kind = "trending"  // the chart of each region and category
	Search    Kind = "search"    // new videos for each query in each region
	Uploads   Kind = "uploads"   // the uploads of channels
	Stats     Kind = "stats"     // the statistics of known videos: unknown ones first, then the oldest
	Retention Kind = "retention" // data that is too old: fetched again, or deleted
	Command   Kind = "command"   // a program, which makes calls of its own
)

type kind struct {
	name    Kind
	methods []string // that it calls, as the price book names them; the most frequent one first. None: its program decides
	asks    bool     // every unit of work begins with a call of the first method

	list     string   // the setting that lists its work; empty: it has a fixed list
	lists    []string // the default of that setting
	regional bool     // it has each entry of the list in each region
	works    func(*Runner, *Job) []*Work

	pages   int              // of a unit of work at most, by default; 0 is 1
	runs    bool             // it runs the program of the job
	opening int              // calls that a unit of work makes before its first page
	dated   bool             // it fetches by date of publication
	always  string           // the schedule of the job that a configuration without one gets; empty: none
	daily   bool             // it must be due once a day at least
	after   func(*Run) error // what a run does when its work has ended
}

// kinds has a row for each kind of job. A chart has about 200 videos, so 4 pages. A search
// has 3 pages, because each is one of the hundred searches of a day.
var kinds = []*kind{
	{
		name: Trending, methods: []string{"videos.list"}, asks: true,
		list: "categories", lists: []string{AllCategories}, regional: true, works: chartWorks, pages: 4,
	},
	{
		name: Search, methods: []string{"search.list"}, asks: true,
		list: "queries", regional: true, works: searchWorks, pages: 3, dated: true,
	},
	{
		name: Uploads, methods: []string{"playlistItems.list", "channels.list"}, asks: true,
		list: "channels", works: uploadsWorks, pages: 10, opening: 1, // each begins with its channel
	},
	{
		name: Stats, methods: []string{"videos.batchGetStats"},
		works: statsWorks, pages: 20,
	},
	{
		name: Retention, methods: []string{"videos.list", "channels.list"},
		works: retentionWorks, pages: 20, always: "45 */6 * * *", daily: true, after: (*Run).expire,
	},
	{name: Command, works: programWorks, runs: true},
}

// Kinds returns every kind of job.
func Kinds() []Kind {
	all := make([]Kind, len(kinds))
	for i, row := range kinds {
		all[i] = row.name
	}
	return all
}

// row returns the row of the kind. An unknown kind has an empty one.
func (k Kind) row() *kind {
	if i := slices.IndexFunc(kinds, func(row *kind) bool { return row.name == k }); i >= 0 {
		return kinds[i]
	}
	return &kind{works: func(*Runner, *Job) []*Work { return nil }}
}

// Runs reports whether jobs of the kind run a program.
func (k Kind) Runs() bool { return k.row().runs }

// Upstream returns the upstream that work of the kind calls, as the price book names it. It
// is empty if a program decides.
func (k Kind) Upstream() string {
	if k.Runs() {
		return ""
	}
	return upstreamName
}

// Methods returns the methods that work of the kind calls, as the price book names them.
// The most frequent one comes first.
func (k Kind) Methods() []string { return k.row().methods }

// Dated reports whether the kind fetches by date of publication, so that a backfill can
// fetch what was published between two dates.
func (k Kind) Dated() bool { return k.row().dated }

// Regional reports whether the job has work for each region. Channels and known videos
// belong to none.
func (j *Job) Regional() bool { return j.Kind.row().regional }

// lists returns the lists of work that a job may have, by setting.
func (j *Job) lists() map[string]*[]string {
	return map[string]*[]string{"categories": &j.Categories, "queries": &j.Queries, "channels": &j.Channels}
}

// MostCalls returns how many calls one pass of the job makes at most, where each page is a
// call. It reports false if that is unknown: statistics and retention have as much to do
// as the catalog holds, and programs decide for themselves.
func (j *Job) MostCalls() (calls int64, known bool) {
	row := j.Kind.row()
	list, known := j.lists()[row.list]
	if !known {
		return 0, false
	}
	works := len(*list)
	if row.regional {
		works *= len(j.Regions)
	}
	return int64(works) * int64(j.Pages+row.opening), true
}

// Chart names a chart. An empty category is the chart of all categories.
type Chart struct{ Region, Category string }

// Charts returns the charts that the job fetches.
func (j *Job) Charts() (all []Chart) {
	for _, region := range j.Regions {
		for _, category := range j.Categories {
			all = append(all, Chart{region, Category(category)})
		}
	}
	return all
}

// AllCategories is what a person writes for the chart of all categories.
const AllCategories = "0"

// Category returns a category as the catalog has it: all categories together are "".
func Category(id string) string {
	if id == AllCategories {
		return ""
	}
	return id
}

func chartWorks(r *Runner, j *Job) (all []*Work) {
	for i, chart := range j.Charts() {
		name := chart.Region
		if len(j.Categories) > 1 || chart.Category != "" {
			name += "/" + j.Categories[i%len(j.Categories)]
		}
		all = append(all, &Work{Name: name, Region: chart.Region, fetch: func(ctx context.Context, at catalog.Cursor) (*catalog.Page, error) {
			return r.upstream.Trending(ctx, chart.Region, chart.Category, at)
		}})
	}
	return all
}

func searchWorks(r *Runner, j *Job) (all []*Work) {
	for _, region := range j.Regions {
		for _, text := range j.Queries {
			q := youtube.Query{Text: text, Region: region, Since: j.Since, Until: j.Until}
			all = append(all, &Work{Name: region + "/" + text, Region: region, resumable: true, fetch: func(ctx context.Context, at catalog.Cursor) (*catalog.Page, error) {
				return r.upstream.Search(ctx, q, at)
			}})
		}
	}
	return all
}

func uploadsWorks(r *Runner, j *Job) (all []*Work) {
	for _, channel := range j.Channels {
		all = append(all, &Work{Name: channel, resumable: true, fetch: func(ctx context.Context, at catalog.Cursor) (*catalog.Page, error) {
			return r.upstream.Uploads(ctx, channel, at)
		}})
	}
	return all
}
