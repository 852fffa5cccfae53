package main

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
)

// trial is one case: an upstream, how its limit changes, who else spends, and what its refusals
// say about when to retry.
type trial struct {
	number  int
	kind    string
	span    span
	per     float64 // seconds; of calls in flight, a minute
	shape   shape
	foreign float64 // share of the limit that others spend
	named   string  // Retry-After: true, none, or always 60 s
	workers int
	length  float64
	base    float64 // the limit at first
}

const (
	shortest, longest = .05, .2 // how long calls take
	transit           = .5      // the share of it until the call arrives
	inFlightTransit   = .05     // the same of calls whose number in flight is limited
	named60           = "60 s"
)

// trials returns all cases.
func trials() (all []*trial) {
	for _, kind := range kinds {
		for _, span := range spans {
			base, length := span.rate*span.per.Seconds(), span.windows*span.per.Seconds()
			if kind == "in flight" {
				base, length = 8, 1500
				if span != spans[0] {
					continue
				}
			}
			for _, shape := range shapes {
				for _, foreign := range []float64{0, .3} {
					for _, named := range []string{"true", "none", named60} {
						all = append(all, &trial{
							number: len(all), kind: kind, span: span, per: span.per.Seconds(), shape: shape, foreign: foreign,
							named: named, workers: 12 + 4*(len(all)%2), length: length, base: base,
						})
					}
				}
			}
		}
	}
	return all
}

func (c *trial) String() string {
	per := c.span.per.String()
	if c.kind == "in flight" {
		per = "-"
	}
	return fmt.Sprintf("%-9s %-7s %-9s foreign %2.0f%%  Retry-After %-4s", c.kind, per, c.shape.name, 100*c.foreign, c.named)
}

func (c *trial) limit(at float64) float64 { return c.base * c.shape.factor(at/c.length) }

// result is what became of a case.
type result struct {
	yield   float64 // what was accepted, of what the upstream would have accepted
	late    float64 // the same from the third window after the beginning and each step
	refused float64 // share of what was sent
	no      int     // refusals
	found   float64 // seconds from a step until 95% of the rate was reached; below 0: never
}

// event is a call that arrives at the upstream or is answered, a worker that wakes up, or a
// call of others.
type event struct {
	at     float64
	kind   eventKind
	worker int
	sent   float64
	took   float64 // from sending to the answer
	ok     bool
	named  float64
}

type eventKind int

const (
	arrives eventKind = iota
	answers
	wakes
	others
	othersEnd
)

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	n := len(*e) - 1
	x := (*e)[n]
	*e = (*e)[:n]
	return x
}

// simulation runs one case with one sender.
type simulation struct {
	c      *trial
	sender sender
	up     upstream
	rng    *rand.Rand
	queue  events
	idle   []int
	shared bool // one question answers for all workers
	wakeAt float64

	sent, accepted, no int
	taken              []float64 // what was accepted, by slice of the case
	strange            []float64 // what was accepted of others
}

// parts are into how many parts a case is cut for measuring.
const parts = 2000

// run runs a case. The same seed makes the same calls of others, whoever sends.
func run(c *trial, seed uint64, s sender) result {
	m := &simulation{
		c: c, sender: s, up: newUpstream(c.kind, c.per, c.limit), rng: rand.New(rand.NewPCG(seed, uint64(c.number))),
		taken: make([]float64, parts), strange: make([]float64, parts),
	}
	_, alone := s.(*backoff)
	m.shared = !alone
	for w := range c.workers {
		m.idle = append(m.idle, w)
	}
	if c.foreign > 0 {
		m.push(event{at: m.nextOther(0), kind: others})
	}
	m.dispatch(0)
	for len(m.queue) > 0 {
		e := heap.Pop(&m.queue).(event)
		if e.at >= c.length {
			break
		}
		m.step(e)
	}
	return m.result()
}

func (m *simulation) push(e event) { heap.Push(&m.queue, e) }

// mean is how long a call holds its place on average.
func (c *trial) mean() float64 {
	mean := (shortest + longest) / 2
	if c.kind == "in flight" {
		mean *= 1 - inFlightTransit
	}
	return mean
}

func (m *simulation) latency() float64 { return shortest + (longest-shortest)*m.rng.Float64() }

// nextOther returns when the next call of others comes.
func (m *simulation) nextOther(at float64) float64 {
	rate := m.c.foreign * m.c.limit(at) / m.c.per
	if m.c.kind == "in flight" {
		rate = m.c.foreign * m.c.limit(at) / m.c.mean()
	}
	return at + m.rng.ExpFloat64()/rate
}

