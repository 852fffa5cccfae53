package redisstore

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// spendDays is the number of days that Spend reads.
const spendDays = storekit.SpendDays + 6

// zones remembers what ends the names of the hours of pools.
type zones struct {
	sync.RWMutex
	marks map[zoneOf]string
}

type zoneOf struct {
	tag, pool string
	zone      *time.Location
}

// markHours finds what ends the names of the hours in which the spend of each charge is
// counted. An hour of a day is another one in another zone. So only those of the pool's
// first zone have plain names.
func (a *ask) markHours(ctx context.Context) error {
	if a.noSpend || a.days != nil || a.kept {
		return nil
	}
	for i := range a.charges {
		c := &a.charges[i]
		z := &a.store.zones
		z.RLock()
		mark, known := z.marks[zoneOf{a.tag, c.Pool.Name, c.Zone}]
		z.RUnlock()
		if !known && !a.slot(i) {
			first, err := a.store.text(ctx, "hget", poolsKey(a.tag), field(c.Pool.Name))
			if err != nil {
				return err
			}
			if name := zoneName(c.Zone); first != "" && first != name {
				mark = ":" + name
			}
			a.unlisted = append(a.unlisted, i)
		}
		if mark != "" {
			if a.marks == nil {
				a.marks = make([]string, len(a.charges))
			}
			a.marks[i] = mark
		}
	}
	return nil
}

func (a *ask) mark(i int) string {
	if a.marks == nil {
		return ""
	}
	return a.marks[i]
}

// listZones lists the zones of pools that this process has charged for the first time.
// Scripts list a pool only when they make its page, and a block may have made that. If it
// fails, the next charge tries again.
func (a *ask) listZones(ctx context.Context) {
	for _, i := range a.unlisted {
		c, mark := &a.charges[i], a.mark(i)
		if _, err := a.store.number(ctx, "hsetnx", poolsKey(a.tag), field(c.Pool.Name)+mark, zoneName(c.Zone)); err != nil {
			return
		}
		z := &a.store.zones
		z.Lock()
		if z.marks == nil {
			z.marks = make(map[zoneOf]string)
		}
		z.marks[zoneOf{a.tag, c.Pool.Name, c.Zone}] = mark
		z.Unlock()
	}
}

func zoneName(zone *time.Location) string {
	if zone == nil {
		return "UTC"
	}
	return zone.String()
}

// Spend implements [quota.Store].
func (s *Store) Spend(ctx context.Context, q quota.SpendQuery) ([]quota.Spent, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if err := q.Check(); err != nil {
		return nil, err
	}
	tag := s.tag(quota.Pool{Upstream: q.Upstream, Account: q.Account})
	zones, err := value(ctx, s, redis.NewMapStringStringCmd(ctx, "hgetall", poolsKey(tag)))
	if err != nil {
		return nil, err
	}
	now, err := s.serverTime(ctx)
	if err != nil {
		return nil, err
	}
	var rows []quota.Spent // with their pools, days and hours
	var cmds []redis.Cmder
	for field, zone := range zones {
		name, mark, marked := strings.Cut(field, ":")
		pool := poolOf(name)
		if marked {
			mark = ":" + mark
		}
		location, err := time.LoadLocation(zone)
		if err != nil {
			return nil, err
		}
		for _, day := range daysBack(now, location) {
			if !storekit.Covers(q, day, location) {
				continue
			}
			for _, name := range storekit.Hours(day) {
				like := quota.Spent{Pool: quota.Pool{Upstream: q.Upstream, Account: q.Account, Name: pool}}
				if like, asked := storekit.Named(like, name, location, q); asked {
					rows = append(rows, like)
					cmds = append(cmds, redis.NewMapStringStringCmd(ctx, "hgetall", spendKey(tag, pool, name+mark)))
				}
			}
		}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	if err := s.doAll(ctx, cmds); err != nil {
		return nil, err
	}
	var all []quota.Spent
	for i, like := range rows {
		all = append(all, readSpend(like, cmds[i].(*redis.MapStringStringCmd).Val())...)
	}
	all = storekit.Sum(all)
	slices.SortFunc(all, quota.Spent.Compare)
	return all, nil
}

// readSpend reads an hour's hash: a field of units and one of calls for each set of
// labels.
func readSpend(like quota.Spent, fields map[string]string) []quota.Spent {
	var all []quota.Spent
	for field, units := range fields {
		labels, ok := strings.CutPrefix(field, "u")
		if !ok {
			continue
		}
		like.Labels, like.Units, like.Calls = splitLabels(labels), number(units), number(fields["c"+labels])
		all = append(all, like)
	}
	return all
}

// daysBack returns the names of the days of a zone, from tomorrow back, by the server's
// clock.
func daysBack(now time.Time, zone *time.Location) []string {
	at := window.At(now)
	_, next := storekit.DayOf(at, zone)
	days := []string{storekit.DayName(next, zone)}
	for range spendDays {
		days = append(days, storekit.DayName(at, zone))
		start, _ := storekit.DayOf(at, zone)
		at = start - 1
	}
	return slices.Compact(days)
}

// serverTime returns the time of the server, whose clock decides.
func (s *Store) serverTime(ctx context.Context) (time.Time, error) {
	if s.testClock != nil {
		return s.testClock(), nil
	}
	return value(ctx, s, redis.NewTimeCmd(ctx, "time"))
}

// number reads a field of a hash that only scripts write.
func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
