package pace

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

const second = window.Instant(time.Second / time.Microsecond)

// rig sends as fast as the rule allows, with up to width calls in flight, to an upstream that
// decides when a call arrives.
type rig struct {
	State
	bounds   Bounds
	now      window.Instant
	rng      *rand.Rand
	takes    func(at window.Instant) bool
	named    time.Duration
	width    int
	long     time.Duration  // how much longer calls take that are accepted
	costs    func() float64 // of the next call; nil: 1
	cost     float64
	calls    []call
	strange  []window.Instant // when calls of others end
	accepted int
	refused  int
	units    float64
}

type call struct {
	sent, ends window.Instant
	ok         bool
	cost       float64
}

func newRig(seed uint64, takes func(window.Instant) bool) *rig {
	return &rig{bounds: Bounds{From: 2, To: 1e6}, now: 1_700_000_000 * second, rng: rand.New(rand.NewPCG(seed, 1)), takes: takes, width: 14, costs: func() float64 { return 1 }}
}

// run runs for a while.
func (r *rig) run(d time.Duration) {
	for until := r.now.Add(d); r.now < until; {
		for i := 0; i < len(r.calls); i++ {
			if c := r.calls[i]; c.ends <= r.now {
				r.calls = append(r.calls[:i], r.calls[i+1:]...)
				i--
				if c.ok {
					r.accepted++
					r.units += c.cost
					r.Accepted(r.bounds, c.sent, r.now, c.cost)
				} else {
					r.refused++
					r.Refused(r.bounds, c.sent, r.now, r.named)
				}
			}
		}
		for len(r.calls) < r.width {
			if r.cost == 0 {
				r.cost = r.costs()
			}
			sent, wait := r.Send(r.bounds, r.now, r.cost)
			if wait > 0 {
				break
			}
			took := 50*time.Millisecond + time.Duration(r.rng.Int64N(int64(150*time.Millisecond)))
			ok := r.takes(r.now)
			if ok {
				took += r.long
			}
			r.calls = append(r.calls, call{sent, r.now.Add(took), ok, r.cost})
			r.cost = 0
		}
		r.now = r.now.Add(5 * time.Millisecond)
	}
}

// fixed is an upstream with a limit per window of a minute.
func fixed(limit *int) func(window.Instant) bool {
	used, minute := 0, window.Instant(0)
	return func(at window.Instant) bool {
		if m := at / (60 * second); m != minute {
			minute, used = m, 0
		}
		if used >= *limit {
			return false
		}
		used++
		return true
	}
}

// bucket is an upstream with a bucket of a burst that refills at a rate.
func bucket(rate, burst float64) func(window.Instant) bool {
	level, last := burst, window.Instant(0)
	return func(at window.Instant) bool {
		if last != 0 {
			level = min(burst, level+at.Sub(last).Seconds()*rate)
		}
		if last = at; level < 1 {
			return false
		}
		level--
		return true
	}
}

func between(t *testing.T, what string, got, least, most float64) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s is %.4f, want %.4f to %.4f", what, got, least, most)
	}
}

func TestLearnsALimitAndItsChanges(t *testing.T) {
	for seed := range uint64(5) {
		limit := 1200
		r := newRig(seed, fixed(&limit))
		r.run(5 * time.Minute)
		r.accepted, r.refused = 0, 0
		r.run(20 * time.Minute)
		between(t, "the share of the limit that was used", float64(r.accepted)/(20*1200), .93, 1.01)
		between(t, "the share that was refused", float64(r.refused)/float64(r.accepted), 0, .006)

		limit = 600
		r.run(6 * time.Minute)
		r.accepted, r.refused = 0, 0
		r.run(20 * time.Minute)
		between(t, "the share of half the limit", float64(r.accepted)/(20*600), .93, 1.01)
		between(t, "the share that was refused then", float64(r.refused)/float64(r.accepted), 0, .006)

		limit = 1200
		r.run(15 * time.Minute)
		r.accepted = 0
		r.run(20 * time.Minute)
		between(t, "the share of the limit that has returned", float64(r.accepted)/(20*1200), .9, 1.01)
	}
}

