package ingest

import (
	"context"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

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

// chartWorks has a unit of work for each region and category.
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
