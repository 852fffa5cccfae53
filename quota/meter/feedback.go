package meter

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/internal/content"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// report is how one report of an upstream is read: the index of each source, or -1.
type report struct {
	of                                        *book.Feedback
	sources                                   *content.Sources
	pool, limit, remaining, used, part, reset int
}

func newReports(u *book.Upstream) []*report {
	all := make([]*report, len(u.Feedback))
	for i := range u.Feedback {
		f := &u.Feedback[i]
		var sources []*book.Source
		add := func(s *book.Source) int {
			if s == nil {
				return -1
			}
			sources = append(sources, s)
			return len(sources) - 1
		}
		r := &report{of: f, pool: add(f.Pool.From), limit: add(f.Limit), remaining: add(f.Remaining), used: add(f.Used), part: add(f.UsedPercent), reset: -1}
		if f.Reset != nil {
			r.reset = add(&f.Reset.Source)
		}
		r.sources = content.NewSources(sources...)
		all[i] = r
	}
	return all
}

// readFeedback reads what an answer reports about limits in its header, and returns the watchers
// that read its body.
func (c *call) readFeedback(resp *http.Response) (later []watcher) {
	if len(c.reports) == 0 {
		return nil
	}
	came := quota.SystemClock{}.Now()
	for _, r := range c.reports {
		if r.of.Standard {
			c.observeStandard(resp, came)
			continue
		}
		length := lengthOf(resp)
		reading := r.sources.Read(content.Message{Header: resp.Header, Length: length})
		if !r.sources.NeedsBody(length) || length == 0 {
			c.observe(resp, came, r, reading)
			continue
		}
		later = append(later, &reported{c, resp, came, r, reading})
	}
	return later
}

// reported is a report that stands in the body of an answer.
type reported struct {
	c       *call
	resp    *http.Response
	came    time.Time // when its header came
	report  *report
	reading *content.Reading
}

func (r *reported) saw(p []byte) { _, _ = r.reading.Write(p) }

func (r *reported) ended(eof bool) {
	r.reading.End(eof)
	r.c.observe(r.resp, r.came, r.report, r.reading)
}

// observe reads what an answer reports. A report about a pool whose price depends on the
// answer waits until the call is settled: what the call costs beyond its estimate would
// seem to be spent by others.
func (c *call) observe(resp *http.Response, came time.Time, r *report, values *content.Reading) {
	name := r.of.Pool.Name
	if r.pool >= 0 {
		text, _ := values.Text(r.pool)
		if name = r.of.Pool.Pool(c.upstream, text); name == "" {
			return // a limit that the book does not know
		}
	}
	o := quota.Observation{
		Pool: c.pool(name), Per: r.of.Per, Refills: r.of.Refills,
		Remaining: number(values, r.remaining, r.of.Remaining, math.Floor), Used: number(values, r.used, r.of.Used, math.Ceil),
		UsedPercent: number(values, r.part, r.of.UsedPercent, math.Ceil),
	}
	if limit := number(values, r.limit, r.of.Limit, math.Floor); limit != nil {
		o.Limit = *limit
	}
	if r.reset >= 0 {
		if text, ok := values.Text(r.reset); ok {
			if until, wait, ok := content.Time(r.of.Reset.As, text); ok {
				o.Reset, o.ResetIn = until, wait
			}
		}
	}
	c.report(resp, came, o)
}

func (c *call) observeStandard(resp *http.Response, came time.Time) {
	var charged map[string]int64
	if c.method != nil {
		charged = c.method.Charges
	}
	for _, l := range content.Limits(resp.Header) {
		name, w := l.In(c.upstream, charged)
		if name == "" {
			continue // a limit that the book does not know
		}
		c.report(resp, came, quota.Observation{
			Pool: c.pool(name), Per: w.Length(), Limit: l.Quota, Remaining: l.Remaining, ResetIn: l.Reset, Refills: w.Drains(),
		})
	}
}

