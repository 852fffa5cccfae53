package sqlitestore

import (
	"cmp"
	"context"
	"database/sql/driver"
	"math"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// Spend implements [pagestore.Backend]. The sums of old charges are kept: see [sums].
func (f *file) Spend(ctx context.Context, q quota.SpendQuery) ([]quota.Spent, error) {
	select {
	case f.sums.turn <- struct{}{}:
		defer func() { <-f.sums.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	t, err := f.view(ctx)
	if err != nil {
		return nil, err
	}
	t.Within(ctx)
	all, err := f.spend(t, q)
	return all, t.End(err)
}

func (f *file) spend(t *tx, q quota.SpendQuery) ([]quota.Spent, error) {
	pools := map[int64]pool{}
	err := t.read("spend_pools", []driver.Value{q.Upstream, q.Account}, func(r sqlitefile.Row) error {
		pools[r.Int(0)] = pool{r.Text(1), r.Text(2)}
		return nil
	})
	if err != nil {
		return nil, err
	}
	shown, _ := storekit.SpendRange(window.At(t.now), quota.SpendQuery{})
	if err := f.sums.grow(t, shown); err != nil {
		return nil, err
	}
	from, to := storekit.SpendRange(window.At(t.now), q)
	rest, found := days{}, days{}
	err = t.add(rest, f.sums.upto+1, math.MaxInt64, math.MaxInt64, from, to)
	for _, n := range f.sums.young {
		err = cmp.Or(err, t.add(rest, n, n, math.MaxInt64, from, to))
	}
	if err != nil {
		return nil, err
	}
	for _, part := range []days{f.sums.days, rest} {
		for day, sums := range part {
			if day < from || day > to {
				continue
			}
			for k, one := range sums {
				if _, asked := pools[k.birth]; !asked {
					continue
				}
				if !q.Hours {
					k.hour = 0
				}
				found.add(day, k, one)
			}
		}
	}
	return found.fold(q, pools)
}

// pool is what the spend says of the pool of a charge.
type pool struct{ name, zone string }

// fold returns the sums as spend, in the order in which their labels were first used.
func (d days) fold(q quota.SpendQuery, pools map[int64]pool) ([]quota.Spent, error) {
	type dated struct {
		day string
		key sumKey
		sum
	}
	var all []dated
	for day, sums := range d {
		for k, one := range sums {
			all = append(all, dated{day, k, one})
		}
	}
	slices.SortFunc(all, func(a, b dated) int { return cmp.Compare(a.first, b.first) })
	var folded storekit.Fold
	for i := range all {
		s, of := &all[i], pools[all[i].key.birth]
		one := quota.Spent{
			Pool: quota.Pool{Upstream: q.Upstream, Account: q.Account, Name: of.name}, Day: s.day, Labels: s.key.labels,
			Units: int64(min(s.units, window.MaxUnits)), Calls: s.calls,
		}
		if q.Hours {
			one.Hour = window.Instant(s.key.hour).Time().UTC()
		}
		if err := folded.Add(q, one, of.zone); err != nil {
			return nil, err
		}
	}
	return folded.Spend(), nil
}

// sums are the spend of the charges that cannot change any more, by the hour, so that a
// reader adds up only the charges since. The file holds no sums, because each reservation
// would have to write them.
//
// A charge changes while its receipt lives, by the clock of who settles it, and is deleted
// only after its day is no longer shown. So sums are of charges that were made [settled] ago,
// in the order of their numbers, but for a few younger ones: a call that takes hours renews
// its receipt, and a clock may have been ahead. Should the clock step back
// further than that, old charges could change again: the sums are then forgotten. They are
// also made again now and then, for those that were young, and for what nobody thinks of,
// such as a person who deletes rows.
//
// One caller at a time uses them, in one of the sessions that read. The others are left to
// those who look at the pools.
type sums struct {
	turn  chan struct{} // held by the caller
	days  days
	size  int     // the number of sums
	upto  int64   // charges up to this number are counted
	last  charge  // of them
	young []int64 // numbers of those that are not counted

	begun, used time.Time

	most   int   // sums
	atOnce int64 // charges that a statement adds up
}

// charge tells whether the charges of a file are those that were counted.
type charge struct{ number, made int64 }

// days are sums by the day of the pool's calendar.
type days map[string]map[sumKey]sum

// sumKey tells sums of a day apart.
type sumKey struct {
	birth  int64 // of the pool
	hour   int64 // when it began, in microseconds; 0 is the whole day
	labels quota.Labels
}

// sum is of charges with the same key.
type sum struct {
	units float64 // exact up to window.MaxUnits, and never overflows
	calls int64
	first int64 // the lowest number of a charge
}

// add adds a sum. It reports whether it is the first with its key.
func (d days) add(day string, k sumKey, s sum) bool {
	if d[day] == nil {
		d[day] = map[sumKey]sum{}
	}
	old, known := d[day][k]
	if known {
		s = sum{old.units + s.units, old.calls + s.calls, min(old.first, s.first)}
	}
	d[day][k] = s
	return !known
}

func (d days) size() (n int) {
	for _, sums := range d {
		n += len(sums)
	}
	return n
}

const (
	// settled is the age from which charges no longer change, with room for a clock that
	// steps back a little.
	settled = 2 * quota.ReceiptLife
	// stepped is a step of the clock that the sums do not outlive.
	stepped = quota.ReceiptLife / 2
	// sumsLife is how old the sums may become.
	sumsLife = 6 * time.Hour
	// mostSums bounds their memory, to some 50 MB. Later charges are added up each time.
	mostSums = 200_000
	// summedAtOnce is how many charges one statement adds up. A reader that leaves loses only these.
	summedAtOnce = 20_000
	// mostYoung bounds the charges that are read one by one.
	mostYoung = 500
)

func newSums() *sums {
	return &sums{turn: make(chan struct{}, 1), days: days{}, most: mostSums, atOnce: summedAtOnce}
}

// forget forgets the sums if they may be wrong, and those of days before one.
func (s *sums) forget(t *tx, before string) error {
	last, err := t.charge(s.upto)
	if err != nil {
		return err
	}
	// By the monotonic clock of this machine, if the clock has it, Sub is the time that passed.
	moved := t.now.Round(0).Sub(s.used.Round(0)) - t.now.Sub(s.used)
	age := t.now.Round(0).Sub(s.begun.Round(0))
	if last != s.last || t.now.Round(0).Before(s.used.Round(0)) || moved.Abs() > stepped || age > sumsLife {
		*s = sums{turn: s.turn, days: days{}, begun: t.now, most: s.most, atOnce: s.atOnce}
	}
	s.used = t.now
	for day, all := range s.days {
		if day < before {
			s.size -= len(all)
			delete(s.days, day)
		}
	}
	return nil
}

// grow adds the charges that can no longer change, of days that are shown.
func (s *sums) grow(t *tx, shown string) error {
	if err := s.forget(t, shown); err != nil {
		return err
	}
	old := int64(window.At(t.now.Add(-settled)))
	end, err := t.one("spend_old", s.upto, old)
	for err == nil && end != nil && s.upto < end.Int(0) {
		next, young, part := min(s.upto+s.atOnce, end.Int(0)), s.young, days{}
		last, failed := t.charge(next)
		err = cmp.Or(failed, t.read("spend_young", []driver.Value{s.upto + 1, next, old, int64(mostYoung + 1)}, func(r sqlitefile.Row) error {
			young = append(young, r.Int(0))
			return nil
		}), t.add(part, s.upto+1, next, old, "0", "9999-99-99"))
		if err != nil || len(young) > mostYoung || s.size+part.size() > s.most {
			break
		}
		for day, sums := range part {
			for k, one := range sums {
				if s.days.add(day, k, one) {
					s.size++
				}
			}
		}
		s.upto, s.last, s.young = next, last, young
	}
	return err
}

// charge returns the last charge up to a number.
func (t *tx) charge(number int64) (c charge, err error) {
	r, err := t.one("spend_last", number)
	if err == nil && r != nil {
		c = charge{r.Int(0), r.Int(1)}
	}
	return c, err
}

// add adds up charges of some numbers and days that were made until a time.
func (t *tx) add(to days, first, last, made int64, from, until string) error {
	return t.read("spend", []driver.Value{first, last, made, from, until}, func(r sqlitefile.Row) error {
		units, _ := r[8].(float64)
		to.add(r.Text(1), sumKey{r.Int(0), r.Int(2), quota.Labels{Method: r.Text(3), Job: r.Text(4), Region: r.Text(5), Class: r.Text(6), Reason: r.Text(7)}}, sum{units, r.Int(9), r.Int(10)})
		return nil
	})
}