func TestTheBurstOfABucketIsNoRate(t *testing.T) {
	r := newRig(1, bucket(1, 1000))
	r.run(10 * time.Minute)
	between(t, "the calls that passed at first", float64(r.accepted), 1500, 1600)
	between(t, "the refusals until the rate was known", float64(r.refused), 1, 120)
	r.accepted, r.refused = 0, 0
	r.run(2 * time.Hour)
	between(t, "the share of what it refills", float64(r.accepted)/7200, .97, 1.01)
	between(t, "the share that was refused", float64(r.refused)/7200, 0, .006)
}

// Calls whose process ended are in flight for seconds, not for ever: the probe goes after that.
func TestCallsThatNeverEndHoldNobodyUp(t *testing.T) {
	limit := 1200
	r := newRig(1, fixed(&limit))
	r.run(5 * time.Minute)
	for range 8 {
		for { // they are sent, and nobody says how they ended
			if _, wait := r.Send(r.bounds, r.now, 1); wait == 0 {
				break
			}
			r.now += second / 100
		}
	}
	r.accepted = 0
	r.run(10 * time.Minute)
	between(t, "the share of the limit that was used", float64(r.accepted)/(10*1200), .9, 1.01)
	if n := len(r.Flight); n > r.width {
		t.Errorf("%d calls are in flight, at most %d can be", n, r.width)
	}
}

// A language model refuses at once, and takes a minute for an answer.
func TestCallsThatTakeLong(t *testing.T) {
	for _, long := range []time.Duration{4 * time.Second, 7 * time.Second, 20 * time.Second, time.Minute} {
		for seed := range uint64(3) {
			r := newRig(seed, bucket(4, 20))
			r.width, r.long = 500, long
			r.run(15 * time.Minute)
			r.accepted, r.refused = 0, 0
			r.run(15 * time.Minute)
			between(t, "the share of the limit if calls take "+long.String(), float64(r.accepted)/(15*60*4), .93, 1.01)
			between(t, "the share that was refused", float64(r.refused)/float64(r.accepted), 0, .01)
		}
	}
}

// It may also limit the calls in flight.
func TestPlacesOfCallsThatTakeLong(t *testing.T) {
	for _, long := range []time.Duration{7 * time.Second, 20 * time.Second, time.Minute} {
		limit := 8
		r := newRig(1, nil)
		r.takes = r.places(&limit)
		r.width, r.long = 100, long
		r.run(20 * time.Minute)
		r.accepted, r.refused = 0, 0
		r.run(time.Hour)
		between(t, "the share of the places if calls take "+long.String(), float64(r.accepted)/3600*(.125+long.Seconds())/8, .95, 1.01)
		between(t, "the refusals of an hour", float64(r.refused), 0, 20)
	}
}

func TestALostProbeIsFollowedByAnother(t *testing.T) {
	var s State
	b, now := Bounds{From: 10, To: 100}, 1_700_000_000*second
	sent, wait := s.Send(b, now, 1)
	if wait != 0 {
		t.Fatalf("the first call waits %s", wait)
	}
	s.Refused(b, sent, now+second, 0)
	now += 10 * second
	lost, wait := s.Send(b, now, 1)
	if wait != 0 || s.Probe != lost {
		t.Fatalf("the probe waits %s", wait)
	}
	if _, wait = s.Send(b, now+second, 1); wait == 0 {
		t.Fatal("a second call goes beside the probe")
	}
	now += 60 * second
	if _, wait = s.Send(b, now, 1); wait != 0 {
		t.Fatalf("a minute later the next probe still waits %s", wait)
	}
}

func TestACallThatWasNotSentCostsNothing(t *testing.T) {
	var s State
	b, now := Bounds{From: .1, To: 100}, 1_700_000_000*second
	first, _ := s.Send(b, now, 1)
	_, before := s.Send(b, now, 1)
	s.Unsent(b, first, now)
	if len(s.Flight) != 0 || s.N != 0 {
		t.Errorf("%d calls are in flight, and %g were accepted; want none", len(s.Flight), s.N)
	}
	if _, after := s.Send(b, now, 1); before == 0 || after != 0 {
		t.Errorf("the next call waits %s before it was given back, and %s after", before, after)
	}
}