// report tells the ledger what an answer reports, when the call is settled if it must be.
func (c *call) report(resp *http.Response, came time.Time, o quota.Observation) {
	name := o.Pool.Name
	if pool := c.upstream.Pools[name]; pool != nil && pool.By != nil && c.keys[name] == "" {
		return // of an unknown key
	}
	if o.Remaining == nil && o.Used == nil && o.UsedPercent == nil && o.Limit == 0 {
		return
	}
	o.Date, _ = dateOf(resp)
	c.hasRoom(&o)
	tell := func() {
		if c.t.owed.has(c.upstream.Name, c.account) {
			return // our own late units would seem to be those of others; the next answer says it again
		}
		o.Age = quota.SystemClock{}.Now().Sub(came).Truncate(time.Second)
		c.tell(o)
	}
	if c.content != nil && c.method.Prices[name] != nil && !streams(resp) {
		c.content.settling.then(tell)
	} else {
		tell()
	}
}

// fewLeft is which part of a limit is so little that it may explain a refusal: a 32nd.
const fewLeft = 32

// hasRoom notes whether a window is far from used up. If only a few units are left, the call may have cost more.
func (c *call) hasRoom(o *quota.Observation) {
	limit, left := o.Limit, int64(0)
	if p := c.upstream.Pools[o.Pool.Name]; limit == 0 && p != nil {
		for _, w := range p.Windows {
			limit = max(limit, w.Quota)
		}
	}
	switch {
	case o.Remaining != nil:
		left = *o.Remaining
	case o.Used != nil:
		left = limit - *o.Used
	}
	c.room.Lock()
	defer c.room.Unlock()
	if c.roomy == nil {
		c.roomy = make(map[string]int)
	}
	if left >= max(2*c.charges()[o.Pool.Name], limit/fewLeft, 2) {
		c.roomy[o.Pool.Name]++
		return
	}
	c.roomy[o.Pool.Name] -= mostWindows
	if o.Remaining != nil || o.Used != nil || o.UsedPercent != nil && *o.UsedPercent >= 100 {
		c.spent = append(c.spent, o.Pool.Name)
	}
}

// usedUp reports whether the answer tells that a window of a pool has hardly any units left.
func (c *call) usedUp(pool string) bool {
	c.room.Lock()
	defer c.room.Unlock()
	return slices.Contains(c.spent, pool)
}

// mostWindows is more than a pool has.
const mostWindows = 1000

// hasRoomIn reports whether the answer tells that all windows of a pool are far from used up.
func (c *call) hasRoomIn(p *book.Pool) bool {
	c.room.Lock()
	defer c.room.Unlock()
	return p != nil && len(p.Windows) > 0 && c.roomy[p.Name] >= len(p.Windows)
}

// streams reports whether an answer comes in pieces over a long time. Its feedback is too old
// when its call is settled.
func streams(resp *http.Response) bool {
	return strings.HasPrefix(strings.ToLower(resp.Header.Get("Content-Type")), "text/event-stream")
}

func (c *call) tell(o quota.Observation) {
	seen, err := c.t.ledger.Observe(context.WithoutCancel(c.context()), o)
	switch {
	case err != nil:
		c.log(slog.LevelWarn, "report not understood", slog.String("pool", o.Pool.String()), slog.String("error", err.Error()))
	case seen.Limit != 0:
		c.log(slog.LevelWarn, "the upstream reports another limit than the price book", slog.String("pool", o.Pool.String()),
			slog.Int64("limit", seen.Limit), slog.Int64("quota", seen.Quota), slog.Time("until", seen.Until))
	}
}

// number reads a number, or returns nil. A fraction is rounded so that less is left.
func number(values *content.Reading, i int, s *book.Source, round func(float64) float64) *int64 {
	if i < 0 {
		return nil
	}
	n, ok := values.Units(i)
	if !ok {
		return nil
	}
	if text, ok := values.Text(i); ok && s.Per <= 1 && s.Times <= 1 && s.Cases == nil && s.Split == "" {
		if f, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil && f != math.Trunc(f) && int64(math.Ceil(f)) == n {
			n = int64(round(f))
		}
	}
	return &n
}
