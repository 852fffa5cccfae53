package jobs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/ingest"
)

type backfillFlags struct {
	since, until string
	query        string
	regions      []string
	class        string
}

func BackfillCommand(a *session.Session) *cobra.Command {
	var f backfillFlags
	cmd := a.Command("backfill [JOB]", func(cmd *cobra.Command, args []string) error {
		if (len(args) == 1) == (f.query != "") || len(args) > 1 {
			return console.Usage("name one search job of the configuration, or a --query\nFor help: %s --help", cmd.CommandPath())
		}
		return nil
	}, a.WithSettings(func(cmd *cobra.Command, args []string, s *settings.Settings) (err error) {
		j, err := f.job(s, args)
		if err != nil {
			return err
		}
		var done console.Closers
		defer func() { err = errors.Join(err, done.Close()) }()
		a.Trace(cmd.Context(), &done)
		var w *works
		var rep *ingest.Report
		err = watching(a, func(tell func(ingest.Progress)) (err error) {
			if w, err = openWorks(cmd.Context(), a, s, &done, tell); err != nil {
				return err
			}
			if _, has := s.Book.Upstreams[settings.Metered].Classes["backfill"]; has && j.Class == "" {
				j.Class = "backfill"
			}
			had, err := completed(cmd, w, j)
			if err != nil {
				return err
			}
			if err := joinFleet(a, w, nil, nil, nil); err != nil {
				return err
			}
			rep, err = w.run(cmd.Context(), j, ingest.Occasion{Without: had})
			return err
		})
		if err != nil {
			return err
		}
		if len(rep.Work) == 0 && rep.Err == nil {
			fmt.Fprintf(a.Stderr, "ingestor: all of this was fetched before\nTo fetch it again: ingestor state reset %s\n", j.Name)
		}
		return leave(a, w, "", []*RunView{summary(j, rep, nil, a.Now())})
	}), a.CompleteFirst(session.SearchNames))
	cmd.Flags().StringVar(&f.since, "since", "", "first `day` of publication, as 2026-01-31")
	cmd.Flags().StringVar(&f.until, "until", "", "`day` after the last day of publication")
	cmd.Flags().StringVar(&f.query, "query", "", "`text` to search for, instead of the queries of a job")
	cmd.Flags().StringSliceVar(&f.regions, "region", nil, "only this `region`; repeat the flag for more (default those of the job or settings)")
	cmd.Flags().StringVar(&f.class, "class", "", "`class` of the price book (default backfill, if there is one)")
	_ = cmd.RegisterFlagCompletionFunc("region", a.Complete(session.RegionNames))
	_ = cmd.RegisterFlagCompletionFunc("class", a.Complete(session.ClassNames))
	return cmd
}

// searches lists the search jobs for an error.
func searches(s *settings.Settings) string {
	names := session.SearchNames(s)
	if len(names) == 0 {
		return "the configuration has no search job\nName a query instead: ingestor backfill --query TEXT"
	}
	return "the search jobs are " + strings.Join(names, ", ")
}

// job returns the job to run. It has a name of its own, so it shares no cursors.
func (f *backfillFlags) job(s *settings.Settings, args []string) (*ingest.Job, error) {
	j := ingest.Job{Name: "query", Kind: ingest.Search, Regions: s.Regions, Queries: []string{f.query}}
	if err := s.Priced([]*ingest.Job{&j}); err != nil {
		return nil, err
	}
	if len(args) == 1 {
		known, there := s.Jobs[args[0]]
		if !there {
			return nil, console.Usage("there is no job %q; %s", args[0], searches(s))
		}
		if !known.Kind.Dated() {
			return nil, console.Usage("job %s is of kind %s, and a backfill needs a search job; %s", args[0], known.Kind, searches(s))
		}
		j = known
	}
	if len(f.regions) > 0 {
		j.Regions = upperCase(f.regions)
	}
	if err := ingest.CheckRegions(j.Regions); err != nil {
		return nil, console.Usage("--region: %w", err)
	}
	if classes := s.Book.Upstreams[settings.Metered].Classes; f.class != "" {
		if _, there := classes[f.class]; !there {
			return nil, console.Usage("--class: the price book has no class %q; it has %s", f.class, strings.Join(slices.Sorted(maps.Keys(classes)), ", "))
		}
	}
	var err error
	if j.Since, err = day("since", f.since); err != nil {
		return nil, err
	}
	if j.Until, err = day("until", f.until); err != nil {
		return nil, err
	}
	if !j.Since.Before(j.Until) {
		return nil, console.Usage("--since %s must be before --until %s", j.Since.Format(time.DateOnly), j.Until.Format(time.DateOnly))
	}
	j.Class, j.Pages, j.MaxRuntime = f.class, ingest.MaxPages, 0
	j.Name = fmt.Sprintf("backfill_%s_%s_%s", j.Name, j.Since.Format("20060102"), j.Until.Format("20060102"))
	return &j, nil
}

func day(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, console.Usage("--%s is missing; write a day, as 2026-01-31", flag)
	}
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return t, console.Usage("--%s %q is not a day; write it as 2026-01-31", flag, text)
	}
	return t, nil
}

func completed(cmd *cobra.Command, w *works, j *ingest.Job) ([]string, error) {
	cursors, err := w.catalog.Cursors(cmd.Context(), j.Name)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, c := range cursors {
		if !c.CompletedAt.IsZero() && !c.Begun() {
			names = append(names, c.Work)
		}
	}
	return names, nil
}
