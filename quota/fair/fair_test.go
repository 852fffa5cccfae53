package fair_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota/fair"
	"github.com/headroom-quota/headroom/quota/window"
)

var start = window.At(time.Date(2026, time.March, 2, 14, 0, 0, 0, time.UTC))

// ask is a question for a share of a pool with a window of an hour, of a call that waits.
func ask(flow string, share float64) *fair.Ask {
	return &fair.Ask{Ticket: fair.Ticket{ID: flow, Flow: flow, Pools: []string{"units"}, Share: share}, Stays: true, Waits: true, Per: time.Hour}
}

// loose is that of a call that does not wait.
func loose(flow string, share float64) *fair.Ask {
	a := ask(flow, share)
	a.Stays, a.Waits = false, false
	return a
}

// upstream grants what has come back, evenly through a window: an hour.
type upstream struct {
	per   time.Duration
	most  float64
	state fair.State
	now   window.Instant
	left  float64
	took  map[string]float64
}

func (u *upstream) pass(d time.Duration) {
	u.now = u.now.Add(d)
	u.left = min(u.left+d.Seconds()/u.per.Seconds(), u.most)
}

// try lets a call ask, and take its share if that is left.
func (u *upstream) try(a *fair.Ask) (held, granted bool) {
	if u.state.Ask(a, u.now).Held {
		return true, false
	}
	if a.Share > u.left {
		return false, false
	}
	u.left -= a.Share
	u.take(a)
	return false, true
}

func (u *upstream) take(a *fair.Ask) {
	u.state.Took(a.Class, a.Flow, a.Share, u.now)
	if u.state.Leave(a.ID); a.Stays {
		u.state.Granted(a.Ticket, u.now)
	}
	u.took[a.Flow] += a.Share
}

func newUpstream() *upstream {
	return &upstream{per: time.Hour, most: 1, now: start, took: make(map[string]float64)}
}

// Flows that wait all the time get as much, whatever their calls cost, in whatever order they ask, and how often.
func TestFlowsThatWaitGetAsMuch(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		u := newUpstream()
		var all []*fair.Ask
		largest := 0.0
		for i := range 2 + r.IntN(7) {
			all = append(all, ask(fmt.Sprint("flow ", i), 0.001+0.05*r.Float64()*r.Float64()))
			largest = max(largest, all[i].Share)
		}
		for step := range 100_000 {
			u.pass(40 * time.Millisecond)
			if u.try(all[min(r.IntN(len(all)), r.IntN(len(all)))]); step%4 == 0 { // the first ones ask more often
				u.try(all[step/4%len(all)]) // and each one often enough
			}
		}
		least, most := 1e9, 0.0
		for _, a := range all {
			least, most = min(least, u.took[a.Flow]), max(most, u.took[a.Flow])
		}
		if most-least > fair.Lead+2*largest {
			t.Errorf("seed %d: flows took from %.4f to %.4f of the limit: %v", seed, least, most, u.took)
		}
	}
}

// While a heavy call waits, each flow passes it by little.
func TestAHeavyCallIsPassedByLittle(t *testing.T) {
	u := newUpstream()
	heavy, granted := ask("heavy", 0.3), false
	u.try(heavy)
	for n := 0; !granted; n++ {
		u.pass(time.Second)
		for _, flow := range []string{"a", "b", "c"} {
			u.try(ask(flow, 0.001))
		}
		if _, granted = u.try(heavy); n > 3600 {
			t.Fatal("the heavy call got nothing in an hour")
		}
	}
	for _, flow := range []string{"a", "b", "c"} {
		if took := u.took[flow]; took > fair.Lead+0.002 {
			t.Errorf("while the heavy call waited, %s took %.3f of the limit", flow, took)
		}
	}
	// Then it is ahead, and waits while the others take as much.
	for !u.state.Ask(heavy, u.now).Held {
		t.Fatal("a flow that has just taken 0.3 goes on")
	}
	for range 5000 {
		u.pass(time.Second)
		for _, flow := range []string{"a", "b", "c"} {
			u.try(ask(flow, 0.001))
		}
		if _, again := u.try(heavy); again {
			break
		}
	}
	for _, flow := range []string{"a", "b", "c"} {
		if took := u.took[flow]; took < 0.3-fair.Lead-0.002 {
			t.Errorf("before the heavy flow was served again, %s took %.3f of the limit, want about 0.3", flow, took)
		}
	}
}

// Of a flow that does not wait, the calls are held back as well, and nobody waits for them.
func TestWhoDoesNotWaitHoldsNobodyBack(t *testing.T) {
	u := newUpstream()
	u.left = 1
	waits := ask("waits", 0.5)
	u.state.Ask(waits, u.now)
	for range 20 {
		u.try(loose("loose", 0.01))
	}
	if took := u.took["loose"]; took > fair.Lead+0.011 {
		t.Errorf("it took %.3f of the limit before one that waits", took)
	}
	if len(u.state.Tickets) != 1 {
		t.Errorf("it left a ticket: %+v", u.state.Tickets)
	}
	u.take(waits)
	if u.state.Ask(ask("waits", 0.5), u.now).Held {
		t.Error("one that waits is held back by one that does not")
	}
}

