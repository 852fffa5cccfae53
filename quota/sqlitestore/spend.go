package sqlitestore

import (
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// day caches the day of the last charge in a pool's calendar. The next charge usually has the
// same day.
type day struct {
	start, end window.Instant
	zone       *time.Location
	name       string
}

func (d *day) of(at window.Instant, zone *time.Location) string {
	if d.name == "" || at < d.start || at >= d.end || zone != d.zone {
		start, end := storekit.DayOf(at, zone)
		*d = day{start, end, zone, storekit.DayName(at, zone)}
	}
	return d.name
}

// Spend implements [pagestore.Backend].
func (f *file) Spend(ctx context.Context, q quota.SpendQuery) ([]quota.Spent, error) {
	t, err := f.view(ctx)
	if err != nil {
		return nil, err
	}
	from, to := spendDays(window.At(t.now), q)
	sums := fold{sets: make(map[poolTime]int)}
	zones := make(map[string]*time.Location)
	err = t.read("spend", []driver.Value{q.Upstream, q.Account, from, to, q.Hours}, func(r sqlitefile.Row) (err error) {
		one := quota.Spent{
			Pool: quota.Pool{Upstream: q.Upstream, Account: q.Account, Name: r.Text(0)}, Day: r.Text(2),
			Labels: quota.Labels{Method: r.Text(3), Job: r.Text(4), Region: r.Text(5), Class: r.Text(6), Reason: r.Text(7)},
			Units:  r.Int(8), Calls: r.Int(9),
		}
		if q.Hours {
			one.Hour = window.Instant(r.Int(10)).Time().UTC()
		}
		zone := r.Text(1)
		if zones[zone] == nil {
			if zones[zone], err = time.LoadLocation(zone); err != nil {
				return fmt.Errorf("spend of %s: %w", one.Pool, err)
			}
		}
		if storekit.Covers(q, one.Day, zones[zone]) && (!q.Hours || one.Hour.Add(time.Hour).After(q.Since)) {
			sums.add(one)
		}
		return nil
	})
	return sums.all, t.End(err)
}

// spendDays returns the first and the last day of a query in any zone. It leaves out days
// that are being pruned, because they are incomplete.
func spendDays(now window.Instant, q quota.SpendQuery) (from, to string) {
	from, to = storekit.DayName(now.Add(-shownFor), nil), "9999-99-99"
	if !q.Since.IsZero() {
		from = max(from, storekit.DayName(window.At(q.Since).Add(-24*time.Hour), nil))
	}
	if !q.Until.IsZero() {
		to = storekit.DayName(window.At(q.Until).Add(24*time.Hour), nil)
	}
	return from, to
}

// fold merges sets of labels above [quota.MaxSpendLabels] into one.
type fold struct {
	all   []quota.Spent
	sets  map[poolTime]int // number of sets so far
	other map[poolTime]int // index of the merged set in all
}

type poolTime struct {
	pool, day string
	hour      time.Time
}

// add adds sums in the order in which their labels were first used.
func (f *fold) add(s quota.Spent) {
	key := poolTime{s.Pool.Name, s.Day, s.Hour}
	f.sets[key]++
	if f.sets[key] > storekit.MaxSpendLabels {
		s.Labels = quota.OtherLabels
	}
	switch i, ok := f.other[key]; {
	case s.Units == 0 && s.Calls == 0: // all charges were released
		return
	case s.Labels != quota.OtherLabels:
	case ok:
		f.all[i].Units = min(f.all[i].Units+s.Units, window.MaxUnits)
		f.all[i].Calls += s.Calls
		return
	default:
		if f.other == nil {
			f.other = make(map[poolTime]int)
		}
		f.other[key] = len(f.all)
	}
	f.all = append(f.all, s)
}
