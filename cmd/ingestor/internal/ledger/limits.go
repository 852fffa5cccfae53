package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/open"
)

func LimitsCommand(a *session.Session) *cobra.Command {
	cmd := a.Command("limits", console.Known, nil)
	var history bool
	list := a.Command("list [FAMILY]", console.Takes(0, 1, "one family, or none for all"), func(cmd *cobra.Command, args []string) error {
		return a.WithLedgerToRead(cmd, func(ctx context.Context, l *quota.Ledger) error {
			none := "no limits%s are set; the price book has all of them\nTo set one: ingestor limits set FAMILY KEY QUOTA"
			all, err := setLimits(ctx, l, a.Now())
			if history {
				none = "no limits%s were changed"
				all, err = l.Admin().LimitChanges(ctx, quota.MaxLimitChanges)
				all = append([]quota.KeyLimit{}, all...) // in JSON none is []
			}
			if err != nil {
				return err
			}
			of := ""
			if len(args) == 1 {
				of = " of " + console.Plain(args[0])
				all = slices.DeleteFunc(all, func(k quota.KeyLimit) bool {
					return k.Family != args[0] && k.Family != quota.LimitsOfUpstream+args[0]
				})
				// the ledger may have limits of a family that the price book had once
				if b := l.Book(); len(all) == 0 && b.Families[args[0]] == nil && b.Upstreams[args[0]] == nil {
					return console.Usage("there is no family %q\nTo list all limits: ingestor limits list", args[0])
				}
			}
			return a.Print(all, func(s *console.Sheet) {
				if len(all) == 0 {
					s.Line(none, of)
					return
				}
				writeLimits(s, all)
			})
		})
	}, a.CompleteFirst(familyNames))
	var c limitChange
	set := a.Command("set [FAMILY KEY QUOTA]", console.Takes(0, 3, "a family, a key and its quota, or --file"), func(cmd *cobra.Command, args []string) error {
		for _, flag := range []string{"for", "until", "file"} { // as of a variable that is not set
			if f := cmd.Flags().Lookup(flag); f.Changed && f.Value.String() == "" {
				return console.Usage("--%s is empty", flag)
			}
		}
		switch {
		case c.file != "" && (len(args) > 0 || c.until != "" || c.duration != ""):
			return console.Usage("--file has the limits and when they end; give no others beside it")
		case c.file != "":
			return c.setAll(a, cmd)
		case len(args) != 3:
			return console.Usage("%s takes a family, a key and its quota, or --file\nFor help: %[1]s --help", cmd.CommandPath())
		}
		n, err := parseQuota(args[0], args[2])
		if err == nil && n < 1 {
			err = fmt.Errorf("the quota must be above 0, not %q", args[2])
		}
		if err != nil {
			return console.Usage("%w\nTo remove a limit: ingestor limits rm FAMILY KEY", err)
		}
		return c.set(a, cmd, args[0], args[1], n)
	}, a.CompleteFirst(familyNames))
	rm := a.Command("rm FAMILY KEY", console.Takes(2, 2, "a family and a key"), func(cmd *cobra.Command, args []string) error {
		return c.set(a, cmd, args[0], args[1], 0)
	}, a.CompleteFirst(familyNames))
	for _, one := range []*cobra.Command{set, rm} {
		one.Flags().StringVar(&c.reason, "reason", "", "`text` that says why; it is kept with the limit")
		one.Flags().BoolVar(&c.dry, "dry-run", false, "set nothing; say who would be refused now")
	}
	set.Flags().StringVar(&c.until, "until", "", "`time` at which the limit ends, as 2026-11-22T08:00:00Z")
	set.Flags().StringVar(&c.duration, "for", "", "`duration` after which the limit ends, as 2h or 7d")
	set.Flags().StringVar(&c.file, "file", "", "set the limits of this `file` of CSV or JSON, - for the standard input")
	for _, c := range []*cobra.Command{cmd, list} {
		c.Flags().BoolVar(&history, "history", false, "list the last changes in place of the limits in force")
	}
	cmd.RunE = list.RunE
	cmd.AddCommand(set, list, rm)
	return cmd
}

