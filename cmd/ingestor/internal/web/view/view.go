// Package view holds what people and programs see of a ledger and a catalog. The commands
// and the server show the same: a value becomes JSON for programs, and a [Table] for
// people.
//
// To add a column, add it to the columns of its list (feedColumns, runColumns and so on)
// and to the test of that table. If the value is new, add it to the type too, and to the
// schema in the server's openapi.json.
package view

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// Sources are the ledger, the catalog and the jobs to show.
type Sources struct {
	Ledger  *quota.Ledger
	Catalog Catalog
	Runner  *ingest.Runner // says how fresh regions are and when deferred work resumes; it never runs
	Jobs    []*ingest.Job
	Fleet   Fleet // nil if the catalog is a file
	// Counting is nil if nobody compares the ledger with the upstream's own count.
	Counting *Counting
}

// Catalog is the part of a catalog that pages, feeds and metrics use. A [catalog.Catalog]
// is one.
type Catalog interface {
	Cursors(ctx context.Context, job string) ([]catalog.Cursor, error)
	Runs(ctx context.Context, q catalog.RunsQuery) ([]catalog.RunRecord, error)
	Spent(ctx context.Context, since time.Time) (map[string]int64, error)
	Feeds(ctx context.Context) ([]catalog.Feed, error)
	Chart(ctx context.Context, region, category string) (catalog.Chart, error)
	Video(ctx context.Context, id string) (catalog.Video, error)
	Search(ctx context.Context, q catalog.Query) (catalog.Results, error)
	Refusals(ctx context.Context, since time.Time) ([]catalog.Refusal, error)
	AddRefusals(ctx context.Context, all []catalog.Refusal) error
	Days(ctx context.Context, pool, since string) ([]catalog.PoolDay, error)
	SaveDays(ctx context.Context, days []catalog.PoolDay) error
	Actions(ctx context.Context, limit int) ([]catalog.Action, error)
	Note(ctx context.Context, a *catalog.Action) error
	Reset(ctx context.Context, job, work string) error
	Slate(ctx context.Context, name string) (text string, version int64, err error)
	SetSlate(ctx context.Context, name, text string, version int64) (written bool, err error)
}

// Instant returns a time in UTC for JSON, or nil (null) for the zero time.
func Instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// Amount writes units of a pool, by its name: those of a budget as money, as 12.50 USD, or as none if nothing bounds them.
func Amount(pool string, units int64) string {
	switch {
	case !IsMoney(pool):
	case units == window.MaxUnits:
		return "none"
	default:
		return book.FormatMoney(units)
	}
	return Number(units)
}

// ParseAmount reads units of a pool: a whole number, or an amount if it is a budget, either of them with a sign.
func ParseAmount(pool, text string) (int64, error) {
	text = strings.TrimSpace(text)
	if !IsMoney(pool) {
		units, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, quota.BadInput("units must be a whole number, as 250 or -40, not %.40q", text)
		}
		return units, nil
	}
	amount, back := strings.CutPrefix(text, "-")
	units, err := book.ParseMoney(amount)
	if err != nil {
		return 0, quota.BadInput("%s is a budget, and %.40q %s", pool, text, err)
	}
	if back {
		units = -units
	}
	return units, nil
}

// ParseQuota reads the quota of a limit at run time of a family, or of an upstream's pool.
func ParseQuota(family, text string) (int64, error) {
	if strings.TrimPrefix(family, quota.LimitsOfUpstream) == book.Budgets && text != "0" {
		n, err := book.ParseMoney(text)
		if err != nil {
			return 0, quota.BadInput("the quota %.40q %s", text, err)
		}
		return n, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, quota.BadInput("the quota must be a whole number, as 6000, not %.40q", text)
	}
	return n, nil
}

// IsMoney reports whether a pool is a budget.
func IsMoney(pool string) bool { return strings.HasPrefix(pool, book.BudgetKey("")) }

// Units writes units of a pool with their word, as 12.50 USD or 250 units.
func Units(pool string, units int64) string {
	text := Amount(pool, units)
	switch {
	case IsMoney(pool):
		return text
	case units == 1:
		return text + " unit"
	}
	return text + " units"
}

// Number writes 1234567 as 1,234,567.
func Number(n int64) string {
	digits, sign := strconv.FormatInt(n, 10), ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// ParseSpan parses a duration, as [time.ParseDuration] does, and days, such as 7d.
func ParseSpan(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n < 100_000 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%.40q is not a duration; write it as 90s, 6h or 7d", text)
	}
	return d, nil
}

// ParseEnd parses a time at which something ends, in RFC 3339, or a day, which begins at midnight UTC.
func ParseEnd(text string) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil && !t.IsZero() {
			return t, nil
		}
	}
	return time.Time{}, quota.BadInput("%.40q is not a time; write a day as 2027-01-01, or a time as 2027-01-01T08:00:00Z", text)
}

// ParseMoment parses a day, a time in RFC 3339, or how long ago a time was, such as 7d.
func ParseMoment(text string, now time.Time) (time.Time, error) {
	if t, err := ParseEnd(text); err == nil {
		return t, nil
	}
	if d, err := ParseSpan(text); err == nil {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("%.40q is not a time; write a day as 2026-11-01, a time as 2026-11-01T12:00:00Z, or how long ago as 7d or 12h", text)
}

// Plain returns a text of others without what terminals and browsers obey: control
// characters, other than line breaks and tabs, and marks that change the direction of the
// text around them.
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r), r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069':
			return -1
		}
		return r
	}, text)
}

func clean(texts ...*string) {
	for _, text := range texts {
		*text = Plain(*text)
	}
}

// webAddress returns an address if it is one of http or https, else "": a browser would run
// others.
func webAddress(text string) string {
	if u, err := url.Parse(text); err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return Plain(text)
}

// PlainMarked is Plain for a marked text. It returns an empty list for nil, so that JSON
// has [] and not null.
func PlainMarked(m catalog.Marked) catalog.Marked {
	clean := make(catalog.Marked, 0, len(m))
	for _, part := range m {
		part.Text = Plain(part.Text)
		clean = append(clean, part)
	}
	return clean
}

// Counting says how the comparison with an upstream's own count goes. The zero value has
// compared nothing. It is safe for concurrent use.
type Counting struct {
	mu   sync.Mutex
	last CountState
}

// CountState is the outcome of the last comparison.
type CountState struct {
	Read   time.Time // when the count was last read and compared; zero: never
	Failed time.Time // when comparing began to fail; zero: the last comparison did not
	Err    error     // why, of the last comparison
}

// Counted notes the outcome of a comparison.
func (c *Counting) Counted(at time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.last.Err = err; {
	case err == nil:
		c.last = CountState{Read: at}
	case c.last.Failed.IsZero():
		c.last.Failed = at
	}
}

// State returns the outcome of the last comparison.
func (c *Counting) State() CountState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}
