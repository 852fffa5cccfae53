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
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// limitChange is how limits are set or removed.
type limitChange struct {
	reason, until, duration, file string
	dry                           bool
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
		if at, err = time.Parse(time.RFC3339, until); err != nil {
			return at, console.Usage("--until: %q is not a time; write it as 2026-11-22T08:00:00Z", until)
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
		k := wantedLimit{quota.KeyLimit{Family: one.Family, Key: one.Key, Quota: *one.Quota, Reason: one.Reason}, at}
		if one.Until != nil {
			k.Until = *one.Until
		}
		all = append(all, k)
	}
	return all, nil
}

// parseQuota reads the quota of a limit: units, or the amount of a budget.
func parseQuota(family, text string) (int64, error) {
	if text != "0" && strings.TrimPrefix(family, quota.LimitsOfUpstream) == book.Budgets {
		n, err := book.ParseMoney(text)
		if err != nil {
			return 0, fmt.Errorf("the quota %q %w", text, err)
		}
		return n, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the quota must be a whole number, as 6000, not %q", text)
	}
	return n, nil
}

// amountOf writes units of a limit for people.
func amountOf(family string, units int64) string {
	if family == quota.LimitsOfUpstream+book.Budgets {
		return book.FormatMoney(units)
	}
	return view.Number(units)
}

// readRows reads limits in CSV. Its first line names the columns.
func readRows(name string, text []byte) (all []wantedLimit, err error) {
	r := csv.NewReader(bytes.NewReader(text))
	r.TrimLeadingSpace = true
	columns, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	known := []string{"family", "key", "quota", "until", "reason"}
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
			if k.Until, err = time.Parse(time.RFC3339, text); err != nil || k.Until.IsZero() {
				return nil, fmt.Errorf("%s: until: %q is not a time; write it as 2026-11-22T08:00:00Z", k.at, text)
			}
		}
		if k.Quota, err = parseQuota(k.Family, cells["quota"]); err != nil {
			return nil, fmt.Errorf("%s: %w; 0 removes the limit", k.at, err)
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
