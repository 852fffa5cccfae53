package catalog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
)

// recordedRuns are so many runs of a job as a sketch takes over.
const recordedRuns = 50

// SketchOf returns a sketch of the catalog in the file at path, as it is now. It
// needs no right to write: it changes nothing in the file, and makes none, neither
// that nor one beside it. Where there is no catalog the error is fs.ErrNotExist.
func SketchOf(ctx context.Context, path string, clock quota.Clock) (s *Sketch, err error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() == 0 {
		err = fs.ErrNotExist // the first run makes one of it
	}
	if err != nil {
		return nil, fmt.Errorf("open the catalog: %w", err)
	}
	c := &Catalog{clock: clock, wait: defaultWait}
	if c.path, err = files.Path(path); err != nil {
		return nil, err
	}
	err = sqlitefile.Untouched(c.path, func(db *sql.DB) error {
		c.read, s = db, NewSketch(clock)
		if err := files.LookAt(ctx, db, steps); err != nil {
			return c.fault("open", err)
		}
		return s.copy(ctx, c)
	})
	return s, err
}

// copy takes over what a catalog holds.
func (s *Sketch) copy(ctx context.Context, c *Catalog) error {
	cursors, err := c.Cursors(ctx, "")
	if err != nil {
		return err
	}
	for _, cur := range cursors {
		s.saveCursor(cur)
	}
	jobs, err := c.texts(ctx, "SELECT DISTINCT job FROM runs ORDER BY job")
	if err != nil {
		return err
	}
	for _, job := range jobs {
		runs, err := c.Runs(ctx, RunsQuery{Job: job, Limit: recordedRuns})
		if err != nil {
			return err
		}
		s.runs = append(s.runs, runs...)
	}
	slices.SortFunc(s.runs, func(a, b RunRecord) int { return int(a.ID - b.ID) })
	for i := range s.runs {
		s.runs[i].ID = int64(i) + 1
	}
	if err := errors.Join(s.copyAges(ctx, c), s.copyCharts(ctx, c)); err != nil {
		return err
	}
	brief, err := c.texts(ctx, "SELECT video_id FROM videos WHERE brief")
	if err != nil {
		return err
	}
	for _, id := range brief {
		if e := s.videos.find(id); e != nil {
			e.Value.(*fetched).brief = true
		}
	}
	return nil
}

// copyAges takes over when what is known was last fetched. What is of a time to come,
// by a clock that was ahead, is of now.
func (s *Sketch) copyAges(ctx context.Context, c *Catalog) error {
	now := micros(s.clock.Now())
	for of, query := range map[*ages]string{
		s.videos:     "SELECT video_id, fetched_at FROM videos ORDER BY fetched_at, id",
		s.statistics: "SELECT v.video_id, s.fetched_at FROM statistics s JOIN videos v ON v.id = s.video ORDER BY s.fetched_at, s.video",
		s.uncounted:  "SELECT video_id, fetched_at FROM videos v WHERE NOT EXISTS (SELECT 1 FROM statistics WHERE video = v.id)",
		s.channels:   "SELECT channel_id, fetched_at FROM channels ORDER BY fetched_at, channel_id",
	} {
		err := c.each(ctx, func(rows *sql.Rows) error {
			var id string
			var at int64
			err := rows.Scan(&id, &at)
			of.touch(id, moment(min(at, now)))
			return err
		}, query)
		if err != nil {
			return err
		}
	}
	return nil
}

// copyCharts takes over of which charts a part is fetched.
func (s *Sketch) copyCharts(ctx context.Context, c *Catalog) error {
	return c.each(ctx, func(rows *sql.Rows) error {
		var key chartKey
		var at int64
		err := rows.Scan(&key.region, &key.category, &at)
		s.pending[key] = moment(at)
		return err
	}, "SELECT region, category, fetched_at FROM charts WHERE NOT complete")
}

// texts reads the one column of rows.
func (c *Catalog) texts(ctx context.Context, query string) (all []string, err error) {
	err = c.each(ctx, func(rows *sql.Rows) error {
		var one string
		err := rows.Scan(&one)
		all = append(all, one)
		return err
	}, query)
	return all, err
}

// Copy returns a sketch that goes its own way from here, by another clock.
func (s *Sketch) Copy(clock quota.Clock) *Sketch {
	s.mu.Lock()
	defer s.mu.Unlock()
	to := NewSketch(clock)
	for _, works := range s.cursors {
		for _, cur := range works {
			to.saveCursor(cur)
		}
	}
	for _, r := range s.runs {
		r.Work = slices.Clone(r.Work)
		to.runs = append(to.runs, r)
	}
	maps.Copy(to.fences, s.fences)
	maps.Copy(to.pending, s.pending)
	for of, copied := range map[*ages]*ages{s.videos: to.videos, s.channels: to.channels, s.statistics: to.statistics, s.uncounted: to.uncounted} {
		of.each(func(one *fetched) { copied.touch(one.id, one.at).brief = one.brief })
	}
	return to
}
