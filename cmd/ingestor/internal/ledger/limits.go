package ledger

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
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
		for _, flag := range []string{"for", "until", "file", "headroom"} { // as of a variable that is not set
			if f := cmd.Flags().Lookup(flag); f.Changed && f.Value.String() == "" {
				return console.Usage("--%s is empty", flag)
			}
		}
		switch {
		case c.file != "" && (len(args) > 0 || c.until != "" || c.duration != "" || c.window != "" || c.headroom != ""):
			return console.Usage("--file has the limits and when they end; give no others beside it")
		case c.file != "":
			return c.setAll(a, cmd)
		case len(args) != 3:
			return console.Usage("%s takes a family, a key and its quota, or --file\nFor help: %[1]s --help", cmd.CommandPath())
		}
		n, err := view.ParseQuota(args[0], args[2])
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
		one.Flags().StringVar(&c.window, "window", "", "only this `window` of a pool, by its length, as 10m (default the longest)")
		one.Flags().StringVar(&c.reason, "reason", "", "`text` that says why; it is kept with the limit")
		one.Flags().BoolVar(&c.dry, "dry-run", false, "set nothing; say who would be refused now")
	}
	set.Flags().StringVar(&c.headroom, "headroom", "", "`units` that calls leave free, or a share as 5% (default by the price book)")
	set.Flags().StringVar(&c.until, "until", "", "`time` at which the limit ends, as 2027-01-01T08:00:00Z")
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
			amount = quotaOf(k)
		}
		return []string{console.Plain(k.Family), console.Plain(k.Key), amount, console.Stamp(k.Until), console.Plain(k.By), console.Stamp(k.At), console.Plain(k.Reason)}
	})
}

// mostShown is how many limits costs show lists after a price book.
const mostShown = 100

// showSetLimits shows the limits that take the place of the price book's, as comments after
// the book. A missing ledger is not made.
func showSetLimits(a *session.Session, cmd *cobra.Command, s *settings.Settings) error {
	at, err := open.Parse(s.Ledger)
	if a.Output == "json" || err != nil {
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
		fmt.Fprintf(&b, "# %s %s: %s, by %s at %s%s\n", console.Plain(k.Family), console.Plain(k.Key), quotaOf(&k), console.Plain(k.By), console.Stamp(k.At), why)
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
	return s.Book.Upstreams[upstream] != nil && (s.AdoptLimits || k.By != quota.ByUpstream)
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
	fixed := fmt.Sprintf("{quota: %d, windows: [{per: %s}]}", max(int64(p.Learned.Measured*seconds), 1), per)
	if n := p.Learned.Places; n > 0 {
		fixed = fmt.Sprintf("{quota: null, windows: [{in_flight: %d}]}", n)
	}
	text += fmt.Sprintf("# Measured at %s, since %s. To fix it, write in the price book, with a higher revision:\n", console.Stamp(*p.Learned.MeasuredAt), console.Stamp(*p.Learned.Since))
	return text + fmt.Sprintf("upstreams:\n  %s:\n    pools:\n      %s: %s\n", u.Pool.Upstream, u.Pool.Name, fixed)
}

// limitChange is how limits are set or removed.
type limitChange struct {
	reason, until, duration, file, window, headroom string
	dry                                             bool
}

// wantedLimit is a limit to set, and where it stands: "limits.csv:7", or "" on the command line.
type wantedLimit struct {
	quota.KeyLimit
	at string
}

// set sets the limit of a key, or removes it if n is 0.
func (c *limitChange) set(a *session.Session, cmd *cobra.Command, family, key string, n int64) (err error) {
	k := quota.KeyLimit{Family: family, Key: key, Quota: n, Reason: c.reason}
	if k.Until, err = endOf(a, c.duration, c.until); err != nil {
		return err
	}
	if k.Headroom, err = headroomOf(c.headroom, n); err != nil {
		return console.Usage("%w", err)
	}
	return c.change(a, cmd, []wantedLimit{{KeyLimit: k}})
}

// endOf returns the time that --for or --until names; zero if neither is set.
func endOf(a *session.Session, duration, until string) (at time.Time, err error) {
	switch {
	case duration != "" && until != "":
		return at, console.Usage("--for and --until cannot be used together")
	case duration != "":
		d, err := view.ParseSpan(duration)
		if err != nil || d <= 0 {
			return at, console.Usage("--for: %q is not a duration above 0; write it as 90m, 2h or 7d, at most 99999d", duration)
		}
		return a.Now().Add(d), nil
	case until != "":
		if at, err = view.ParseEnd(until); err != nil {
			return at, console.Usage("--until: %w", err)
		}
		if !at.After(a.Now()) {
			return at, console.Usage("--until: %s is in the past", until)
		}
	}
	return at, nil
}

// setAll sets the limits of a file.
func (c *limitChange) setAll(a *session.Session, cmd *cobra.Command) error {
	name, text := c.file, []byte(nil)
	var err error
	if name == "-" {
		name = "standard input"
		text, err = io.ReadAll(cmd.InOrStdin())
	} else {
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return console.Usage("%w", err)
	}
	all, err := readLimits(name, text)
	if err != nil {
		return console.Usage("%w", err)
	}
	for i := range all {
		all[i].Reason = cmp.Or(all[i].Reason, c.reason)
	}
	return c.change(a, cmd, all)
}

// readLimits reads limits in CSV, or in JSON as ingestor limits list --output json writes them.
func readLimits(name string, text []byte) (all []wantedLimit, err error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if start := bytes.TrimSpace(text); len(start) > 0 && (start[0] == '[' || start[0] == '{') {
		all, err = readList(name, start)
	} else {
		all, err = readRows(name, text)
	}
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s has no limits", name)
	}
	return all, err
}