// setLimits reads the limits that were set and hold now, by family and key.
func setLimits(ctx context.Context, l *quota.Ledger, now time.Time) ([]quota.KeyLimit, error) {
	const page = 10_000
	found := []quota.KeyLimit{}
	for after := int64(0); ; {
		all, err := l.Admin().KeyLimits(ctx, after, page)
		if err != nil {
			return nil, err
		}
		for _, k := range all {
			if after = k.Version; k.Holds(now) {
				found = append(found, k)
			}
		}
		if len(all) < page {
			slices.SortFunc(found, func(a, b quota.KeyLimit) int {
				return cmp.Or(cmp.Compare(a.Family, b.Family), cmp.Compare(a.Key, b.Key))
			})
			return found, nil
		}
	}
}

// writeLimits shows limits that were set at run time, and when they end if any does.
func writeLimits(s *console.Sheet, all []quota.KeyLimit) {
	console.List(s, console.Columns("family", "key", ">quota", "until", "set by", "at", "reason"), all, func(k *quota.KeyLimit) []string {
		amount := "removed"
		if k.Quota > 0 {
			amount = amountOf(k.Family, k.Quota)
		}
		return []string{console.Plain(k.Family), console.Plain(k.Key), amount, console.Stamp(k.Until), console.Plain(k.By), console.Stamp(k.At), console.Plain(k.Reason)}
	})
}

// mostShown is how many limits costs show lists after a price book.
const mostShown = 100

// showSetLimits shows the limits that take the place of the price book's, as comments after
// the book. A book without families has none, unless it adopts limits. A missing ledger is not made.
func showSetLimits(a *session.Session, cmd *cobra.Command, s *settings.Settings) error {
	at, err := open.Parse(s.Ledger)
	if a.Output == "json" || len(s.Book.Families) == 0 && !s.AdoptLimits && s.Book.Upstreams[book.Budgets] == nil || err != nil {
		return nil
	}
	if _, err := os.Stat(at.File); at.Scheme == "memory" || at.Scheme == "sqlite" && err != nil {
		return nil
	}
	var all []quota.KeyLimit
	err = a.WithLedgerToRead(cmd, func(ctx context.Context, l *quota.Ledger) (err error) {
		all, err = setLimits(ctx, l, a.Now())
		return err
	})
	if err != nil && !errors.Is(err, quota.ErrNoLimits) {
		a.Log.Warn("limits that were set at run time are not shown: the ledger cannot be read", "error", err)
	}
	all = slices.DeleteFunc(all, func(k quota.KeyLimit) bool { return !inForce(s, &k) })
	if len(all) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString("\n# Limits that were set at run time take the place of those above:\n")
	for i, k := range all {
		if i == mostShown {
			fmt.Fprintf(&b, "# and %s more; to list all: ingestor limits list\n", view.Number(int64(len(all)-i)))
			break
		}
		why := ""
		if !k.Until.IsZero() {
			why = ", until " + console.Stamp(k.Until)
		}
		if k.Reason != "" {
			why += ": " + console.Plain(k.Reason)
		}
		fmt.Fprintf(&b, "# %s %s: %s, by %s at %s%s\n", console.Plain(k.Family), console.Plain(k.Key), amountOf(k.Family, k.Quota), console.Plain(k.By), console.Stamp(k.At), why)
	}
	_, err = io.WriteString(a.Stdout, b.String())
	return err
}

// inForce reports whether the price book has a place for a limit that was set. It may have
// changed since.
func inForce(s *settings.Settings, k *quota.KeyLimit) bool {
	if f := s.Book.Families[k.Family]; f != nil {
		_, err := f.WindowsOf(k.Key, k.Quota)
		return err == nil
	}
	upstream := strings.TrimPrefix(k.Family, quota.LimitsOfUpstream)
	return (s.AdoptLimits || upstream == book.Budgets) && s.Book.Upstreams[upstream] != nil
}

// familyLimit is the limit of a key, and where it comes from.
type familyLimit struct {
	Key    string          `json:"key"` // "": of all keys without another limit
	Limits string          `json:"limits"`
	From   string          `json:"from"`
	Set    *quota.KeyLimit `json:"set,omitempty"`
}

