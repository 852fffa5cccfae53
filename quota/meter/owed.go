package meter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/internal/shell"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

const (
	mostOwed     = 4096
	mostNamed    = 20 // pools in a line of the log
	firstPause   = 250 * time.Millisecond
	longestPause = 15 * time.Second
)

// owed keeps the settlements that failed in an outage of the ledger, and tries them again until it
// answers. Otherwise the ledger would keep estimates whose costs are known.
type owed struct {
	turn chan struct{} // has the pass under way

	mu    sync.Mutex
	list  []*debt
	err   error // of the last one that failed
	late  int   // settled since the list was last empty
	pause time.Duration
	timer *time.Timer // until the next pass; nil: there is nothing to do
}

// debt is the settlement of one call. It does not keep the call, which may have a long body.
type debt struct {
	t       *Transport
	ctx     context.Context
	granted *quota.Reservation
	units   quota.Units // nil releases the call
	then    func()      // is called once, when the call is settled
	settled atomic.Bool // only slots are left

	attrs []slog.Attr // of the call
	kept  time.Time
	tries int
}

// place is what is usually out as a whole.
type place struct {
	upstream, account string
	billed            bool
}

func (d *debt) place() place {
	_, billed := d.granted.Bill()
	return place{d.granted.Pool.Upstream, d.granted.Pool.Account, billed}
}

// pay settles a call, and gives back its slots. It may be repeated until it succeeds.
func (d *debt) pay() (err error) {
	if !d.settled.Load() {
		if d.units == nil {
			_, err = d.granted.Release(d.ctx)
		} else {
			_, err = d.granted.Settle(d.ctx, d.units)
		}
		if err != nil {
			if _, forgot := errors.AsType[*quota.ForgottenError](err); forgot { // others can have the slots
				_ = d.granted.Done(d.ctx) // the ledger tries again by itself
			}
			return err
		}
		d.settled.Store(true)
		d.then()
	}
	return d.granted.Done(d.ctx)
}

// owe keeps a settlement that failed, or gives it up if the ledger was not out.
func (c *call) owe(d *debt, err error) {
	if d.attrs = c.attrs(); errors.Is(err, quota.ErrOutage) {
		c.t.owed.keep(d, err)
	} else {
		d.giveUp(err)
	}
}

func (d *debt) giveUp(err error) {
	if !d.settled.Load() {
		_ = d.granted.Done(d.ctx) // the ledger tries again by itself
	}
	d.t.logUnsettled([]*debt{d}, "call not settled", err)
}

func (o *owed) keep(d *debt, err error) {
	o.mu.Lock()
	n := len(o.list)
	if n < mostOwed {
		d.kept, o.err = quota.SystemClock{}.Now(), err
		o.list = append(o.list, d)
		if o.timer == nil {
			o.pause = firstPause
			o.timer = time.AfterFunc(o.pause, o.again)
		}
	}
	o.mu.Unlock()
	switch n {
	case 0:
		d.t.set.Logger.LogAttrs(d.ctx, slog.LevelWarn, "calls are not settled yet; the transport tries again until the ledger answers", slog.String("error", err.Error()))
	case mostOwed:
		d.giveUp(err)
	}
}

// has reports whether the ledger lacks what calls of an account have cost.
func (o *owed) has(upstream, account string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.list, func(d *debt) bool {
		return d.granted.Pool.Upstream == upstream && d.granted.Pool.Account == account
	})
}

func (o *owed) again() {
	o.pass(context.Background())
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.timer = nil; len(o.list) > 0 {
		o.pause = min(2*o.pause, longestPause)
		o.timer = time.AfterFunc(o.pause, o.again)
	}
}