// A clock that steps back by a little stands still; one that was wrong by hours takes what was
// learned along.
func TestClocksThatStepBack(t *testing.T) {
	for _, back := range []time.Duration{10 * time.Second, 5 * time.Hour} {
		limit := 1200
		r := newRig(3, fixed(&limit))
		r.run(10 * time.Minute)
		r.calls = nil // of a process that has ended
		rate := r.State.Rate
		r.now = r.now.Add(-back)
		r.accepted = 0
		r.run(10 * time.Minute)
		between(t, "the rate, as a share of that before", r.State.Rate/rate, .5, 1.5)
		between(t, "after "+back.String()+", the share of the limit that was used", float64(r.accepted)/(10*1200), .85, 1.01)
	}
}

// A wait that is not true is not waited for, and one that is true is.
// Calls that were sent before the clock was set back are no probes, although their instants are in the future.
func TestCallsFromBeforeAStepBackEndNoEpisode(t *testing.T) {
	s, b := State{Rate: 4, Rate0: 4, N0: 100, Avg: 1, Back: .1, Gap: 3, Turns: 5, Slow: 30}, Bounds{From: 4, To: 1000}
	now, flying := 1_700_000_000*second, []window.Instant{}
	for len(flying) < 30 {
		if sent, wait := s.Send(b, now, 1); wait == 0 {
			flying = append(flying, sent)
		}
		now += second / 10
	}
	now -= 600 * second
	refusals := 0
	for i := range 300 {
		if sent, wait := s.Send(b, now, 1); wait == 0 {
			refusals++
			s.Refused(b, sent, now+second/10, 0)
		}
		if i%10 == 9 {
			s.Accepted(b, flying[i/10], now+second/10, 1)
		}
		now += second / 10
	}
	if refusals == 0 || s.Turns != 5 {
		t.Errorf("%d calls were refused, and %d episodes have ended: all of them are refused", refusals, s.Turns-5)
	}
}

func TestWaitsThatAreNamed(t *testing.T) {
	limit := 1200
	r := newRig(1, fixed(&limit))
	r.named = time.Hour
	r.run(5 * time.Minute)
	if r.accepted = 0; r.Trust != Ignored {
		t.Errorf("an hour is believed (%d), though calls passed before", r.Trust)
	}
	r.run(10 * time.Minute)
	between(t, "the share of the limit that was used", float64(r.accepted)/(10*1200), .9, 1.01)

	var s State
	b, now := Bounds{From: 10, To: 100, Obey: true}, 1_700_000_000*second
	sent, _ := s.Send(b, now, 1)
	s.Refused(b, sent, now, time.Hour)
	if _, wait := s.Send(b, now, 1); wait != time.Hour {
		t.Errorf("it obeys, and waits %s, want an hour", wait)
	}
}

func TestCallsWaitForMoreUnits(t *testing.T) {
	var s State
	b, now := Bounds{From: 1, To: 1}, 1_700_000_000*second
	if _, wait := s.Send(b, now, 10); wait != 0 {
		t.Fatalf("the first call waits %s", wait)
	}
	if _, wait := s.Send(b, now, 1); wait != 9500*time.Millisecond {
		t.Errorf("after ten units at one a second the next call waits %s, want 9.5s", wait)
	}
}

// What is kept is small, and comes back as it was.
func TestStateIsSmall(t *testing.T) {
	limit := 1200
	r := newRig(1, fixed(&limit))
	r.width = 100
	r.run(3 * time.Hour)
	text, err := json.Marshal(r.State)
	if err != nil {
		t.Fatal(err)
	}
	if most := 4 << 10; len(text) > most {
		t.Errorf("the state takes %d bytes, at most %d are wanted", len(text), most)
	}
	var back State
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	a, w := r.Send(r.bounds, r.now, 1)
	if b, v := back.Send(r.bounds, r.now, 1); a != b || w != v {
		t.Errorf("after a restart, the next call is %d %s, want %d %s", b, v, a, w)
	}
}