func readList(name string, text []byte) (all []wantedLimit, err error) {
	var limits []json.RawMessage
	if err := json.Unmarshal(text, &limits); err != nil {
		return nil, fmt.Errorf("%s: %w; write one list, as ingestor limits list --output json does", name, err)
	}
	for i, text := range limits {
		at := fmt.Sprintf("%s, limit %d", name, i+1)
		var one struct {
			quota.KeyLimit
			Quota *int64     `json:"quota"`
			Until *time.Time `json:"until"`
		}
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		err := d.Decode(&one)
		switch {
		case err != nil:
		case one.Quota == nil:
			err = errors.New("the quota is missing; 0 removes the limit")
		case one.By == quota.ByUpstream:
			err = errors.New("the upstream has reported it; leave it out")
		case one.Until != nil && one.Until.IsZero():
			err = errors.New("until has passed")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		k := wantedLimit{quota.KeyLimit{Family: one.Family, Key: one.Key, Quota: *one.Quota, Headroom: one.Headroom, Reason: one.Reason}, at}
		if one.Until != nil {
			k.Until = *one.Until
		}
		all = append(all, k)
	}
	return all, nil
}

// amountOf writes units of a limit for people.
func amountOf(family string, units int64) string {
	if family == quota.LimitsOfUpstream+book.Budgets {
		return book.FormatMoney(units)
	}
	return view.Number(units)
}

// quotaOf writes the quota of a limit for people, with the headroom if one was set with it.
func quotaOf(k *quota.KeyLimit) string {
	text := amountOf(k.Family, k.Quota)
	if k.Headroom != nil {
		text += ", " + amountOf(k.Family, *k.Headroom) + " of them kept free"
	}
	return text
}

// headroomOf reads what a limit leaves free of its quota: units, or a share as 5%. Nil is "".
func headroomOf(text string, of int64) (*int64, error) {
	if text == "" {
		return nil, nil
	}
	share, is := strings.CutSuffix(text, "%")
	if !is {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			err = fmt.Errorf("the headroom must be a whole number or a percentage, as 500 or 5%%, not %.40q", text)
		}
		return &n, err
	}
	percent, err := strconv.ParseUint(share, 10, 63)
	if err != nil || percent > 99 {
		return nil, fmt.Errorf("the headroom must be a whole percentage from 0%% to 99%%, not %.40q", text)
	}
	n := int64(percent)
	return new(max(min(of/100*n+(of%100*n+99)/100, of-1), 0)), nil
}

// readRows reads limits in CSV. Its first line names the columns.
func readRows(name string, text []byte) (all []wantedLimit, err error) {
	r := csv.NewReader(bytes.NewReader(text))
	r.TrimLeadingSpace = true
	columns, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	known := []string{"family", "key", "quota", "headroom", "until", "reason"}
	for i, column := range columns { // a cell may be a secret, if the first line is no header
		if columns[i] = strings.TrimSpace(column); !slices.Contains(known, columns[i]) || slices.Contains(columns[:i], columns[i]) {
			return nil, fmt.Errorf("%s:1: column %d has no name, or another one's; the first line names columns of %s, each once", name, i+1, strings.Join(known, ","))
		}
	}
	for _, needed := range known[:3] {
		if !slices.Contains(columns, needed) {
			return nil, fmt.Errorf("%s:1: the column %s is missing; the first line names columns of %s", name, needed, strings.Join(known, ","))
		}
	}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		line, _ := r.FieldPos(0)
		cells := map[string]string{}
		for i, text := range row {
			cells[columns[i]] = strings.TrimSpace(text)
		}
		k := wantedLimit{quota.KeyLimit{Family: cells["family"], Key: cells["key"], Reason: cells["reason"]}, fmt.Sprintf("%s:%d", name, line)}
		if text := cells["until"]; text != "" {
			if k.Until, err = view.ParseEnd(text); err != nil {
				return nil, fmt.Errorf("%s: until: %w", k.at, err)
			}
		}
		if k.Quota, err = view.ParseQuota(k.Family, cells["quota"]); err != nil {
			return nil, fmt.Errorf("%s: %w; 0 removes the limit", k.at, err)
		}
		if k.Headroom, err = headroomOf(cells["headroom"], k.Quota); err != nil {
			return nil, k.says(err)
		}
		all = append(all, k)
	}
}