// pass tries all once, but no more of a place after one that failed. That one comes last in the next pass.
func (o *owed) pass(ctx context.Context) {
	select {
	case o.turn <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-o.turn }()
	o.mu.Lock()
	todo := slices.Clone(o.list)
	o.mu.Unlock()
	slices.SortStableFunc(todo, func(a, b *debt) int { return a.tries - b.tries })
	failed := make(map[place]error)
	for _, d := range todo {
		if ctx.Err() != nil {
			return
		}
		err, out := failed[d.place()]
		if !out {
			d.tries++
			err = d.pay()
		}
		if errors.Is(err, quota.ErrOutage) && (quota.SystemClock{}).Now().Sub(d.kept) < quota.ReceiptLife {
			failed[d.place()] = err
			continue
		}
		if err != nil {
			d.giveUp(err)
		}
		o.drop(d, err)
	}
}

// drop takes a debt out of the list: it is paid, or is given up after an error.
func (o *owed) drop(d *debt, err error) {
	if late := o.dropped(d, err == nil); late > 0 { // the log may need the lock
		d.t.set.Logger.LogAttrs(d.ctx, slog.LevelInfo, "calls were settled late: the ledger answers again", slog.Int("calls", late))
	}
}

// dropped returns how many were paid since the list was last empty, if it is empty now.
func (o *owed) dropped(d *debt, paid bool) (late int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = slices.DeleteFunc(o.list, func(other *debt) bool { return other == d })
	if paid {
		o.late++
	}
	if len(o.list) > 0 {
		return 0
	}
	if late, o.late = o.late, 0; o.timer != nil && o.timer.Stop() {
		o.timer = nil
	}
	return late
}

// flush makes a pass at once. If calls are still not settled, it logs them, because the program may end now.
func (o *owed) flush(ctx context.Context) error {
	o.mu.Lock()
	n := len(o.list)
	o.mu.Unlock()
	if n == 0 {
		return nil
	}
	o.pass(ctx)
	o.mu.Lock()
	list, err := slices.Clone(o.list), o.err
	o.mu.Unlock()
	if len(list) == 0 {
		return nil
	}
	list[0].t.logUnsettled(list, "calls are still not settled: correct the ledger if the program ends now, and else wait", err)
	return &quota.OutageError{Op: fmt.Sprintf("settle the last calls (%d)", len(list)), Reason: "and they keep their estimates if the program ends now", Err: err}
}

// logUnsettled logs that the ledger's count of calls is wrong, and the commands that correct it. The
// callers got no error, but the answers of their calls.
func (t *Transport) logUnsettled(list []*debt, says string, err error) {
	attrs, missing := []slog.Attr{slog.Int("calls", len(list))}, make(map[quota.Pool]int64)
	if len(list) == 1 {
		attrs = slices.Clip(list[0].attrs)
	}
	for _, d := range list {
		if !d.settled.Load() {
			for pool, n := range d.granted.Missing(d.units) {
				missing[pool] += n
			}
		}
	}
	maps.DeleteFunc(missing, func(_ quota.Pool, n int64) bool { return n == 0 })
	var units, remedy []string
	for pool, n := range missing {
		amount, sign := fmt.Sprint(n), ""
		if pool.IsMoney() {
			amount = book.FormatMoney(n)
		}
		if n > 0 {
			sign = "+"
		}
		units = append(units, pool.String()+" "+sign+amount)
		remedy = append(remedy, fmt.Sprintf("ingestor quota adjust %s %s --reason 'not settled'%s", shell.Quote(pool.String()), shell.Quote(amount), t.ledger.Flag()))
		if len(units) == mostNamed {
			break
		}
	}
	attrs = append(attrs, slog.String("error", err.Error()))
	if units != nil {
		slices.Sort(units)
		slices.Sort(remedy)
		attrs = append(attrs, slog.String("missing", strings.Join(units, ", ")), slog.Int("pools", len(missing)), slog.String("remedy", strings.Join(remedy, "; ")))
	}
	t.set.Logger.LogAttrs(list[0].ctx, slog.LevelWarn, says, attrs...)
}