// A demand far below the limit, in bursts, learns no rhythm of its own: what was measured before stays.
func TestADemandBelowTheLimitTeachesNothing(t *testing.T) {
	limit := 1200
	r := newRig(2, fixed(&limit))
	r.run(10 * time.Minute)
	rate := r.State.Rate
	for range 12 { // 300 calls, and then nothing for the rest of an hour
		r.accepted, r.refused = 0, 0
		for r.accepted < 300 {
			r.run(time.Second)
		}
		r.calls = nil
		r.now = r.now.Add(time.Hour)
	}
	between(t, "the rate after a day, as a share of that before", r.State.Rate/rate, .8, 2)
	r.accepted, r.refused = 0, 0
	r.run(10 * time.Minute)
	between(t, "the share of the limit that is used then", float64(r.accepted)/(10*1200), .85, 1.01)
	between(t, "the share that was refused then", float64(r.refused)/float64(r.accepted), 0, .02)
}

// places is an upstream that limits the calls in flight.
func (r *rig) places(limit *int) func(window.Instant) bool {
	return func(at window.Instant) bool {
		n := 0
		for _, c := range r.calls {
			if c.ok && c.ends > at {
				n++
			}
		}
		r.strange = slices.DeleteFunc(r.strange, func(ends window.Instant) bool { return ends <= at })
		n += len(r.strange)
		return n < *limit
	}
}

func TestLearnsHowManyCallsMayBeInFlight(t *testing.T) {
	limit := 8
	r := newRig(1, nil)
	r.takes = r.places(&limit)
	r.run(5 * time.Minute)
	for _, limit = range []int{8, 4, 10} {
		r.run(time.Minute)
		r.accepted, r.refused = 0, 0
		r.run(10 * time.Minute)
		between(t, "the places", float64(r.Places), float64(limit), float64(limit)+1)
		between(t, "the share of the places that was used", float64(r.accepted)/600*.1275/float64(limit), .92, 1.03)
		between(t, "the share that was refused", float64(r.refused)/float64(r.accepted), 0, .006)
	}
	r.bounds.To = 20
	r.accepted = 0
	r.run(time.Minute)
	between(t, "the rate with an upper bound of 20 a second", float64(r.accepted)/60, 18, 20.5)
}

// others fill places, or spend, at a rate in a second, by chance. Each call takes as long as ours.
func (r *rig) others(rate float64, takes func(at window.Instant) bool) func(window.Instant) bool {
	rng, next := rand.New(rand.NewPCG(r.rng.Uint64(), 3)), r.now
	return func(at window.Instant) bool {
		for ; next <= at; next = next.Add(seconds(rng.ExpFloat64() / rate)) {
			if takes(next) {
				r.strange = append(r.strange, next.Add(50*time.Millisecond+time.Duration(rng.Int64N(int64(150*time.Millisecond)))))
			}
		}
		return takes(at)
	}
}

// Others fill 2.4 of 8 places on average. Calls are refused at any rate, so a rate would fall to a tenth.
func TestPlacesThatOthersFillByChance(t *testing.T) {
	for seed := range uint64(6) {
		limit := 8
		r := newRig(seed, nil)
		r.takes = r.others(19, r.places(&limit))
		r.run(15 * time.Minute)
		for range 2 {
			r.accepted, r.refused = 0, 0
			r.run(20 * time.Minute)
			between(t, "the share of the 5.6 places that was used", float64(r.accepted)/1200*.1275/5.6, .25, .6)
			between(t, "the share that was refused", float64(r.refused)/float64(r.accepted), 0, .0125)
		}
		limit = 16
		r.run(10 * time.Minute)
		r.accepted = 0
		r.run(10 * time.Minute)
		between(t, "the share of twice the places", float64(r.accepted)/600*.1275/13.6, .5, .9)
	}
}

