package catalog

import (
	"errors"
	"fmt"
	"time"
)

// Page is the result of one fetch for a unit of work. [Run.Save] saves all of it, and
// the cursor, in one transaction.
type Page struct {
	// Cursor is the cursor that the page was fetched with, as [Catalog.Cursor] or the
	// last [Run.Save] returned it.
	Cursor Cursor
	// Next is the token of the next page; empty if Done.
	Next string
	// Done says that this page ends the pass.
	Done bool
	// Since is the time at which an incremental pass begins; zero if it has none. The
	// cursor takes it from the first page of a pass and keeps it until the last.
	Since time.Time
	// High is the latest time on this page, such as the latest publishedAt, for work
	// that is incremental; zero if there is none. A complete pass makes its highest one
	// the cursor's Mark. A time in the future counts as a few minutes ago.
	High time.Time
	// Units are the units that the fetch cost, for the history of runs.
	Units int64

	// Region is the region that the page was fetched for; empty for none.
	Region string
	// Chart says that the videos are the next entries of the chart of the region and
	// category. A complete pass replaces the chart that was shown before.
	Chart    bool
	Category string

	Videos   []Video
	Channels []Channel
	// Statistics belong to videos that are not on the page. Statistics of a video that
	// the catalog does not hold are dropped.
	Statistics []Statistics
	// Gone are ids of videos and channels that were asked for and not returned. They are
	// deleted.
	Gone []string
}

// Saved is the result of saving a page.
type Saved struct {
	// Cursor is where the unit of work continues.
	Cursor Cursor
	// Repeated says that the page had been saved before. Nothing was written.
	Repeated bool

	New        int // videos that are new to the catalog
	Updated    int // videos that changed
	Unchanged  int // videos that did not change
	Statistics int // videos whose statistics were refreshed
	Gone       int // videos and channels that were deleted
}

// Check returns an error if the page does not fit a run of the job, or does not say how
// its work continues. Every catalog calls it before it saves a page.
func (p *Page) Check(job string) error {
	switch {
	case p.Cursor.Job != job:
		return fmt.Errorf("its cursor belongs to the job %q", p.Cursor.Job)
	case p.Cursor.Work == "":
		return errors.New("its cursor names no unit of work")
	case p.Done && p.Next != "":
		return errors.New("it is the last page, and names a next one")
	case !p.Done && p.Next == "":
		return errors.New("it is not the last page, and names no next one")
	case p.Chart && p.Region == "":
		return errors.New("it belongs to a chart, and names no region")
	}
	return nil
}
