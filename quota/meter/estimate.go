package meter

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/headroom-quota/headroom/internal/content"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// priced is a call whose cost depends on its content.
type priced struct {
	plan     *content.Plan // nil: only functions price it
	estimate quota.Units   // by pool; other pools have fixed prices
	cost     Cost          // of a function, or nil
}

// plans are the facts of the methods of one price book, and how the answers of its
// upstreams are read.
type plans struct {
	book *quota.Book
	made sync.Map // of *facts, by *book.Method; of []*report, by *book.Upstream
}

// costs returns the plans of the present price book.
func (t *Transport) costs() *plans {
	costs, now := t.plans.Load(), t.ledger.Book()
	if costs == nil || costs.book != now {
		costs = &plans{book: now}
		t.plans.Store(costs)
	}
	return costs
}

// facts are what a price book says of a method, worked out once.
type facts struct {
	plan  *content.Plan // what the content of a call decides; nil: nothing
	units int64         // of all pools together, if nothing is known of the call
	slots bool          // a call takes a slot among those in flight
	atEnd bool          // the upstream counts a call when it ends
}

// unpriced are those of a call without a price.
var unpriced facts

// facts returns what the price book says of the method of a call.
func (t *Transport) facts(c *call) *facts {
	if c.method == nil {
		return &unpriced
	}
	costs := t.costs()
	if f, ok := costs.made.Load(c.method); ok {
		return f.(*facts)
	}
	f := &facts{plan: content.NewPlan(c.upstream, c.method)}
	for name, units := range c.method.Charges {
		f.units += units
		if p := c.upstream.Pools[name]; p != nil && len(p.Windows) > 0 && p.Windows[0].InFlight() {
			f.slots = true
		}
	}
	for _, price := range c.method.Prices {
		f.atEnd = f.atEnd || price.AtEnd
	}
	costs.made.Store(c.method, f)
	return f
}

// price reads a request for what its call will cost, if that is not fixed, and for the keys
// of the pools that it charges.
func (t *Transport) price(c *call, req *http.Request) error {
	c.facts = t.facts(c)
	if c.method == nil {
		return nil
	}
	price := t.prices[c.upstream.Name]
	if price != nil || t.actuals[c.upstream.Name] != nil {
		c.content = &priced{}
	}
	if plan := c.plan; plan != nil {
		r := plan.Request.Read(content.Message{Header: req.Header, Query: req.URL.RawQuery, Path: c.segment, Length: bodyLength(req)})
		if err := c.readBody(req, r, plan.Request); err != nil {
			return err
		}
		c.keys = plan.Keys(r)
		if plan.Priced {
			c.content = &priced{plan: plan, estimate: plan.Estimate(r, func(pool string, share int) (int64, bool) {
				return t.memory.recall(c.costOf(pool), share)
			})}
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

// segment returns the {name} of the route that a call has taken.
func (c *call) segment(name string) (string, bool) { return c.method.Segment(c.verb, c.path, name) }

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

// chunks are for reading bodies.
var chunks = sync.Pool{New: func() any { return new([16 << 10]byte) }}

// readBody gives a reading the body of a request, if it needs it. A body that cannot be
// had again is kept as far as it was read, and sent from there.
func (c *call) readBody(req *http.Request, r *content.Reading, of *content.Sources) error {
	length := bodyLength(req)
	if length == 0 || !of.NeedsBody(length) {
		r.End(length == 0)
		return nil
	}
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			r.End(false)
			return fmt.Errorf("read the request for its price: %w", err)
		}
		chunk := chunks.Get().(*[16 << 10]byte)
		_, err = io.CopyBuffer(onlyWriter{r}, onlyReader{body}, chunk[:])
		chunks.Put(chunk)
		_ = body.Close()
		r.End(err == nil)
		return nil
	}
	// a body that comes from another goroutine may never come, so a caller that gives up ends it
	ctx := req.Context()
	stop := context.AfterFunc(ctx, func() { _ = req.Body.Close() })
	defer stop()
	most := cmp.Or(c.upstream.RequestBuffer, book.DefaultRequestBuffer)
	head, err := io.ReadAll(io.LimitReader(req.Body, most+1))
	if gone := ctx.Err(); gone != nil {
		r.End(false)
		return gone
	}
	rest := io.Reader(req.Body)
	if err != nil {
		rest = failing{err} // the sender will see it
	}
	c.upload = &reread{io.MultiReader(bytes.NewReader(head), rest), req.Body}
	if whole := err == nil && int64(len(head)) <= most; whole {
		_, _ = r.Write(head)
		r.End(true)
	} else {
		r.End(false)
	}
	return nil
}

type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

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
