package meter

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/internal/content"
	"github.com/headroom-quota/headroom/quota"
)

// answer is the body of an answer that is read for what its call has cost, while the
// caller reads it. The caller gets each byte when the base has it.
type answer struct {
	io.ReadCloser
	c *call

	mu      sync.Mutex
	reading *content.Reading // nil: the price book asks nothing of the answer
	// watchers are shown the body, too. With watchers, the call is not settled here.
	watchers []watcher
	over     bool
	stop     func() bool // ends the watch over the caller's context; nil: there are no slots
	idle     *time.Timer // runs while nobody reads; nil: there are no slots
}

// follow reads an answer for what its call has cost. The call is settled when its body
// ends or is closed.
func (c *call) follow(resp *http.Response) {
	if c.content == nil {
		c.content = &priced{} // only its end matters
	}
	a := &answer{ReadCloser: resp.Body, c: c}
	if c.free {
		a.wrap(resp) // its slots are taken until it ends
		a.watch()
		return
	}
	if p := c.content.plan; p != nil {
		a.reading = p.Answer.Read(content.Message{Header: resp.Header, Length: lengthOf(resp), Took: func() time.Duration { return c.t.ledger.Now().Sub(c.began) }})
	}
	if cost := c.t.set.Actual[c.upstream.Name]; cost != nil {
		c.content.cost = cost(resp, c.name)
	}
	a.wrap(resp)
	a.watch()
	if a.reading != nil && a.reading.Decodes() { // should the caller never close it
		runtime.AddCleanup(a, func(r *content.Reading) { r.End(false) }, a.reading)
	}
}

// lengthOf is the length of an answer's body; -1 if it is not known.
func lengthOf(resp *http.Response) int64 {
	if resp.Body == nil || resp.Body == http.NoBody {
		return 0 // the header of HEAD has what GET would have
	}
	return resp.ContentLength
}

// watch gives the slots back if nobody closes the body. The call is over when the caller's context
// ends, because the base has ended it then. It counts as over when nobody has read for the ttl of
// its slots. A connection that has changed its protocol goes on. The watch must not keep the
// reservation, because the slots of a reservation that nobody has any more are not renewed.
func (a *answer) watch() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over || a.c.slots == 0 {
		return
	}
	if _, changed := a.ReadCloser.(io.Writer); changed {
		return
	}
	c, token := a.c, a.c.granted.Token()
	if token.ID == "" {
		return
	}
	giveBack := func() {
		c.t.later.do(func() {
			if err := c.t.ledger.Done(c.context(), token); err != nil {
				c.log(slog.LevelWarn, "slots are not given back yet; the ledger tries again", slog.String("error", err.Error()))
			}
		})
	}
	a.stop = context.AfterFunc(c.context(), giveBack)
	a.idle = time.AfterFunc(c.slots, giveBack)
}

// reads stops the timer of an idle body while its caller waits for the base.
func (a *answer) reads(waits bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.idle == nil || a.over:
	case waits:
		a.idle.Stop()
	default:
		a.idle.Reset(a.c.slots)
	}
}

// wrap makes the body of an answer one that is read.
func (a *answer) wrap(resp *http.Response) {
	switch body := resp.Body.(type) {
	case nil:
		a.end(true)
	case io.Writer: // of a connection that has changed its protocol, so that only its end matters
		if a.reading != nil {
			a.reading.End(false)
			a.reading = nil
		}
		resp.Body = &stream{a, body}
	default:
		if body == http.NoBody {
			a.end(true)
			return
		}
		resp.Body = a
	}
}

func (a *answer) Read(p []byte) (int, error) {
	a.reads(true)
	n, err := a.ReadCloser.Read(p)
	a.reads(false)
	a.saw(p[:min(max(n, 0), len(p))], err)
	return n, err
}

func (a *answer) Close() error {
	err := a.ReadCloser.Close()
	a.saw(nil, io.ErrClosedPipe)
	return err
}

// saw reads a piece of the body, and ends with an error.
func (a *answer) saw(p []byte, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	if len(p) > 0 && a.watchers != nil {
		for _, w := range a.watchers {
			w.saw(p)
		}
	} else if len(p) > 0 {
		if a.reading != nil {
			_, _ = a.reading.Write(p)
		}
		if cost := a.c.content.cost; cost != nil {
			_, _ = cost.Write(p)
		}
	}
	if err != nil {
		a.end(err == io.EOF) //nolint:errorlint // a reader returns it as it is
	}
}

// end settles the call. The ledger is not asked here, so that the caller need not wait.
func (a *answer) end(eof bool) {
	a.over = true
	if a.stop != nil {
		a.stop()
		a.idle.Stop()
	}
	if a.watchers != nil {
		for _, w := range a.watchers {
			w.ended(eof)
		}
		return
	}
	taken := reserved(a.c.granted)
	if a.c.free {
		a.c.settleTo(quota.Units{}, taken)
		return
	}
	units := maps.Clone(taken)
	if a.reading != nil {
		a.reading.End(eof)
		a.c.content.plan.Actual(a.reading, a.c.content.rates, a.c.content.weights, units, func(pool string, cost int64, learn bool) {
			if learn {
				a.c.t.tellCosts(a.c.costOf(pool), cost)
			}
		})
	}
	if cost := a.c.content.cost; cost != nil {
		for pool, n := range cost.Units(eof) {
			if _, charged := units[pool]; charged {
				units[pool] = n
			}
		}
	}
	a.c.settleTo(units, taken)
}

// stream is the connection of an answer that has changed its protocol.
type stream struct {
	io.ReadCloser
	io.Writer
}
