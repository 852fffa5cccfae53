package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/counting"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/googlecount"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

func ReconcileCommand(a *session.Session) *cobra.Command {
	var apply, down bool
	cmd := a.Command("reconcile", console.NoArgs, func(cmd *cobra.Command, _ []string) error {
		if down && !apply {
			return console.Usage("--down goes with --apply")
		}
		with := a.WithLedgerToRead
		if apply {
			with = a.WithLedger
		}
		return with(cmd, func(ctx context.Context, l *quota.Ledger) error {
			c, err := counting.NewCounts(ctx, a, a.Loaded, l)
			if err != nil {
				return err
			}
			now := a.Now()
			views, unknown := []CountView{}, []googlecount.Count{}
			for _, account := range slices.Sorted(maps.Keys(c.Readers)) {
				all, strange, failed := c.Read(ctx, account, now)
				err, unknown = errors.Join(err, failed), append(unknown, strange...)
				for _, one := range all {
					if apply {
						err = errors.Join(err, c.Record(ctx, one, down))
					}
					views = append(views, viewCount(one, now))
				}
			}
			if len(views) == 0 && err != nil {
				return err
			}
			return errors.Join(a.Print(views, func(s *console.Sheet) { WriteCounts(s, views, unknown, now, apply, down) }), err)
		})
	})
	settings.AddFlags(cmd, cmd.Flags(), settings.ForCounts, "watch", "adopt_limits")
	cmd.Flags().BoolVar(&apply, "apply", false, "record the units of others")
	cmd.AddCommand(anthropicCommand(a))
	cmd.Flags().BoolVar(&down, "down", false, "with --apply: give back units that Google has not counted")
	return cmd
}

// CountView is Google's own count of a pool, in JSON.
type CountView struct {
	Pool    string    `json:"pool"`
	Project string    `json:"google_project"`
	Metric  string    `json:"metric"`
	Since   time.Time `json:"since"` // midnight in California
	// Theirs is what Google has counted until AsOf; null if it has reported nothing today.
	Theirs *int64     `json:"theirs"`
	AsOf   *time.Time `json:"as_of"`
	Late   *int64     `json:"late_seconds"`
	Ours   int64      `json:"ours"`
	After  int64      `json:"ours_after"` // of Ours, those after AsOf
	Others int64      `json:"others"`     // in the ledger
	// Difference is what Google has counted and the ledger has not. With AtLeast it may be
	// more. All numbers are those after Recorded was recorded.
	Difference *int64 `json:"difference"`
	AtLeast    bool   `json:"difference_at_least,omitempty"`
	Recorded   int64  `json:"recorded"`
	Quota      int64  `json:"quota"`
	Limit      *int64 `json:"google_limit"`
}

func viewCount(c *counting.Counted, now time.Time) CountView {
	v := CountView{
		Pool: c.Pool.String(), Project: c.Project, Metric: c.Count.Metric, Since: c.Asked.From.UTC(),
		Ours: c.Ours, After: c.Late, Others: c.Others, Recorded: c.Recorded, Quota: c.Quota,
	}
	if c.HasCount() {
		late, missing := int64(now.Sub(c.Count.Until)/time.Second), c.Missing
		v.Theirs, v.AsOf, v.Late = &c.Count.Units, view.Instant(c.Count.Until), &late
		v.Difference, v.AtLeast = &missing, !c.Known
	}
	if c.Count.Limited {
		v.Limit = &c.Count.Limit
	}
	return v
}

// WriteCounts shows Google's own counts beside those of the ledger.
func WriteCounts(s *console.Sheet, all []CountView, unknown []googlecount.Count, now time.Time, applied, down bool) {
	var rows [][]string
	for i := range all {
		v := &all[i]
		row := []string{v.Pool, view.Number(v.Ours), view.Number(v.Others), "-", "nothing reported", "", ""}
		if v.Theirs != nil {
			row[3], row[4] = view.Number(*v.Theirs), console.Span(now.Sub(*v.AsOf))+" late"
			row[5], row[6] = view.Number(v.After), signed(*v.Difference)
			if v.AtLeast {
				row[6] = "at least " + row[6]
			}
		}
		rows = append(rows, row)
	}
	if len(all) > 0 {
		s.Line("%s", s.In(console.Faint, "since midnight in California, "+console.Stamp(all[0].Since)))
	}
	s.Table(console.Columns("pool", ">ours", ">others", ">google's", "which is", ">ours after", ">difference"), rows)
	for i := range all {
		for _, line := range all[i].Says(applied, down) {
			s.Line("%s", line)
		}
	}
	for _, c := range unknown {
		s.Line("Google has counted %s units of %s, which no pool of the price book counts.", view.Number(c.Units), console.Plain(c.Metric))
	}
}

func signed(n int64) string {
	if n > 0 {
		return "+" + view.Number(n)
	}
	return view.Number(n)
}

// Says says what was done about a count, or what to type.
func (v *CountView) Says(applied, down bool) (all []string) {
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	missing := int64(0)
	if v.Difference != nil {
		missing = *v.Difference
	}
	switch {
	case v.Recorded > 0:
		say("Recorded %s units of others in %s.", view.Number(v.Recorded), v.Pool)
	case v.Recorded < 0:
		say("Gave back %s units of %s.", view.Number(-v.Recorded), v.Pool)
	case missing > 0 && !applied:
		say("Others have spent %s units of %s that the ledger lacks. To record them: ingestor reconcile --apply", view.Number(missing), v.Pool)
	case missing < 0 && v.AtLeast:
		say("The ledger counts %s units of %s more than Google. Nothing can be given back: the pool has no sliding window, so the ledger does not know which units Google has yet to count.", view.Number(-missing), v.Pool)
	case missing < 0 && down:
		say("The ledger counts %s units of %s more than Google. Nothing was given back: they were reserved in the half hour before Google's count ended, and Google may count them later.", view.Number(-missing), v.Pool)
	case missing < 0:
		say("The ledger counts %s units of %s more than Google. If Google is right: ingestor reconcile --apply --down", view.Number(-missing), v.Pool)
	}
	if v.Limit != nil && *v.Limit != v.Quota {
		say("Google's limit of %s is %s, and the quota of the price book %s. To use Google's: adopt_limits: true in ingestor.yaml, or change the quota in the price book.", v.Pool, view.Number(*v.Limit), view.Number(v.Quota))
	}
	return all
}
