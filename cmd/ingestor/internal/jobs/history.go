package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

func RunsCommand(a *session.Session) *cobra.Command {
	var q catalog.RunsQuery
	var work bool
	cmd := a.Command("runs", console.NoArgs, func(cmd *cobra.Command, _ []string) error {
		if q.Limit < 1 {
			return console.Usage("--limit must be 1 or more, not %d", q.Limit)
		}
		return a.WithCatalogToRead(cmd, func(ctx context.Context, c session.AnyCatalog) error {
			all, err := c.Runs(ctx, q)
			if err != nil {
				return err
			}
			var short []view.ShortRun
			if !work && a.Output != "json" {
				if short, err = shortRuns(ctx, c, q); err != nil {
					return err
				}
			}
			return a.Print(view.Runs(all), func(s *console.Sheet) {
				switch {
				case len(all) == 0 && q.Job != "":
					s.Line("There was no run of %s yet.\nTo make one: ingestor run --once --job %s", q.Job, q.Job)
				case len(all) == 0:
					s.Line("There was no run yet.\nTo make one: ingestor run --once")
				case work:
					s.View(view.WorkTable(all))
				default:
					s.View(view.RunTable(short))
				}
			})
		})
	})
	cmd.Flags().StringVar(&q.Job, "job", "", "only runs of this `job`")
	cmd.Flags().IntVarP(&q.Limit, "limit", "n", 20, "`number` of runs to show; runs that share a row count as one")
	cmd.Flags().Int64Var(&q.Before, "before", 0, "only runs before the one with this `id`")
	cmd.Flags().BoolVar(&work, "work", false, "write a row for each unit of work")
	_ = cmd.RegisterFlagCompletionFunc("job", a.Complete(session.JobNames))
	return cmd
}

// runsReader is what shortRuns needs of a catalog.
type runsReader interface {
	Runs(ctx context.Context, q catalog.RunsQuery) ([]catalog.RunRecord, error)
}