// showFamily shows the limits of a family, and where each comes from.
func showFamily(ctx context.Context, a *session.Session, l *quota.Ledger, f *book.Family) error {
	set, err := setLimits(ctx, l, a.Now())
	if err != nil && !errors.Is(err, quota.ErrNoLimits) {
		return err
	}
	const fromBook = "price book"
	all := []familyLimit{{"", windowsOf(f.Windows), fromBook, nil}}
	at := map[string]int{}
	for _, key := range slices.Sorted(maps.Keys(f.Overrides)) {
		at[key] = len(all)
		all = append(all, familyLimit{key, windowsOf(f.Overrides[key]), fromBook, nil})
	}
	for _, k := range set {
		if k.Family != f.Name {
			continue
		}
		windows, err := f.WindowsOf(k.Key, k.Quota)
		if err != nil {
			a.Log.Warn("a limit that was set does not fit the price book any more, which has the key's limit", "family", k.Family, "error", err)
			continue
		}
		one := familyLimit{k.Key, windowsOf(windows), "set at run time by " + k.By, &k}
		if i, listed := at[k.Key]; listed {
			all[i] = one
			continue
		}
		all = append(all, one)
	}
	return a.Print(all, func(s *console.Sheet) {
		console.List(s, console.Columns("key of "+f.Name, "limit", "from", "at", "until", "reason"), all, func(one *familyLimit) []string {
			row := []string{cmp.Or(console.Plain(one.Key), "(any other key)"), one.Limits, console.Plain(one.From), "", "", ""}
			if one.Set != nil {
				row[3], row[4], row[5] = console.Stamp(one.Set.At), console.Stamp(one.Set.Until), console.Plain(one.Set.Reason)
			}
			return row
		})
	})
}

// windowsOf writes limits as 60 in 1m.
func windowsOf(windows []book.Window) string {
	all := make([]string, len(windows))
	for i, w := range windows {
		all[i] = fmt.Sprintf("%s in %s", view.Number(w.Quota), w.Spec)
	}
	return strings.Join(all, ", ")
}

func familyNames(s *settings.Settings) []string { return slices.Sorted(maps.Keys(s.Book.Families)) }

func learnedCommand(a *session.Session) *cobra.Command {
	var forget string
	cmd := a.Command("learned", console.NoArgs, func(cmd *cobra.Command, _ []string) error {
		if forget != "" {
			return a.WithLedger(cmd, func(ctx context.Context, l *quota.Ledger) error {
				pool, err := quota.ParsePool(forget)
				if err == nil {
					err = l.Admin().Forget(ctx, pool)
				}
				if err != nil {
					return console.BadUsage(err)
				}
				return a.Print(map[string]string{"forgotten": pool.String()}, func(s *console.Sheet) {
					s.Line("What was learned of %s is forgotten. All processes learn it anew.", pool)
				})
			})
		}
		return a.WithLedgerToRead(cmd, func(ctx context.Context, l *quota.Ledger) error {
			all, err := readUsage(ctx, a, l)
			if err != nil {
				return err
			}
			found := []view.Pool{}
			text := ""
			for i, p := range view.Pools(all) {
				if p.Learned != nil {
					found, text = append(found, p), text+learnedBook(&all[i], &p)
				}
			}
			if len(found) == 0 {
				text = "# The price book has no pool with quota: {learn: ...}, so nothing is learned.\n"
			}
			return a.Print(found, func(s *console.Sheet) { s.Text.WriteString(text) })
		})
	})
	cmd.Flags().StringVar(&forget, "forget", "", "begin anew to learn the limit of this `pool`")
	return cmd
}

// learnedBook is what was learned of a pool as a piece of a price book.
func learnedBook(u *quota.Usage, p *view.Pool) string {
	text := fmt.Sprintf("# %s: %s.\n", p.Pool, p.Learned.Words())
	if p.Learned.Measured == 0 || u.Pool.Account != quota.DefaultAccount { // another account has the windows of the pool
		return text
	}
	per, seconds := "1m", 60.0
	for _, longer := range []struct {
		per     string
		seconds float64
	}{{"1h", 3600}, {"24h", 86400}} {
		if p.Learned.Measured*seconds < 20 { // too few to be a whole number
			per, seconds = longer.per, longer.seconds
		}
	}
	text += fmt.Sprintf("# Measured at %s, since %s. To fix it, write in the price book, with a higher revision:\n", console.Stamp(*p.Learned.MeasuredAt), console.Stamp(*p.Learned.Since))
	return text + fmt.Sprintf("upstreams:\n  %s:\n    pools:\n      %s: {quota: %d, windows: [{per: %s}]}\n", u.Pool.Upstream, u.Pool.Name, max(int64(p.Learned.Measured*seconds), 1), per)
}
