package meter

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/internal/content"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// priced is a call whose cost depends on its content.
type priced struct {
	plan     *content.Plan // nil: only functions price it
	estimate quota.Units   // by pool; other pools have fixed prices
	rates    book.Case     // of its bill in money
	weights  content.Weights
	named    string // in the list of prices, if its rates may change while the call waits
	model    string // the case of the prices that has these rates
	cost     Cost   // of a function, or nil
	settling settling
}

// plans are the facts of all calls by one price book.
type plans struct {
	book     *quota.Book
	methods  map[*book.Method]*facts
	unpriced map[*book.Upstream]*facts // of calls without a price
}

// facts are what a price book says of a method and its upstream, worked out once.
type facts struct {
	plan    *content.Plan // what the content of a call decides; nil: nothing
	spared  *content.Plan // that of a call which spends no budget, whatever its content
	units   quota.Units   // by pool, if nothing is known of the call; slots are no units
	slots   time.Duration // the longest ttl of the slots that a call takes; 0: it takes none
	atEnd   bool          // the upstream counts a call when it ends
	fixed   bool          // what is reserved is right if the call was sent once, whatever the answer
	refused int           // the least status of an answer that may be a refusal, with 429
	reports []*report     // how answers are read
}

func (t *Transport) facts(costs *quota.Book, c *call) *facts {
	p := t.plans.Load()
	if p == nil || p.book != costs {
		p = t.newPlans(costs)
		t.plans.Store(p)
	}
	if c.method == nil {
		return p.unpriced[c.upstream]
	}
	return p.methods[c.method]
}

func (t *Transport) newPlans(costs *quota.Book) *plans {
	p := &plans{costs, map[*book.Method]*facts{}, map[*book.Upstream]*facts{}}
	for _, u := range costs.Upstreams {
		of := facts{fixed: true, refused: http.StatusTooManyRequests, reports: newReports(u)}
		for i := range u.Refusals {
			for _, status := range u.Refusals[i].Status {
				of.refused = min(of.refused, status)
			}
		}
		p.unpriced[u] = &of
		free := u.FailedFree || len(u.Free) > 0 || t.set.Price[u.Name] != nil || t.set.Actual[u.Name] != nil
		for _, methods := range []map[string]*book.Method{u.Methods, u.Default} {
			for _, m := range methods {
				f := of
				f.learn(u, m)
				f.fixed = !free && f.slots == 0 && f.plan == nil
				p.methods[m] = &f
			}
		}
	}
	return p
}

// learn adds what is true of one method.
func (f *facts) learn(u *book.Upstream, m *book.Method) {
	f.plan, f.units = content.NewPlan(u, m, true), quota.Units{}
	if f.spared = f.plan; len(u.Budgets) > 0 {
		f.spared = content.NewPlan(u, m, false)
	}
	for name, units := range m.Charges {
		if ttl := slotTTL(u, name); ttl > 0 {
			f.slots = max(f.slots, ttl)
			continue
		}
		f.units[name] = units
	}
	for _, price := range m.Prices {
		f.atEnd = f.atEnd || price.AtEnd
	}
}

// slotTTL is how long a slot of a pool counts by itself; 0 if the pool does not bound the calls in
// flight.
func slotTTL(u *book.Upstream, pool string) time.Duration {
	if p := u.Pools[pool]; p != nil && len(p.Windows) > 0 && p.Windows[0].InFlight() {
		return p.Windows[0].Per
	}
	return 0
}

// wait is the longest time that the call waits for units.
func (c *call) wait() time.Duration { return *cmp.Or(c.caller.MaxWait, &c.t.set.MaxWait) }

// price reads a request for what its call will cost, if that is not fixed, and for the keys
// of the pools that it charges.
func (t *Transport) price(c *call, req *http.Request) error {
	price := t.set.Price[c.upstream.Name]
	if price != nil || t.set.Actual[c.upstream.Name] != nil {
		c.content = &priced{}
	}
	plan := c.plan
	if c.upstream.Spares(c.name, c.caller.Job) {
		plan = c.spared
	}
	if plan != nil {
		most := cmp.Or(c.upstream.RequestBuffer, book.DefaultRequestBuffer)
		r := plan.Request.Read(content.Message{Header: req.Header, Query: req.URL.RawQuery, Path: c.match.Segment, Call: c.name, Caller: book.CallerOf(c.caller.Job), Length: bodyLength(req), Most: most})
		if err := t.readBody(c, req, r, plan.Request, most); err != nil {
			return err
		}
		c.keys = plan.Keys(r)
		if plan.Priced {
			name, now := plan.Case(r), quota.SystemClock{}.Now()
			rates, model, lacks := plan.Rates(name, now)
			if lacks != "" && len(c.budgets()) > 0 {
				return &quota.UnpricedError{Upstream: c.upstream.Name, Method: c.name, Hint: lacks}
			}
			estimate := func(rates book.Case) quota.Units {
				return plan.Estimate(r, rates, func(pool string, share int) (int64, bool) {
					t.hearCosts(req.Context(), c.costOf(pool))
					return t.memory.recall(c.costOf(pool), share)
				})
			}
			c.content = &priced{plan: plan, rates: rates, weights: plan.Weights(r), model: model, estimate: estimate(rates)}
			if wait := c.wait(); wait > 0 && rates != nil {
				if then, _, lacks := plan.Rates(name, now.Add(wait)); lacks == "" && !reflect.DeepEqual(then, rates) { // the price may change while it waits
					c.content.named = name
					c.content.estimate[book.Money] = max(c.content.estimate[book.Money], estimate(then)[book.Money])
				}
			}
		}
	}
	if price == nil {
		return nil
	}
	own, err := price(again(req), c.name)
	if err != nil {
		return fmt.Errorf("price %s: %w", c.name, err)
	}
	for pool, units := range own {
		if c.content.estimate == nil {
			c.content.estimate = quota.Units{}
		}
		c.content.estimate[pool] = units
	}
	return nil
}