func (m *simulation) step(e event) {
	slice := int(e.at / m.c.length * parts)
	switch e.kind {
	case arrives:
		ok, wait := m.up.take(e.at)
		e.ok, e.named = ok, 0
		if !ok {
			switch m.c.named {
			case "true":
				e.named = math.Ceil(wait) // a header has whole seconds
			case named60:
				e.named = 60
			}
		} else {
			m.accepted++
			m.taken[slice]++
		}
		e.kind, e.at = answers, e.sent+e.took
		m.push(e)
	case answers:
		if e.ok {
			m.up.end()
		} else {
			m.no++
		}
		m.sender.answered(e.worker, e.sent, e.at, e.ok, e.named)
		m.idle = append(m.idle, e.worker)
		m.dispatch(e.at)
	case wakes:
		if m.shared {
			if e.at != m.wakeAt {
				return
			}
			m.wakeAt = 0
		} else {
			m.idle = append(m.idle, e.worker)
		}
		m.dispatch(e.at)
	case others:
		if ok, _ := m.up.take(e.at); ok {
			m.strange[slice]++
			m.push(event{at: e.at + m.latency(), kind: othersEnd})
		}
		m.push(event{at: m.nextOther(e.at), kind: others})
	case othersEnd:
		m.up.end()
	}
}

// dispatch sends what may be sent.
func (m *simulation) dispatch(at float64) {
	for len(m.idle) > 0 {
		w := m.idle[len(m.idle)-1]
		wait := m.sender.send(w, at)
		if wait > 0 {
			if m.shared {
				m.wakeAt = at + wait
				m.push(event{at: m.wakeAt, kind: wakes})
				return
			}
			m.push(event{at: at + wait, kind: wakes, worker: w})
		} else {
			m.sent++
			took, share := m.latency(), transit
			if m.c.kind == "in flight" {
				share = inFlightTransit
			}
			m.push(event{at: at + took*share, kind: arrives, worker: w, sent: at, took: took})
		}
		m.idle = m.idle[:len(m.idle)-1]
	}
}

// capacity returns what the upstream would have accepted from one who sends at the right
// moments, in each slice. Nobody can send more than its workers do.
func (m *simulation) capacity() []float64 {
	all := make([]float64, parts)
	width := m.c.length / parts
	most := float64(m.c.workers) / ((shortest + longest) / 2) * width
	for i := range all {
		at := (float64(i) + .5) * width
		if m.c.kind == "fixed" {
			at = math.Floor(at/m.c.per) * m.c.per
		}
		all[i] = m.c.limit(at) / m.c.per * width
		if m.c.kind == "in flight" {
			all[i] = math.Floor(m.c.limit(at)) / m.c.mean() * width
		}
		all[i] = min(all[i]-m.strange[i], most)
	}
	return all
}

func (m *simulation) result() (r result) {
	can := m.capacity()
	if m.c.kind == "bucket" || m.c.kind == "gcra" { // it was full
		burst := m.c.limit(0)
		if m.c.kind == "gcra" {
			burst *= .1
		}
		can[0] += burst
	}
	r.no = m.no
	r.refused = float64(m.no) / float64(max(m.sent, 1))
	r.yield = share(m.taken, can)
	settled := int(math.Ceil(2 * m.c.per / m.c.length * parts)) // two windows
	from, to := settled, parts
	var got, could []float64
	if step := int(m.c.shape.change * parts); step > 0 {
		got, could = m.taken[from:step], can[from:step]
		from = step + settled
	}
	got, could = append(append([]float64{}, got...), m.taken[from:to]...), append(append([]float64{}, could...), can[from:to]...)
	r.late = share(got, could)
	r.found = m.found(can)
	return r
}

// width is over how many parts a rate is measured: a window, and of buckets, which have no
// windows, a twentieth of one.
func (c *trial) width() int {
	width := c.per / c.length * parts
	if c.kind == "gcra" || c.kind == "bucket" {
		width /= 20
	}
	return max(25, int(width))
}

// found returns how long after a step the sender reached 95% of what it could, in the mean of
// five parts and of a window at least; 0 if there is no step.
func (m *simulation) found(can []float64) float64 {
	step := int(m.c.shape.change * parts)
	if step == 0 {
		return 0
	}
	width := m.c.width()
	for i := step; i+width <= parts; i++ {
		if share(m.taken[i:i+width], can[i:i+width]) >= .93 {
			return float64(i-step+width) / parts * m.c.length
		}
	}
	return -1
}

func share(got, could []float64) float64 {
	a, b := 0., 0.
	for i := range got {
		a, b = a+got[i], b+could[i]
	}
	return a / max(b, 1)
}