// A ticket that nobody shows any more counts for two seconds, or a thirtieth of the wait, and 30 s at most.
func TestTheDeadAreForgotten(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Minute, 10 * time.Minute, 24 * time.Hour} {
		s, now := fair.State{}, start
		dead := ask("dead", 0.1)
		dead.Wait = wait
		s.Ask(dead, now)
		s.Took(fair.Class{}, "a", 0.1, now)
		life := min(max(2*time.Second, wait/30), 30*time.Second)
		if !s.Ask(loose("a", 0.1), now.Add(life)).Held {
			t.Errorf("wait of %s: it is forgotten before %s", wait, life)
		}
		if s.Ask(loose("a", 0.1), now.Add(life+time.Microsecond)).Held {
			t.Errorf("wait of %s: it still holds others back after %s", wait, life)
		}
	}
}

// A call keeps its place when it asks again, and shows its ticket often enough.
func TestACallKeepsItsPlace(t *testing.T) {
	s, now := fair.State{}, start
	first := ask("a", 0.1)
	s.Ask(first, now)
	for range 100 {
		now = now.Add(time.Second)
		if !s.Shows(first, now) {
			t.Fatal("a ticket of a second need not be shown")
		}
		s.Ask(first, now)
		if s.Shows(first, now.Add(100*time.Millisecond)) {
			t.Fatal("a fresh ticket must be shown again")
		}
	}
	if got := s.Waiting(now)[0]; got.Since != start || got.Seen != now || got.Tag != 0 {
		t.Errorf("after 100 s: %+v", got)
	}
	b := s.Ask(ask("b", 0.1), now)
	if b.Ahead != 1 || b.Held {
		t.Errorf("who comes later: %+v", b)
	}
	if s.Leave("a"); s.Ask(ask("b", 0.1), now).Ahead != 0 {
		t.Error("one that has left is ahead")
	}
}

// Calls of other pools are no others.
func TestPoolsApart(t *testing.T) {
	s, now := fair.State{}, start
	s.Ask(ask("a", 0.1), now)
	s.Took(fair.Class{}, "b", 0.5, now)
	b := loose("b", 0.1)
	if !s.Ask(b, now).Held {
		t.Error("b is not held back in the pool of a")
	}
	if b.Pools = []string{"others"}; s.Ask(b, now).Held {
		t.Error("b is held back in another pool")
	}
	if b.Pools = []string{"others", "units"}; !s.Ask(b, now).Held {
		t.Error("b is not held back in two pools")
	}
}

// Who took very much is held back until the others had one limit, and not for days.
func TestNobodyWaitsForMoreThanALimit(t *testing.T) {
	u := newUpstream()
	u.state.Ask(ask("a", 0.01), u.now)
	u.state.Took(fair.Class{}, "b", 50, u.now)
	waits, rounds := ask("b", 0.01), 0
	for ; rounds < 10_000; rounds++ {
		u.pass(time.Minute)
		if _, granted := u.try(ask("a", 0.01)); !granted {
			t.Fatal("a is not granted")
		}
		u.state.Ask(ask("a", 0.01), u.now)
		if held, _ := u.try(waits); !held {
			break
		}
	}
	if rounds < 90 || rounds > 110 {
		t.Errorf("b is held back while a is served %d times 0.01 of the limit, want about 100", rounds)
	}
}

// Who was away has no credit for it.
func TestWhoComesBackHasNoCredit(t *testing.T) {
	u := newUpstream()
	u.try(ask("away", 0.001))
	for range 100 {
		u.pass(time.Minute / 2)
		u.try(ask("a", 0.005))
		u.try(ask("b", 0.005))
	}
	clear(u.took)
	for range 200 { // all want more than there is
		u.pass(time.Second)
		for _, flow := range []string{"away", "a"} {
			u.try(ask(flow, 0.001))
		}
	}
	if u.took["away"] > u.took["a"]+fair.Lead+0.005+0.001 {
		t.Errorf("the one that was away took %.3f, the other one %.3f of the limit", u.took["away"], u.took["a"])
	}
}

// A clock that is set costs the order, and nobody waits for it.
func TestAClockThatIsSet(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, -10 * time.Second, 10 * time.Second, time.Hour} {
		s, now := fair.State{}, start
		s.Ask(ask("a", 0.1), now)
		s.Took(fair.Class{}, "b", 0.5, now)
		now = now.Add(step)
		if s.Ask(ask("b", 0.1), now).Held {
			t.Errorf("after a step of %s, it waits for a ticket of another time", step)
		}
		for range 10 {
			now = now.Add(time.Second)
			s.Ask(ask("b", 0.1), now)
		}
		if all := s.Waiting(now); len(all) != 1 || all[0].Flow != "b" {
			t.Errorf("after a step of %s: %+v wait", step, all)
		}
	}
}