// A trial of places ends where the rate is limited. Others that spend by chance make the rule try it.
func TestATrialOfPlacesEnds(t *testing.T) {
	s := State{Rate: 20, N0: 1000, Slow: .2, Luck: .9, Back: .4, Peak: 100, Turns: 40, Avg: 1}
	r := newRig(1, bucket(30, 60))
	s.Ends, s.Began, s.Latest = []End{{At: r.now.Add(-time.Minute)}}, r.now.Add(-time.Hour), r.now
	s.Total = 1800 // 30 a second
	r.State = s
	r.Open, r.After = r.now, r.now // its end begins the trial
	r.run(5 * time.Second)
	if !r.Chance {
		t.Fatal("no trial began")
	}
	r.run(3 * time.Minute)
	if r.Chance || r.Places != 0 {
		t.Errorf("a bucket has %d places after three minutes, want none", r.Places)
	}
	r.accepted = 0
	r.run(10 * time.Minute)
	between(t, "the share of the rate that was used", float64(r.accepted)/(600*30), .9, 1.02)
}

// A limit in units is learned as well if calls cost many of them, or some cost far more than others.
func TestCallsThatCostManyUnits(t *testing.T) {
	for name, costs := range map[string]func(*rand.Rand) float64{
		"ten":              func(*rand.Rand) float64 { return 10 },
		"a hundred":        func(*rand.Rand) float64 { return 100 },
		"a million":        func(*rand.Rand) float64 { return 1e6 },
		"one or a hundred": func(rng *rand.Rand) float64 { return []float64{1, 1, 1, 100}[rng.IntN(4)] },
	} {
		for _, rate := range []float64{1, 30} { // calls in a second
			r := newRig(1, nil)
			mean := 0.
			for range 1000 {
				mean += costs(r.rng) / 1000
			}
			r.costs, r.bounds = func() float64 { return costs(r.rng) }, Bounds{From: 2 * mean, To: 1e9}
			limit := rate * mean
			level, last := 20*limit, r.now
			r.takes = func(at window.Instant) bool {
				level, last = min(20*limit, level+at.Sub(last).Seconds()*limit), at
				if level < r.cost {
					return false
				}
				level -= r.cost
				return true
			}
			r.run(time.Hour)
			r.accepted, r.refused, r.units = 0, 0, 0
			r.run(3 * time.Hour)
			between(t, "the share of the limit that was used by calls that cost "+name, r.units/(3*3600*limit), .95, 1.02)
			between(t, "the share that was refused", float64(r.refused)/float64(r.accepted), 0, .008)
		}
	}
}

// Other limits refuse calls however many are in flight.
func TestOtherLimitsAreNoPlaces(t *testing.T) {
	for seed := range uint64(5) {
		r := newRig(seed, bucket(30, 60))
		r.run(20 * time.Minute)
		if r.Places != 0 {
			t.Errorf("a bucket has %d places, want none", r.Places)
		}
		r.Places = 4 // by mistake
		r.run(10 * time.Minute)
		if r.Places != 0 {
			t.Errorf("ten minutes after a mistake a bucket has %d places, want none", r.Places)
		}
		r.accepted, r.refused = 0, 0
		r.run(10 * time.Minute)
		between(t, "the share of the rate that was used", float64(r.accepted)/(600*30), .95, 1.01)
		between(t, "the share that was refused", float64(r.refused)/float64(r.accepted), 0, .006)
	}
}

// A window has room for a burst after its limit has risen. What passed in it was no rate that has fallen since.
func TestARiseOfALimitIsNoReasonForPlaces(t *testing.T) {
	for seed := range uint64(8) {
		limit := 1200
		var log []window.Instant
		r := newRig(seed, nil)
		r.takes = r.others(6, func(at window.Instant) bool {
			for len(log) > 0 && at.Sub(log[0]) >= time.Minute {
				log = log[1:]
			}
			if len(log) >= limit {
				return false
			}
			log = append(log, at)
			return true
		})
		r.run(18 * time.Minute)
		limit = 1800
		for range 20 {
			if r.run(time.Minute); r.Chance {
				t.Fatalf("seed %d: places are tried, with a peak of %.1f a second at a limit of 30", seed, r.Peak)
			}
		}
	}
}