// change sets limits, once all of them are known to be right, or says what they would do.
func (c *limitChange) change(a *session.Session, cmd *cobra.Command, all []wantedLimit) error {
	with := a.WithLedger
	if c.dry {
		with = a.WithLedgerToRead
	}
	return with(cmd, func(ctx context.Context, l *quota.Ledger) error { return c.make(ctx, a, l, all) })
}

func (c *limitChange) make(ctx context.Context, a *session.Session, l *quota.Ledger, all []wantedLimit) error {
	by := "ingestor"
	if u, err := user.Current(); err == nil {
		by = cmp.Or(u.Username, by)
	}
	admin, seen := l.Admin(), make(map[[2]string]string)
	if c.window != "" {
		var err error
		if all[0].Key, err = admin.WindowKey(all[0].Family, all[0].Key, c.window); err != nil {
			return console.BadUsage(err)
		}
	}
	for i := range all {
		k := &all[i]
		if k.By = by; k.at == "" {
			break // SetLimit checks it
		}
		checked, err := admin.CheckLimit(k.KeyLimit)
		if err == nil {
			k.KeyLimit = checked
			if before := seen[[2]string{k.Family, k.Key}]; before != "" {
				err = fmt.Errorf("the same limit is at %s already", before)
			}
			seen[[2]string{k.Family, k.Key}] = k.at
		}
		if err != nil {
			return console.Usage("%w", k.says(err))
		}
	}
	if c.dry {
		trials, refused := make([]quota.LimitTrial, 0, len(all)), 0
		for _, k := range all {
			if k.removesNothing(ctx, admin) {
				continue
			}
			t, err := admin.TryLimit(ctx, k.KeyLimit)
			if err != nil {
				return console.BadUsage(k.says(err))
			}
			if t.Refused {
				refused++
			}
			trials = append(trials, t)
		}
		return a.Print(trials, func(s *console.Sheet) {
			console.List(s, console.Columns("family", "key", "window", ">used", ">limit now", ">limit then", "a call now"), trials, func(t *quota.LimitTrial) []string {
				now := "granted"
				if t.Refused {
					now = "refused"
				}
				return []string{console.Plain(t.Family), console.Plain(t.Key), t.Window, amountOf(t.Family, t.Used), amountOf(t.Family, t.Before), amountOf(t.Family, t.Limit), now}
			})
			s.Line("\nNothing is set. %d of %d keys would be refused now.", refused, len(trials))
		})
	}
	done := make([]quota.KeyLimit, 0, len(all))
	for _, k := range all {
		if k.removesNothing(ctx, admin) {
			continue
		}
		set, err := admin.SetLimit(ctx, k.KeyLimit)
		if err != nil && len(all) > 1 {
			err = fmt.Errorf("%w\n%d of %d limits are set; to set the others, give it the same limits again", err, len(done), len(all))
		}
		if err != nil {
			return console.BadUsage(k.says(err))
		}
		done = append(done, set)
	}
	if len(all) == 1 && all[0].at == "" {
		return a.Print(done[0], func(s *console.Sheet) {
			if k := &done[0]; k.Quota == 0 {
				s.Line("removed the limit of %s %s; the price book's holds again", console.Plain(k.Family), console.Plain(k.Key))
				return
			}
			writeLimits(s, done)
		})
	}
	return a.Print(done, func(s *console.Sheet) { s.Line("set or removed %s", verdict.Count(int64(len(done)), "limit")) })
}

// removesNothing reports whether a file would remove a limit that nobody has set.
func (k *wantedLimit) removesNothing(ctx context.Context, admin quota.Admin) bool {
	if k.at == "" || k.Quota > 0 {
		return false
	}
	was, err := admin.KeyLimit(ctx, k.Family, k.Key)
	return err == nil && (was == nil || was.Quota == 0)
}

// says returns an error with the place of its limit.
func (k *wantedLimit) says(err error) error {
	if k.at == "" {
		return err
	}
	return fmt.Errorf("%s: %w", k.at, err)
}
