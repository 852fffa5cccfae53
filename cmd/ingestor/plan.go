package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/ingest/plan"
	"github.com/headroom-quota/headroom/internal/web/view"
)

// planFlags are the flags of ingestor plan.
type planFlags struct {
	days int
	from string
	svg  string
}

func (a *app) planCommand() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Price the schedule ahead of time",
		Long: `Run the configured jobs on a simulated clock, with the real ledger and runner and a
simulated upstream. Show what they would spend: units per pool and day, what is left,
what would be deferred first and until when, and which regions would fall behind their
schedule. The last table shows the same jobs with sliding windows or calendars alone.

A plan needs no key, makes no calls, and changes neither ledger nor catalog. It reads
from them what was spent so far, how far work has got, and how many pages it had. Notes
on standard error say what was missing, such as a server that does not answer. A file
that exists and cannot be read is an error. --from, and --ledger memory:, plan without a
ledger.

Exit codes: 0 the schedule fits; 75 something is deferred; 78 something could never be
paid for, or the picture cannot be written; 69 ledger or catalog cannot be read. A
pipeline can thus check each change of the configuration against the quota.`,
		Example: `  ingestor plan
  ingestor plan --days 60 --from 2027-03-01 --svg plan.svg
  ingestor plan --config new.yaml --output json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.plan(cmd, &f)
		},
	}
	a.outputFlag(cmd)
	cmd.Flags().IntVar(&f.days, "days", plan.DefaultDays, "`number` of days of the upstream's calendar, today included")
	cmd.Flags().StringVar(&f.from, "from", "", "first `day` of the upstream's calendar, as 2027-03-01 (default now)")
	cmd.Flags().StringVar(&f.svg, "svg", "", "draw the plan into this `file`")
	return cmd
}

func (a *app) plan(cmd *cobra.Command, f *planFlags) error {
	o, err := f.options(a.now().Truncate(time.Second))
	if err != nil {
		return err
	}
	s, err := a.settings(cmd.Flags())
	if err != nil {
		return err
	}
	if err := s.priced(s.List()); err != nil {
		return err
	}
	if s.book.Upstreams[metered] == nil {
		return config(fmt.Errorf("a plan covers %s, which the price book %s does not have", metered, s.Costs))
	}
	debug.SetGCPercent(400) // a plan makes much garbage: this saves a fifth of the time, for some 100 MB
	notes, err := a.since(cmd.Context(), s, o, f.from == "")
	if err != nil {
		return err
	}
	told := a.tellDays(o)
	p, err := plan.Make(cmd.Context(), &s.Config, s.book, o)
	told()
	if cmd.Context().Err() != nil {
		return &exit{exitFailed, errors.New("interrupted before the plan was complete")} // 75 would mean that it does not fit
	}
	if err != nil {
		return err
	}
	p.Notes = append(notes, p.Notes...)
	if err := a.print(p, func(s *sheet) { s.plan(p) }); err != nil {
		return err
	}
	for _, note := range p.Notes {
		fmt.Fprintf(a.stderr, "ingestor: %s\n", note)
	}
	if f.svg != "" {
		if err := os.WriteFile(f.svg, p.SVG(), 0o644); err != nil {
			return config(fmt.Errorf("draw the plan: %w", err))
		}
	}
	switch {
	case p.Impossible != "":
		return config(errors.New(p.Impossible))
	case !p.Fits:
		return &exit{code: exitDeferred}
	}
	return nil
}

func (f *planFlags) options(now time.Time) (*plan.Options, error) {
	if f.days < 1 || f.days > plan.MaxDays {
		return nil, usage("--days must be 1 to %d, not %d", plan.MaxDays, f.days)
	}
	o := &plan.Options{From: now, Days: f.days}
	if f.from != "" {
		day, err := plan.ParseDay(f.from)
		if err != nil {
			return nil, usage("--from: %w", err)
		}
		o.From = day
	}
	return o, nil
}

// tellDays shows on a terminal how far a plan has come, since one that does not fit may
// take a minute. The returned function ends that.
func (a *app) tellDays(o *plan.Options) (end func()) {
	if !isTerminal(a.stderr) || os.Getenv("TERM") == "dumb" {
		return func() {}
	}
	const clear = "\r\x1b[K"
	o.Progress = func(at time.Time) {
		what := at.Format(time.DateOnly)
		if at.IsZero() {
			what = "with other windows"
		}
		fmt.Fprint(a.stderr, clear+"planning "+what)
	}
	return func() { fmt.Fprint(a.stderr, clear) }
}

// plan writes a plan for people.
func (s *sheet) plan(p *plan.Plan) {
	s.line("%s", s.in(faint, fmt.Sprintf("%s to %s, %d runs, %s calls", stamp(p.From), stamp(p.Until), p.Runs, view.Number(p.Calls))))
	s.poolDays(p)
	s.verdict(p)
	s.deferredTable(p)
	s.staleTable(p)
	s.comparedTable(p)
}

// poolDays writes a row for each pool and day. Equal days share a row.
func (s *sheet) poolDays(p *plan.Plan) {
	var rows [][]string
	for _, pool := range p.Pools {
		var last []string
		for i, d := range pool.Days {
			row := s.poolDay(&pool, &d)
			if i > 0 && slices.Equal(row[2:], last) {
				first, _, _ := strings.Cut(rows[len(rows)-1][1], " ")
				rows[len(rows)-1][1] = first + " to " + d.Day
				continue
			}
			rows, last = append(rows, row), row[2:]
		}
	}
	s.table([]column{
		{name: "pool", long: true},
		{name: "day"},
		{name: "hours", right: true},
		{},
		{name: "before", right: true},
		{name: "units", right: true},
		{name: "limit", right: true},
		{name: "left", right: true},
		{name: "deferred", right: true},
	}, rows)
}

func (s *sheet) poolDay(pool *plan.Pool, d *plan.Day) []string {
	hours, bar, limit, left := "", "", "", ""
	if d.Hours != 24 {
		hours = span(time.Duration(d.Hours * float64(time.Hour)))
	}
	if pool.Limit > 0 {
		bar, limit, left = s.bar(d.Before+d.Units, pool.Limit), view.Number(pool.Limit), view.Number(d.Left)
	}
	return []string{pool.Pool, d.Day, hours, bar, numberOrBlank(d.Before), view.Number(d.Units), limit, left, numberOrBlank(int64(d.Deferred))}
}

// numberOrBlank formats a number, and 0 as nothing.
func numberOrBlank(n int64) string {
	if n == 0 {
		return ""
	}
	return view.Number(n)
}

// verdict says whether the plan fits.
func (s *sheet) verdict(p *plan.Plan) {
	switch f := p.First; {
	case p.Impossible != "": // the error of the command says so
	case f == nil:
		s.line("\n%s", s.in(good, "It fits: nothing is deferred."))
	default:
		s.line("\n%s", s.in(bad, fmt.Sprintf("It does not fit. First, at %s, %s of %s is deferred until %s: %s.",
			stamp(f.At), plain(f.Work), f.Job, stamp(f.Until), f.Why())))
	}
}

func (s *sheet) deferredTable(p *plan.Plan) {
	if len(p.Deferred) == 0 {
		return
	}
	var rows [][]string
	for _, d := range p.Deferred {
		rows = append(rows, []string{d.Job, plain(d.Work), d.Pool, view.Number(int64(d.Times)), stamp(d.At), stamp(d.Until)})
	}
	s.line("")
	s.table([]column{{name: "deferred", long: true}, {name: "work", long: true}, {name: "pool", long: true}, {name: "times", right: true}, {name: "first"}, {name: "until"}}, rows)
}

func (s *sheet) staleTable(p *plan.Plan) {
	if len(p.Stale) == 0 {
		return
	}
	var rows [][]string
	for _, st := range p.Stale {
		rows = append(rows, []string{st.Job, plain(st.Work), span(time.Duration(st.Behind) * time.Second), stamp(st.Since), view.Number(int64(st.Missed)), plain(st.Error)})
	}
	s.line("")
	s.table([]column{{name: "stale", long: true}, {name: "work", long: true}, {name: "behind", right: true}, {name: "since"}, {name: "missed", right: true}, {name: "why", long: true}}, rows)
}

func (s *sheet) comparedTable(p *plan.Plan) {
	var rows [][]string
	for _, c := range p.Compared {
		var units []string
		for _, pool := range p.Pools {
			units = append(units, pool.Pool+" "+view.Number(c.Units[pool.Pool]))
		}
		rows = append(rows, []string{c.Windows, strings.Join(units, ", "), view.Number(int64(c.Deferred)), view.Number(c.Refused)})
	}
	s.line("")
	s.table([]column{{name: "windows"}, {name: "units"}, {name: "deferred", right: true}, {name: "refused by upstream", right: true}}, rows)
}