// shortRuns reads runs until there are as many rows as the limit of q, and each counts all its runs;
// or until it has read 5,000 runs.
func shortRuns(ctx context.Context, c runsReader, q catalog.RunsQuery) ([]view.ShortRun, error) {
	var all []catalog.RunRecord
	for rows := q.Limit; ; q.Limit = 500 {
		some, err := c.Runs(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
		whole := len(some) < q.Limit
		short := view.ShortRuns(all, whole)
		short = short[:min(len(short), rows)]
		open := func(r view.ShortRun) bool { return r.Open }
		if whole || len(all) >= 5000 || len(short) == rows && !slices.ContainsFunc(short, open) {
			return short, nil
		}
		q.Before = some[len(some)-1].ID
	}
}

func StateCommand(a *session.Session) *cobra.Command {
	cmd := a.Command("state", console.Known, nil)
	show := a.Command("show [JOB]", console.Takes(0, 1, "one job, or none for all"), func(cmd *cobra.Command, args []string) error {
		job := strings.Join(args, "")
		return a.WithCatalogToRead(cmd, func(ctx context.Context, c session.AnyCatalog) error {
			all, err := c.Cursors(ctx, job)
			if err != nil {
				return err
			}
			if all == nil {
				all = []catalog.Cursor{}
			}
			return a.Print(all, func(s *console.Sheet) {
				if len(all) == 0 {
					s.Line("Nothing was fetched yet.")
					return
				}
				console.List(s, console.Columns("~job", "~work", ">passes", ">page", "completed", "fetched up to", "deferred until"), all, func(c *catalog.Cursor) []string {
					page, completed := "", "never"
					if c.Begun() {
						page = view.Number(c.Page)
					}
					if !c.CompletedAt.IsZero() {
						completed = console.Stamp(c.CompletedAt)
					}
					return []string{c.Job, console.Plain(c.Work), view.Number(c.Pass), page, completed, console.Stamp(c.Mark), console.Stamp(c.ResumeAt)}
				})
			})
		})
	}, a.CompleteFirst(session.JobNames))
	cmd.RunE = show.RunE
	cmd.AddCommand(show, a.Command("reset JOB [WORK]", console.Takes(1, 2, "a job, and perhaps one unit of its work"), func(cmd *cobra.Command, args []string) error {
		return a.WithCatalog(cmd, func(ctx context.Context, c session.AnyCatalog) error {
			all, err := c.Cursors(ctx, args[0])
			if err != nil {
				return err
			}
			var works []string
			for _, cur := range all {
				works = append(works, cur.Work)
			}
			switch {
			case len(works) == 0:
				return console.Usage("there is no state of a job %q\nTo list the jobs: ingestor state show", args[0])
			case len(args) == 2 && !slices.Contains(works, args[1]):
				return console.Usage("there is no state of work %q; %s has %s", args[1], args[0], strings.Join(works, ", "))
			case len(args) == 2:
				works = args[1:]
			}
			for _, w := range works {
				if err := c.Reset(ctx, args[0], w); err != nil {
					return err
				}
			}
			return a.Print(begun{args[0], works}, func(s *console.Sheet) {
				s.Line("%s starts from the beginning: %s", args[0], console.Plain(strings.Join(works, ", ")))
			})
		})
	}, a.CompleteFirst(session.JobNames)))
	return cmd
}

// begun is the work that was reset, in JSON.
type begun struct {
	Job  string   `json:"job"`
	Work []string `json:"work"`
}

func RegionsCommand(a *session.Session) *cobra.Command {
	var most string
	cmd := a.Command("regions", console.NoArgs, func(cmd *cobra.Command, _ []string) error {
		var d time.Duration
		if most != "" {
			var err error
			if d, err = view.ParseSpan(most); err != nil {
				return console.Usage("--max-age: %w", err)
			}
		}
		return a.WithCatalogToRead(cmd, func(ctx context.Context, c session.AnyCatalog) error {
			if most == "" {
				d = a.Loaded.MaxAge
			}
			feeds, err := c.Feeds(ctx)
			if err != nil {
				return err
			}
			views := view.Feeds(feeds, a.Loaded.List(), a.Now(), d)
			late := view.Late(views)
			err = a.Print(views, func(s *console.Sheet) {
				if len(views) == 0 {
					s.Line("No job fetches charts, and none was fetched.")
					return
				}
				s.View(view.FeedTable(views))
			})
			if err != nil || len(late) == 0 {
				return err
			}
			return fmt.Errorf("older than %s, or missing: %s\nTo see why: ingestor runs", console.Span(d), strings.Join(late, ", "))
		})
	})
	cmd.Flags().StringVar(&most, "max-age", "", "`duration` after which a chart is stale (default max_age of the settings, 26h)")
	return cmd
}

func TrendingCommand(a *session.Session) *cobra.Command {
	var category string
	var limit int
	cmd := a.Command("trending REGION", console.Takes(1, 1, "one region, as US or DE"), func(cmd *cobra.Command, args []string) error {
		if limit < 1 {
			return console.Usage("--limit must be 1 or more, not %d", limit)
		}
		return a.WithCatalogToRead(cmd, func(ctx context.Context, c session.AnyCatalog) error {
			region, category := strings.ToUpper(args[0]), ingest.Category(category)
			chart, err := c.Chart(ctx, region, category)
			if errors.Is(err, catalog.ErrNotFound) {
				feeds, failed := c.Feeds(ctx)
				if failed != nil {
					return failed
				}
				there := view.Complete(view.Feeds(feeds, nil, a.Now(), a.Loaded.MaxAge))
				if len(there) == 0 {
					return errors.New("no chart was fetched completely yet\nTo see why: ingestor regions, and ingestor runs")
				}
				return fmt.Errorf("there is no chart of %s yet; there are %s", view.FeedName(region, category), strings.Join(there, ", "))
			}
			if err != nil {
				return err
			}
			chart.Entries = chart.Entries[:min(limit, len(chart.Entries))]
			return a.Print(view.OneChart(chart, a.Now(), a.Loaded.MaxAge), func(s *console.Sheet) {
				s.Line("%s", s.In(console.Faint, fmt.Sprintf("chart of %s, fetched %s (%s ago)", view.FeedName(region, category), console.Stamp(chart.FetchedAt), console.Span(a.Now().Sub(chart.FetchedAt)))))
				console.List(s, console.Columns(">rank", "~title", "~channel", ">views", "video"), chart.Entries, func(e *catalog.Entry) []string {
					v := &e.Video
					link := view.VideoURL(v.ID)
					if s.Width > 0 && s.Width < 100 { // the title needs the room
						link = v.ID
					}
					return []string{view.Number(int64(e.Rank)), console.Plain(v.Title), console.Plain(v.ChannelTitle), views(v), link}
				})
			})
		})
	}, a.CompleteFirst(session.RegionNames))
	cmd.Flags().StringVar(&category, "category", ingest.AllCategories, "`id` of a video category; 0 means all")
	cmd.Flags().IntVarP(&limit, "limit", "n", 20, "`number` of videos to show")
	return cmd
}

// views formats the views of a video. A hidden number is not 0.
func views(v *catalog.Video) string {
	if v.Statistics == nil || v.Statistics.Views == nil {
		return "-"
	}
	return view.Number(*v.Statistics.Views)
}

type searchFlags struct {
	region, since, cursor string
	limit                 int
}

func SearchCommand(a *session.Session) *cobra.Command {
	var f searchFlags
	cmd := a.Command("search QUERY", func(cmd *cobra.Command, args []string) error {
		if strings.TrimSpace(strings.Join(args, " ")) == "" {
			return console.Usage("the query is missing\nTo search: %s QUERY", cmd.CommandPath())
		}
		return nil
	}, func(cmd *cobra.Command, args []string) error {
		if f.limit < 1 || f.limit > 100 {
			return console.Usage("--limit must be 1 to 100, not %d\nFor more videos, use --cursor", f.limit)
		}
		q := catalog.Query{Text: strings.Join(args, " "), Region: strings.ToUpper(f.region), Limit: f.limit, Cursor: f.cursor}
		if f.since != "" {
			var err error
			if q.Since, err = view.ParseMoment(f.since, a.Now()); err != nil {
				return console.Usage("--since: %w", err)
			}
		}
		return a.WithCatalogToRead(cmd, func(ctx context.Context, c session.AnyCatalog) error {
			results, err := c.Search(ctx, q)
			if errors.Is(err, catalog.ErrBadCursor) {
				return console.Usage("--cursor: %q is not one that an answer ended with", q.Cursor)
			}
			if err != nil {
				return err
			}
			found := view.Found(results)
			return a.Print(found, func(s *console.Sheet) {
				for i, h := range found.Hits {
					if i > 0 {
						s.Line("")
					}
					hit(s, &h)
				}
				if found.Cut {
					s.Line("\n%s", s.In(console.Faint, "Only the "+view.Number(catalog.MaxRanked)+" that were added last were ranked. Search for more words to see others."))
				}
				switch {
				case len(found.Hits) == 0 && q.Cursor != "":
					s.Line("That was all.")
				case len(found.Hits) == 0:
					s.Line("Nothing was found for %q. Try fewer or shorter words.", console.Plain(q.Text))
				case found.Cursor != "":
					s.Line("\n%s", s.In(console.Faint, "For more, repeat the command with --cursor "+found.Cursor))
				}
			})
		})
	}, cobra.NoFileCompletions)
	cmd.Flags().StringVar(&f.region, "region", "", "only videos fetched for this `region`")
	cmd.Flags().StringVar(&f.since, "since", "", "only videos published since this `time`: 2026-11-01, or 7d for 7 days ago")
	cmd.Flags().StringVar(&f.cursor, "cursor", "", "`cursor` of the last answer, for the videos after it")
	cmd.Flags().IntVarP(&f.limit, "limit", "n", 10, "`number` of videos to show")
	_ = cmd.RegisterFlagCompletionFunc("region", a.Complete(session.RegionNames))
	return cmd
}

// hit writes a video with its title, its channel, and the part of its text that matches
// best.
func hit(s *console.Sheet, h *view.Hit) {
	s.Text.WriteString(s.Wrap(marked(s, h.Title), 0) + "\n")
	about := []string{marked(s, h.Channel), h.Video.PublishedAt.UTC().Format(time.DateOnly)}
	if n := views(&h.Video.Video); n != "-" {
		about = append(about, n+" views")
	}
	s.Text.WriteString("  " + s.Wrap(strings.Join(append(about, view.VideoURL(h.Video.ID)), ", "), 2) + "\n")
	if text := marked(s, h.Snippet); text != "" {
		s.Text.WriteString("  " + s.Wrap(text, 2) + "\n")
	}
}

// marked formats a text with its matches in bold, where there is colour.
func marked(s *console.Sheet, m catalog.Marked) string {
	if !s.Colour {
		return console.Plain(m.String())
	}
	var b strings.Builder
	for _, part := range m {
		text := console.Plain("|" + part.Text + "|") // keeps the spaces at its ends
		text = text[1 : len(text)-1]
		if part.Match {
			text = s.In(match, text)
		}
		b.WriteString(text)
	}
	return b.String()
}

// match is the ink of matches.
var match = console.Bold.Foreground(console.Warm.GetForeground())