// What a settled call gives back, its flow may take.
func TestWhatIsGivenBack(t *testing.T) {
	s, now := fair.State{}, start
	s.Ask(ask("a", 0.1), now)
	s.Took(fair.Class{}, "b", 0.5, now)
	s.Corrected(fair.Class{}, "b", -0.49, now)
	if s.Ask(loose("b", 0.1), now).Held {
		t.Error("b is held back for what it gave back")
	}
	s.Corrected(fair.Class{}, "b", 0.2, now)
	if !s.Ask(loose("b", 0.1), now).Held {
		t.Error("b is not held back for what it took on top")
	}
	s.Corrected(fair.Class{}, "unknown", -5, now)
	if len(s.Flows) != 1 {
		t.Errorf("a correction has made a flow: %+v", s.Flows)
	}
}

// A line has room for 64. Others wait until there is room, and what is kept is bounded.
func TestALineIsBounded(t *testing.T) {
	s, now := fair.State{}, start
	for i := range 1000 {
		a := ask(fmt.Sprint(i), 0.001)
		if told := s.Ask(a, now); told.Held || s.Shows(a, now) {
			t.Fatalf("call %d is held back, or shows a ticket that it cannot have: %+v", i, told)
		}
	}
	for i := range 1000 {
		s.Took(fair.Class{}, fmt.Sprint(i), 0.001, now.Add(time.Duration(i)*time.Millisecond))
	}
	if len(s.Tickets) != fair.MostTickets || len(s.Flows) > 64 {
		t.Errorf("%d tickets, %d flows", len(s.Tickets), len(s.Flows))
	}
	last := ask("999", 0.001)
	if s.Leave("0"); !s.Shows(last, now) {
		t.Error("there is room, and the next one does not take it")
	}
	if s.Ask(last, now); s.Shows(last, now) {
		t.Error("the next one has no ticket")
	}
}

// A minute after the last one has waited, nothing is kept.
func TestAQuietLineIsForgotten(t *testing.T) {
	s, now := fair.State{}, start
	if !s.Idle(now) {
		t.Error("a new line is not idle")
	}
	s.Ask(ask("a", 0.1), now)
	s.Took(fair.Class{}, "a", 0.1, now)
	s.Leave("a")
	if s.Idle(now.Add(fair.Quiet)) || !s.Idle(now.Add(fair.Quiet+time.Second)) {
		t.Error("it is not forgotten after a minute")
	}
	s.Took(fair.Class{}, "b", 0.1, now.Add(2*fair.Quiet))
	if len(s.Flows) != 1 || s.Virtual > 0.1 {
		t.Errorf("after two minutes it knows %+v", s)
	}
}

// In a short window, flows and classes that wait have their parts, too, and a flow may take for a moment what comes back
// before others ask again.
func TestShortWindows(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 3))
		per := []time.Duration{200 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second}[seed%5]
		u := newUpstream()
		u.most, u.per = fair.Part(1, 1, per)
		var all []*fair.Ask
		for i, class := range []fair.Class{urgent, batch, {}}[:2+r.IntN(2)] {
			a := ask(fmt.Sprint(i), 0)
			a.Class = class
			a.Share, a.Per = fair.Part(1+r.Int64N(40), 1000, per)
			all = append(all, a)
		}
		for range 100_000 {
			u.pass(time.Millisecond)
			u.try(all[min(r.IntN(len(all)), r.IntN(len(all)))])
		}
		whole := u.took["0"] + u.took["1"] + u.took["2"]
		want := 0.8 / (0.95 + 0.05*float64(len(all)-1))
		if part := u.took["0"] / whole; math.Abs(part-want) > 0.03 {
			t.Errorf("window of %s, seed %d: %v: the urgent class has %.3f, want %.3f", per, seed, u.took, part, want)
		}
	}
	s, now := fair.State{}, start
	s.Ask(ask("a", 0.1), now)
	b := loose("b", 0)
	b.Share, b.Per = fair.Part(9, 10, time.Second)
	if s.Took(fair.Class{}, "b", b.Share, now); s.Ask(b, now).Held {
		t.Error("b is held back after 0.9 s of a window of a second")
	}
	if s.Took(fair.Class{}, "b", b.Share, now); !s.Ask(b, now).Held {
		t.Error("b is not held back after 1.8 s of a window of a second")
	}
}

// A flow that asks for little, often, does not hold up the time of the others, who then would take as they come.
func TestWhoAsksForLittle(t *testing.T) {
	u := newUpstream()
	light, heavy, little := ask("light", 0.005), ask("heavy", 0.1), loose("little", 0.000_001)
	for step := range 150_000 {
		u.pass(100 * time.Millisecond)
		for range 3 {
			u.try(heavy)
		}
		if u.try(light); step%10 == 0 {
			u.try(little)
		}
	}
	if l, h := u.took["light"], u.took["heavy"]; math.Abs(h-l) > 0.3 {
		t.Errorf("the heavy one took %.2f of the limit, the light one %.2f", h, l)
	}
}