// One who obeys each wait that is named does so with places, too.
func TestPlacesObeyWaits(t *testing.T) {
	s := State{Places: 8}
	b, now := Bounds{From: 10, To: 100, Obey: true}, 1_700_000_000*second
	sent, _ := s.Send(b, now, 1)
	s.Refused(b, sent, now+second, time.Hour)
	if _, wait := s.Send(b, now+second, 1); wait != time.Hour {
		t.Errorf("it obeys, and waits %s, want an hour", wait)
	}
}

// Places by chance end after a day, because they hold at a limit of the rate, too, with more refusals.
func TestPlacesByChanceEndAfterADay(t *testing.T) {
	r := newRig(1, bucket(20, 40))
	r.State = State{Began: r.now, Latest: r.now, Turns: 20, Rate: 5, N0: 400, Back: .1, Avg: 1, Gap: 3, Young: 20, Slow: .2, Places: 2, Chance: true, Trial: End{At: r.now.Add(-24*time.Hour + 20*time.Minute)}}
	r.run(10 * time.Minute)
	if !r.Chance {
		t.Fatal("places ended before")
	}
	r.run(30 * time.Minute)
	if r.accepted, r.refused = 0, 0; r.Chance {
		t.Fatal("places hold after a day")
	}
	r.run(time.Hour)
	between(t, "the share of the rate that was used", float64(r.accepted)/(3600*20), .93, 1.01)
	between(t, "the share that was refused", float64(r.refused)/float64(r.accepted), 0, .006)
}

// One who obeys only since places are known returns to the rate, because an episode measures nothing beside places.
func TestPlacesEndForOneWhoObeys(t *testing.T) {
	limit := 8
	r := newRig(1, nil)
	r.takes = r.others(19, r.places(&limit))
	r.run(15 * time.Minute)
	if r.Places == 0 {
		t.Fatal("no places were found")
	}
	r.bounds.Obey, r.named = true, time.Second
	r.run(10 * time.Minute)
	r.accepted = 0
	r.run(20 * time.Minute)
	between(t, "the share of the 5.6 places that was used", float64(r.accepted)/1200*.1275/5.6, .05, .6)
}

// A refusal counts beside places, too, if nobody says which call it was of, or it came too late to know.
func TestRefusalsOfUnknownCallsEndPlaces(t *testing.T) {
	for _, chance := range []bool{false, true} {
		b, now := Bounds{From: 10, To: 100}, 1_700_000_000*second
		s := State{Began: now, Latest: now, Turns: 20, Rate: 10, N0: 1000, Places: 2, Set: now, Chance: chance}
		for range 60 {
			now += 10 * second
			s.Send(b, now, 1)
			s.Refused(b, now+second, now+second, 0)
		}
		if s.Places != 0 {
			t.Errorf("after 60 refusals and no accepted call there are %d places (chance %t), want none", s.Places, chance)
		}
	}
}

// An earlier version wrote the pause after an episode in units. As calls, these would be a pause of hours.
func TestAPauseInUnitsIsShort(t *testing.T) {
	s := State{Began: 1, Size: 1000, Turns: 20, N: 9e4, N0: 1e5, Rate: 1000, Back: .1, Gap: 1e4}
	s.careful()
	between(t, "the calls that the next one waits for", s.Gap, 3, 15)
}

// A state that was written before calls in flight were counted goes on, and has no places.
func TestStatesOfEarlierVersions(t *testing.T) {
	limit := 1200
	r := newRig(1, fixed(&limit))
	r.run(10 * time.Minute)
	for i := range r.Flight {
		r.Flight[i].With = 0
	}
	r.Most, r.Fits, r.Full, r.Set = 0, 0, 0, 0
	for _, c := range r.calls {
		r.Refused(r.bounds, c.sent, r.now, 0)
	}
	if r.calls = nil; r.Places != 0 || r.Fits != 0 {
		t.Errorf("calls of an earlier version speak for %d places (%d), want none", r.Places, r.Fits)
	}
	r.accepted = 0
	r.run(20 * time.Minute)
	between(t, "the share of the limit that was used", float64(r.accepted)/(20*1200), .9, 1.01)
}

