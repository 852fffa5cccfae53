package month

import (
	"net/http"
	"sort"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// oracle is what a ledger would be that knows the instant of every unit: a list of
// them, and a look at the calendar, without buckets, lag or a line of package
// quota's arithmetic. It grants whatever fits, in the order that it is asked.
type oracle struct {
	clock *quota.SimClock
	next  http.RoundTripper
	spent map[string]instants // by pool
}

// instants are when units were spent, in order.
type instants []time.Time

// after counts those after an instant.
func (i instants) after(at time.Time) int {
	return len(i) - sort.Search(len(i), func(n int) bool { return i[n].After(at) })
}

// RoundTrip implements [http.RoundTripper].
func (o *oracle) RoundTrip(r *http.Request) (*http.Response, error) {
	work, now := workOf(r.Context()), o.clock.Now()
	y, m, d := now.In(pacific).Date()
	midnight := time.Date(y, m, d, 0, 0, 0, 0, pacific)

	// the built-in price book's limits; a backfill leaves 30% of them free
	day, guard := 9500, 2000
	switch {
	case work.pool() == "searches":
		day, guard = 95, 20
	case work.class == "backfill":
		day, guard = 9500-2850, 2000-600
	}
	spent := o.spent[work.pool()]
	if spent.after(now.Add(-24*time.Hour)) >= day || spent.after(midnight.Add(-1)) >= day || spent.after(now.Add(-10*time.Minute)) >= guard {
		return nil, quota.ErrRefused
	}
	o.spent[work.pool()] = append(spent, now)
	return o.next.RoundTrip(r)
}
