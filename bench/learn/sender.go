package main

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/headroom-quota/headroom/quota/pace"
	"github.com/headroom-quota/headroom/quota/window"
)

// sender decides when calls are sent. It speaks for all workers of all processes.
type sender interface {
	// send asks for a call of a worker. Zero means that it is sent; else it says how long to wait.
	send(worker int, at float64) (wait float64)
	// answered tells what became of a call. Named is the wait that a refusal names, or 0.
	answered(worker int, sent, at float64, ok bool, named float64)
}

// senders are those that are compared, by their names in the table.
var senders = []struct {
	name string
	make func(c *trial, rng *rand.Rand) sender
}{
	{"backoff", func(c *trial, rng *rand.Rand) sender { return &backoff{rng: rng, workers: make([]retry, c.workers)} }},
	{"cubic", func(*trial, *rand.Rand) sender { return &cubic{rate: 2, last: 2} }},
	{"aimd", func(*trial, *rand.Rand) sender { return &aimd{rate: 2} }},
	{"pace", func(*trial, *rand.Rand) sender { return &paced{bounds: pace.Bounds{From: 2, To: 1e6}} }},
}

// backoff is what most programs do: each worker retries by itself after an exponential wait
// with full jitter, or after the wait that was named.
type backoff struct {
	rng     *rand.Rand
	workers []retry
}

type retry struct {
	failed int
	until  float64
}

func (b *backoff) send(w int, at float64) float64 { return b.workers[w].until - at }

func (b *backoff) answered(w int, _, at float64, ok bool, named float64) {
	r := &b.workers[w]
	if ok {
		*r = retry{}
		return
	}
	r.failed++
	r.until = at + max(named, b.rng.Float64()*min(.5*math.Pow(2, float64(r.failed)), 60))
}

// pacing sends evenly at a rate.
type pacing struct{ next float64 }

func (p *pacing) send(at, rate float64) float64 {
	if at < p.next {
		return p.next - at
	}
	p.next = max(p.next, at-.5/rate) + 1/rate
	return 0
}

// cubic is the adaptive retry mode of AWS SDKs, with one rate for all: the rate falls to 0.7 at
// a refusal, and rises along a cubic.
type cubic struct {
	pacing
	rate, last, from float64
	slow             bool // a refusal was seen
	measured         float64
	began, n         float64
}

func (c *cubic) send(_ int, at float64) float64 { return c.pacing.send(at, c.rate) }

func (c *cubic) answered(_ int, _, at float64, ok bool, _ float64) {
	c.n++
	if at-c.began >= .5 {
		c.measured = .8*c.n/(at-c.began) + .2*c.measured
		c.began, c.n = at, 0
	}
	const beta, scale = .7, .4
	if !ok {
		c.last, c.from, c.slow = min(c.rate, max(c.measured, .5)), at, true
		if !c.slow {
			c.last = c.rate
		}
		c.rate = max(.1, beta*c.last)
		return
	}
	k := math.Cbrt(c.last * (1 - beta) / scale)
	c.rate = scale*math.Pow(at-c.from-k, 3) + c.last
	if !c.slow {
		c.rate = c.last + scale*math.Pow(at-c.from, 3)
	}
	c.rate = max(.1, min(c.rate, 2*max(c.measured, 1)))
}

// aimd raises one rate for all by a share each second, and halves it at most once a second.
type aimd struct {
	pacing
	rate, lowered, raised float64
}

func (a *aimd) send(_ int, at float64) float64 { return a.pacing.send(at, a.rate) }

func (a *aimd) answered(_ int, sent, at float64, ok bool, _ float64) {
	if !ok {
		if sent > a.lowered {
			a.rate, a.lowered = max(.01, a.rate*.85), at
		}
		return
	}
	a.rate += .02 / max(a.rate, .1)
}

// paced is the rule of package pace.
type paced struct {
	state  pace.State
	bounds pace.Bounds
	sent   map[float64]window.Instant
	buf    []window.Instant
}

func instant(at float64) window.Instant { return window.Instant(1e15 + at*1e6) }

func (p *paced) send(w int, at float64) float64 {
	sent, wait := p.state.Send(p.bounds, instant(at), 1)
	if wait > 0 {
		return max(wait.Seconds(), 1e-6)
	}
	for len(p.buf) <= w {
		p.buf = append(p.buf, 0)
	}
	p.buf[w] = sent
	return 0
}

func (p *paced) answered(w int, _, at float64, ok bool, named float64) {
	if ok {
		p.state.Accepted(p.bounds, p.buf[w], instant(at), 1)
	} else {
		p.state.Refused(p.bounds, p.buf[w], instant(at), time.Duration(named*float64(time.Second)))
	}
}

// told is a sender that knows kind, window and limit, and uses a share of it.
type told struct {
	own   upstream
	until float64
	wait  float64
	least float64
	kind  string
	per   float64
}

func newTold(c *trial, share float64) *told {
	limit := func(at float64) float64 { return share * c.limit(at) }
	least := min(c.per/100, 1)
	return &told{own: newUpstream(c.kind, c.per, limit), kind: c.kind, per: c.per, least: max(least, .05), wait: max(least, .05)}
}

func (t *told) send(_ int, at float64) float64 {
	if at < t.until {
		return t.until - at
	}
	if ok, wait := t.own.take(at); !ok {
		return max(wait, 1e-4)
	}
	return 0
}

func (t *told) answered(_ int, sent, at float64, ok bool, _ float64) {
	t.own.end()
	switch {
	case ok:
		t.wait = t.least
	case sent < t.until:
	case t.kind == "fixed":
		t.until = (math.Floor(at/t.per) + 1) * t.per
	default:
		t.until = at + t.wait
		t.wait = min(2*t.wait, t.per/4)
	}
}