// The first probe passes if it waits for as long as was named. That is no sign of room.
func TestAProbeAfterANamedWaitIsNoSignOfRoom(t *testing.T) {
	r := newRig(1, nil)
	used, begun := 0, window.Instant(0)
	r.takes = func(at window.Instant) bool { // 300 in ten seconds
		if w := at / (10 * second) * 10 * second; w != begun {
			begun, used = w, 0
		}
		if r.named = (begun + 10*second).Sub(at).Truncate(time.Second) + time.Second; used >= 300 {
			return false
		}
		used++
		return true
	}
	r.run(time.Minute)
	between(t, "the rate after six windows", r.State.Rate, 29, 45)
}

// A slow bucket that refills faster is noticed in a few hundred calls.
func TestASlowLimitThatRises(t *testing.T) {
	rate := 1.
	level, last := 10., window.Instant(0)
	r := newRig(1, func(at window.Instant) bool {
		if last != 0 {
			level = min(10, level+at.Sub(last).Seconds()*rate)
		}
		if last = at; level < 1 {
			return false
		}
		level--
		return true
	})
	r.run(6 * time.Hour)
	rate = 1.5
	r.run(10 * time.Minute)
	r.accepted = 0
	r.run(5 * time.Minute)
	between(t, "the share of the higher rate", float64(r.accepted)/(5*60*1.5), .95, 1.02)
}

// A rate that was once far lower is no bound: without a refusal, nothing would tell that the limit
// has risen.
func TestALimitThatRisesManyTimes(t *testing.T) {
	for seed := range uint64(3) {
		limit := 60
		r := newRig(seed, fixed(&limit))
		r.run(2 * time.Hour)
		limit = 1200
		r.run(2 * time.Hour)
		r.accepted = 0
		r.run(20 * time.Minute)
		between(t, "the share of twenty times the limit", float64(r.accepted)/(20*1200), .9, 1.01)
	}
}

// A steady demand below the rate shows no room for more than it has sent, and its calls of a day are no measure of the limit
// for the peak after it.
func TestADemandBelowTheRateShowsNoRoom(t *testing.T) {
	for seed := range uint64(3) {
		for _, known := range []time.Duration{0, 20 * time.Minute} {
			limit := 6000
			r := newRig(seed, fixed(&limit))
			r.width = 30
			r.run(known)
			r.width = 4 // 32 calls in a second
			r.run(24 * time.Hour)
			if rate := r.RateNow(r.bounds); rate > 600 {
				t.Errorf("the rate is %.0f after a demand of 32 a second, and the limit is 100", rate)
			}
			r.width = 30
			r.run(2 * time.Minute)
			r.accepted, r.refused = 0, 0
			r.run(10 * time.Minute)
			between(t, "the share of the limit that was used", float64(r.accepted)/(10*6000), .9, 1.01)
			between(t, "the refusals", float64(r.refused), 0, 250)
		}
	}
}

// While a window of an hour is full, a call passes now and then. That is no rate for the day after it.
func TestASpentWindowIsNoRate(t *testing.T) {
	for seed := range uint64(12) {
		var log []window.Instant
		rng := rand.New(rand.NewPCG(seed, 2))
		r := newRig(seed, func(at window.Instant) bool {
			for len(log) > 0 && at.Sub(log[0]) >= time.Hour {
				log = log[1:]
			}
			if len(log) >= 3600 && rng.IntN(12) > 0 { // one in twelve passes all the same
				return false
			}
			log = append(log, at)
			return true
		})
		r.run(6 * time.Hour)
		r.accepted = 0
		r.run(6 * time.Hour)
		between(t, "the share of the limit", float64(r.accepted)/(6*3600), .6, 1.1)
	}
}