// bodyLength is the length of a request's body; -1 if it is not known.
func bodyLength(req *http.Request) int64 {
	if req.Body == nil || req.Body == http.NoBody {
		return 0
	}
	if req.ContentLength > 0 {
		return req.ContentLength
	}
	return -1
}

// readBody gives a reading the body of a request, if it needs it. All of it is read before
// the call is sent, because a value may stand at its end, or stand there again. A body that
// cannot be had again is kept, and sent from there.
func (t *Transport) readBody(c *call, req *http.Request, r *content.Reading, of *content.Sources, most int64) error {
	length := bodyLength(req)
	if length == 0 || !of.NeedsBody(length) {
		r.End(length == 0)
		return nil
	}
	long, err := false, error(nil)
	if req.GetBody != nil {
		err = readAgain(req, r)
	} else {
		long, err = t.keepBody(c, req, r, most)
	}
	if err != nil {
		r.End(false)
		return fmt.Errorf("read the request for its price: %w", err)
	}
	r.End(!long)
	why, unpacked := "", false
	if !long {
		why, unpacked = r.Doubt(isJSON(req.Header))
	}
	if long || unpacked {
		long, why = true, fmt.Sprintf("it is longer than the %d bytes of request_buffer", most)
	}
	if why == "" || c.upstream.Mode == book.Observe {
		return nil
	}
	return &BodyError{Upstream: c.upstream.Name, Method: c.name, Reason: why, TooLong: long}
}

// readAgain gives a reading a body that can be had again.
func readAgain(req *http.Request, r *content.Reading) error {
	body, err := req.GetBody()
	if err != nil {
		return err
	}
	defer body.Close() //nolint:errcheck // nothing was written
	_, err = io.Copy(r, body)
	return err
}

// firstKept is the most that is kept of a body before any of it has come.
const firstKept = 16 << 10

// keepBody keeps a body that cannot be had again, and gives it to a reading. Long says that
// it has more than most bytes. If the upstream is only observed, it is sent all the same.
func (t *Transport) keepBody(c *call, req *http.Request, r *content.Reading, most int64) (long bool, err error) {
	if req.ContentLength > most {
		return true, nil
	}
	// a body that comes from another goroutine may never come, so a caller that gives up ends it
	ctx := req.Context()
	stop := context.AfterFunc(ctx, func() { _ = req.Body.Close() })
	defer stop()
	var head []byte
	whole := false
	defer func() { c.upload = newUpload(head, req.Body, whole) }() // also of a call that goes elsewhere after an error
	room := int64(firstKept)
	if length := bodyLength(req); length >= 0 {
		room = min(room, length)
	}
	for ; ; room = 2 * int64(len(head)) {
		room = min(room, most) + 1 // to see the end
		if t.set.Keep != nil {
			if err := t.set.Keep(req, room-int64(cap(head))); err != nil {
				return false, err
			}
		}
		head = append(make([]byte, 0, room), head...)
		for len(head) < cap(head) && err == nil {
			var n int
			n, err = req.Body.Read(head[len(head):cap(head)])
			_, _ = r.Write(head[len(head) : len(head)+n])
			head = head[:len(head)+n]
		}
		if gone := ctx.Err(); gone != nil {
			return false, gone
		}
		long = int64(len(head)) > most
		if long || err == io.EOF {
			whole = !long
			return long, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// upload is a body of which the head was read. It lets go of that when it is closed, which
// may be long before the end of the answer.
type upload struct {
	head  atomic.Pointer[bytes.Reader]
	rest  io.ReadCloser
	whole bool // the head is all of it
}

func newUpload(head []byte, rest io.ReadCloser, whole bool) *upload {
	u := &upload{rest: rest, whole: whole}
	u.head.Store(bytes.NewReader(head))
	return u
}

func (u *upload) Read(p []byte) (int, error) {
	if head := u.head.Load(); head != nil && head.Len() > 0 {
		return head.Read(p)
	}
	return u.rest.Read(p)
}

// again returns the head once more. Nothing of it was sent.
func (u *upload) again() (io.ReadCloser, error) {
	head := *u.head.Load()
	return io.NopCloser(&head), nil
}

func (u *upload) Close() error {
	u.head.Store(nil)
	return u.rest.Close()
}

// again returns a request whose body a function may read.
func again(req *http.Request) *http.Request {
	out := *req
	out.Body = http.NoBody
	if req.GetBody == nil {
		return &out
	}
	if body, err := req.GetBody(); err == nil {
		out.Body = body
	}
	return &out
}
