package main

import (
	"math"
	"time"
)

// upstream decides on calls as it may do behind a limit that it does not publish. Times are seconds
// since the case began.
type upstream interface {
	// take takes a call, or says how long to wait.
	take(at float64) (ok bool, wait float64)
	// end ends a call that was accepted.
	end()
}

// shape is how a limit changes, as a factor by the time.
type shape struct {
	name   string
	factor func(share float64) float64 // by the share of the case that has passed
	change float64                     // the share at which a step comes; 0: none
}

const stepAt = .4

var shapes = []shape{
	{"steady", func(float64) float64 { return 1 }, 0},
	{"step down", func(x float64) float64 { return stepped(x, .5) }, stepAt},
	{"step up", func(x float64) float64 { return stepped(x, 1.5) }, stepAt},
	{"ramp", func(x float64) float64 { return 1 + .5*min(max((x-.2)/.6, 0), 1) }, 0},
	{"daily", func(x float64) float64 { return 1 + .25*math.Sin(4*math.Pi*x) }, 0},
}

func stepped(x, to float64) float64 {
	if x >= stepAt {
		return to
	}
	return 1
}

// kinds are the ways in which upstreams count.
var kinds = []string{"fixed", "sliding", "gcra", "bucket", "in flight"}

// spans are the lengths of windows, with how many calls a second their limits allow, and how
// many windows a case lasts. Upstreams with long windows allow fewer.
var spans = []span{
	{time.Second, 30, 1500},
	{10 * time.Second, 30, 180},
	{45 * time.Second, 24, 50},
	{time.Minute, 20, 45},
	{time.Hour, 1, 20},
	{24 * time.Hour, .08, 12},
}

type span struct {
	per     time.Duration
	rate    float64
	windows float64
}

// newUpstream returns an upstream of a kind. The limit is how many calls a window has.
func newUpstream(kind string, per float64, limit func(at float64) float64) upstream {
	switch kind {
	case "fixed":
		return &fixed{per: per, limit: limit}
	case "sliding":
		return &sliding{per: per, limit: limit}
	case "gcra":
		return &bucket{per: per, limit: limit, burst: .1, level: -1}
	case "bucket":
		return &bucket{per: per, limit: limit, burst: 1, level: -1}
	}
	return &inFlight{limit: limit}
}

// fixed has the limit of its beginning in the whole window.
type fixed struct {
	per   float64
	limit func(float64) float64
	begun float64
	n     float64
}

func (f *fixed) take(at float64) (bool, float64) {
	if begun := math.Floor(at/f.per) * f.per; begun != f.begun {
		f.begun, f.n = begun, 0
	}
	if f.n+1 > f.limit(f.begun) {
		return false, f.begun + f.per - at
	}
	f.n++
	return true, 0
}

func (f *fixed) end() {}

type sliding struct {
	per   float64
	limit func(float64) float64
	log   []float64
}

func (s *sliding) take(at float64) (bool, float64) {
	for len(s.log) > 0 && s.log[0] <= at-s.per {
		s.log = s.log[1:]
	}
	if float64(len(s.log)+1) > s.limit(at) {
		return false, s.log[0] + s.per - at
	}
	s.log = append(s.log, at)
	return true, 0
}

func (s *sliding) end() {}

// bucket is a bucket of tokens. GCRA is one with a burst of a tenth of the limit.
type bucket struct {
	per   float64
	limit func(float64) float64
	burst float64 // as a share of the limit
	level float64
	at    float64
}

func (b *bucket) take(at float64) (bool, float64) {
	limit := b.limit(at)
	most := max(1, b.burst*limit)
	if b.level < 0 {
		b.level = most
	}
	b.level, b.at = min(most, b.level+(at-b.at)*limit/b.per), at
	if b.level < 1 {
		return false, (1 - b.level) * b.per / limit
	}
	b.level--
	return true, 0
}

func (b *bucket) end() {}

type inFlight struct {
	limit func(float64) float64
	n     float64
}

func (f *inFlight) take(at float64) (bool, float64) {
	if f.n+1 > math.Floor(f.limit(at)) {
		return false, 1
	}
	f.n++
	return true, 0
}

func (f *inFlight) end() { f.n-- }
