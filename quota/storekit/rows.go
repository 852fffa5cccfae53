package storekit

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// The rest of this file is for stores with a row for each charge, in a database that people read.

const (
	// KeptFor is the time for which such a store keeps charges: the promised days and the
	// days around them in every zone.
	KeptFor = (SpendDays + 6) * 24 * time.Hour
	// shownFor is two days less, so that every shown day is complete.
	shownFor = KeptFor - 2*24*time.Hour
)

// Today caches the day of the last charge in a pool's calendar. The next charge usually has
// the same day. The zero value is ready for use.
type Today struct {
	start, end window.Instant
	zone       *time.Location
	name       string
}

// Of returns the name of the day that an instant falls in; see [DayName].
func (d *Today) Of(at window.Instant, zone *time.Location) string {
	if d.name == "" || at < d.start || at >= d.end || zone != d.zone {
		start, end := DayOf(at, zone)
		*d = Today{start, end, zone, DayName(at, zone)}
	}
	return d.name
}

// SpendRange returns the first and the last day of a query in any zone. It leaves out days
// that are being deleted, because they are incomplete.
func SpendRange(now window.Instant, q quota.SpendQuery) (from, to string) {
	from, to = DayName(now.Add(-shownFor), nil), "9999-99-99"
	if !q.Since.IsZero() {
		from = max(from, DayName(window.At(q.Since).Add(-24*time.Hour), nil))
	}
	if !q.Until.IsZero() {
		to = DayName(window.At(q.Until).Add(24*time.Hour), nil)
	}
	return from, to
}

// Fold collects the sums of a query. It merges sets of labels above [MaxSpendLabels] into
// one, also while it collects them: a database may have any number. The zero value is ready for use.
type Fold struct {
	all   []quota.Spent
	most  int              // at how many they are summed
	sets  map[poolTime]int // number of sets so far
	zones map[string]*time.Location
}

type poolTime struct {
	pool, day string
	hour      time.Time
}

// Add adds sums in the order in which their labels were first used, unless the query does
// not cover their day in the zone of the pool, or their hour.
func (f *Fold) Add(q quota.SpendQuery, s quota.Spent, zone string) (err error) {
	if f.zones == nil {
		f.zones, f.sets = make(map[string]*time.Location), make(map[poolTime]int)
	}
	if f.zones[zone] == nil {
		if f.zones[zone], err = time.LoadLocation(zone); err != nil {
			return fmt.Errorf("spend of %s: %w", s.Pool, err)
		}
	}
	if Covers(q, s.Day, f.zones[zone]) && (!q.Hours || s.Hour.Add(time.Hour).After(q.Since)) {
		key := poolTime{s.Pool.Name, s.Day, s.Hour}
		if f.sets[key]++; f.sets[key] > MaxSpendLabels {
			s.Labels = quota.OtherLabels
		}
		if len(f.all) >= max(f.most, MaxSpendLabels) {
			f.all = Sum(f.all)
			f.most = 2 * len(f.all)
		}
		f.all = append(f.all, s)
	}
	return nil
}

// Spend returns the sums.
func (f *Fold) Spend() []quota.Spent { return Sum(f.all) }

// ZoneName returns the name of a zone in a database; "" is UTC.
func ZoneName(zone *time.Location) string {
	if zone == nil || zone == time.UTC {
		return ""
	}
	return zone.String()
}

// WindowNames returns the names of windows for people, such as "24h, day UTC".
func WindowNames(windows []window.Limit) string {
	names := make([]string, len(windows))
	for i, w := range windows {
		names[i] = w.Name
	}
	return strings.Join(names, ", ")
}

// UsedText returns the used units of windows for people, such as "120, 80".
func UsedText(page *window.Page) string {
	var b []byte
	for i, w := range page.Windows() {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = strconv.AppendInt(b, w.Used(page.Latest), 10)
	}
	return string(b)
}
