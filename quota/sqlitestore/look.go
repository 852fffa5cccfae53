package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// Look implements [quota.Store].
func (s *Store) Look(ctx context.Context, charges []quota.Charge) (states []quota.PageState, err error) {
	var found []*pool
	err = s.view(ctx, func(v *sql.Tx) error {
		now := s.clock.Now()
		states, found = make([]quota.PageState, len(charges)), nil
		for i := range charges {
			var p *pool
			if states[i], p, err = s.look(ctx, v, now, &charges[i]); err != nil {
				return err
			}
			found = append(found, p)
		}
		return nil
	})
	if err == nil {
		err = s.rememberOutside(ctx, found)
	}
	if err != nil {
		return nil, err
	}
	return states, nil
}

func (s *Store) look(ctx context.Context, v *sql.Tx, now time.Time, c *quota.Charge) (state quota.PageState, p *pool, err error) {
	if err := s.checkFamily(c.Pool); err != nil {
		return state, nil, err
	}
	st, name, columns := pageFind, c.Pool.Name, 8
	if c.Pool.Key != "" {
		st, name, columns = memberFind, c.Pool.Key, 3
	}
	text, err := st.text()
	if err != nil {
		return state, nil, err
	}
	got, into := make([]any, columns), make([]any, columns)
	for i := range got {
		into[i] = &got[i]
	}
	p = &pool{pool: c.Pool}
	r := make(row, columns)
	err = v.QueryRowContext(ctx, text, c.Pool.Upstream, c.Pool.Account, name).Scan(into...)
	for i, value := range got {
		r[i] = value
	}
	switch {
	case errors.Is(err, sql.ErrNoRows): // a member that is not there
		err = nil
	case err != nil:
		return state, nil, err
	case c.Pool.Key != "":
		p.page, err = s.unpack(c.Pool, r.blob(1))
	default:
		p, err = s.found(c.Pool, window.At(now), false, r)
	}
	if err != nil {
		return state, nil, err
	}
	state, err = quota.Describe(now, c, p.page)
	if err == nil && !state.Blocked.IsZero() {
		state.Reason = p.reason
	}
	return state, p, err
}

// view reads in one transaction, which sees the file as it was when it began.
func (s *Store) view(ctx context.Context, do func(*sql.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p := sqlitefile.NewPatience(ctx, s.path, s.wait)
	defer p.End()
	err := p.Retry(func() error {
		v, err := s.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return err
		}
		return errors.Join(do(v), v.Rollback())
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := moved(s.file.Check()); err != nil {
		return err
	}
	if sqlitefile.Code(err) != 0 {
		return s.fault("read", err)
	}
	return err
}

// Spend implements [quota.Store].
func (s *Store) Spend(ctx context.Context, q quota.SpendQuery) (all []quota.Spent, err error) {
	err = s.view(ctx, func(v *sql.Tx) error {
		all, err = s.spend(ctx, v, q)
		return err
	})
	if err != nil {
		return nil, err
	}
	quota.SortSpent(all)
	return all, nil
}

func (s *Store) spend(ctx context.Context, v *sql.Tx, q quota.SpendQuery) (_ []quota.Spent, err error) {
	text, err := spendSum.text()
	if err != nil {
		return nil, err
	}
	from, to := spendDays(window.At(s.clock.Now()), q)
	rows, err := v.QueryContext(ctx, text, q.Upstream, q.Account, from, to)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	f := fold{sets: make(map[poolDay]int)}
	zones := make(map[string]*time.Location)
	for rows.Next() {
		var zone string
		one := quota.Spent{Pool: quota.Pool{Upstream: q.Upstream, Account: q.Account}}
		l := &one.Labels
		err := rows.Scan(&one.Pool.Name, &zone, &one.Day, &l.Method, &l.Job, &l.Region, &l.Class, &l.Reason, &one.Units, &one.Calls)
		if err != nil {
			return nil, err
		}
		if zones[zone] == nil {
			if zones[zone], err = time.LoadLocation(zone); err != nil {
				return nil, fmt.Errorf("read spend of %s: %w", one.Pool, err)
			}
		}
		if q.Covers(one.Day, zones[zone]) {
			f.add(one)
		}
	}
	return f.all, rows.Err()
}

// spendDays bounds the days that a query asks for, whatever the zone. Days that
// are being pruned are not shown: they would be incomplete.
func spendDays(now window.Instant, q quota.SpendQuery) (from, to string) {
	from, to = quota.DayName(now.Add(-shownFor), nil), "9999-99-99"
	if !q.Since.IsZero() {
		from = max(from, quota.DayName(window.At(q.Since).Add(-24*time.Hour), nil))
	}
	if !q.Until.IsZero() {
		to = quota.DayName(window.At(q.Until).Add(24*time.Hour), nil)
	}
	return from, to
}

// fold puts sets of labels beyond the most that are told apart into one.
type fold struct {
	all   []quota.Spent
	sets  map[poolDay]int // told apart so far
	other map[poolDay]int // where the others are in all
}

type poolDay struct{ pool, day string }

// add takes sums in the order in which their sets of labels were first seen.
func (f *fold) add(s quota.Spent) {
	key := poolDay{s.Pool.Name, s.Day}
	f.sets[key]++
	if f.sets[key] > quota.MaxSpendLabels {
		s.Labels = quota.OtherLabels
	}
	switch i, ok := f.other[key]; {
	case s.Units == 0 && s.Calls == 0: // all of it was released
		return
	case s.Labels != quota.OtherLabels:
	case ok:
		f.all[i].Units += s.Units
		f.all[i].Calls += s.Calls
		return
	default:
		if f.other == nil {
			f.other = make(map[poolDay]int)
		}
		f.other[key] = len(f.all)
	}
	f.all = append(f.all, s)
}
