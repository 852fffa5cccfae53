package fair_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota/fair"
)

var (
	ordinary    = fair.Class{}
	interactive = fair.Class{Name: "interactive", Share: 0.5, Priority: 1}
	urgent      = fair.Class{Name: "urgent", Priority: 1}
	batch       = fair.Class{Name: "batch", Share: 0.2}
	reports     = fair.Class{Name: "reports", Share: 0.3}
)

// Classes that wait get their shares, whatever their calls cost and however many flows they have, and the rest goes to
// the highest priority. Each has something. Inside a class, flows get as much.
func TestClassesGetTheirShares(t *testing.T) {
	for _, test := range []struct {
		waits []fair.Class
		want  []float64
	}{
		{[]fair.Class{ordinary, batch}, []float64{0.8, 0.2}},
		{[]fair.Class{ordinary, batch, reports}, []float64{0.5, 0.2, 0.3}},
		{[]fair.Class{batch, reports}, []float64{0.4, 0.6}},
		{[]fair.Class{ordinary, urgent}, []float64{0.05 / 1.05, 1 / 1.05}},
		{[]fair.Class{ordinary, interactive, batch}, []float64{0.05 / 1.05, 0.8 / 1.05, 0.2 / 1.05}},
		{[]fair.Class{urgent, interactive}, []float64{0.5, 0.5}},
		{[]fair.Class{urgent, batch}, []float64{0.8, 0.2}},
		{[]fair.Class{batch}, []float64{1}},
	} {
		for seed := range uint64(3) {
			r := rand.New(rand.NewPCG(seed, 7))
			u := newUpstream()
			var all []*fair.Ask
			for _, class := range test.waits {
				for i := range 1 + r.IntN(4) {
					a := ask(fmt.Sprint(class.Name, i), 0.001+0.01*r.Float64())
					a.Class = class
					all = append(all, a)
				}
			}
			for step := range 100_000 {
				u.pass(80 * time.Millisecond)
				u.try(all[r.IntN(len(all))])
				u.try(all[step%len(all)]) // each one often enough
			}
			took, least, most, whole := map[string]float64{}, map[string]float64{}, map[string]float64{}, 0.0
			for _, a := range all {
				name, n := a.Class.Name, u.took[a.Flow]
				whole += n
				took[name] += n
				if least[name] == 0 || n < least[name] {
					least[name] = n
				}
				most[name] = max(most[name], n)
			}
			for i, class := range test.waits {
				if part := took[class.Name] / whole; math.Abs(part-test.want[i]) > 0.02 {
					t.Errorf("%v, seed %d: %q has %.3f, want %.3f", test.waits, seed, class.Name, part, test.want[i])
				}
				if most[class.Name]-least[class.Name] > fair.Lead+0.025 {
					t.Errorf("%v, seed %d: the flows of %q took from %.3f to %.3f", test.waits, seed, class.Name, least[class.Name], most[class.Name])
				}
			}
			if whole < 2 { // of 2.22 limits that came back
				t.Errorf("%v, seed %d: all took %.3f limits", test.waits, seed, whole)
			}
		}
	}
}

// What a class does not ask for goes to others at once, and it has no credit of that later.
func TestAClassThatAsksForLittle(t *testing.T) {
	u := newUpstream()
	a, b := ask("a", 0.01), ask("b", 0.01)
	b.Class = reports
	for i := range 20_000 {
		u.pass(100 * time.Millisecond)
		if i%4000 == 0 {
			u.try(b)
		}
		u.try(a)
	}
	if u.took["a"] < 0.5 {
		t.Errorf("beside a class that asks rarely, others took %.3f of 0.555", u.took["a"])
	}
	before := u.took["b"]
	for range 9000 {
		u.pass(100 * time.Millisecond)
		u.try(a)
		u.try(b)
	}
	if took := u.took["b"] - before; took > 0.25*0.3+0.1+fair.Lead {
		t.Errorf("in a quarter of an hour, it took %.3f", took)
	}
}

// A class that was held back comes first as soon as the others have had their part, also after estimates that
// were too high.
func TestAClassIsCorrected(t *testing.T) {
	s, now := fair.State{}, start
	waits := ask("a", 0.01)
	s.Ask(waits, now)
	s.Took(reports, "r", 0.3, now) // of which it used a tenth
	r := loose("r", 0.01)
	r.Class = reports
	if !s.Ask(r, now).Held {
		t.Fatal("a class that took its whole limit goes on beside another that waits")
	}
	s.Corrected(reports, "r", -0.3, now)
	if got := s.Ask(r, now); got.Held {
		t.Errorf("after it gave all back: %+v", got)
	}
}

// A line with classes can be written and read, copied, and made shorter.
func TestALineOfClasses(t *testing.T) {
	s, now := fair.State{}, start
	for i, class := range []fair.Class{ordinary, batch, interactive} {
		a := ask(fmt.Sprint(i), 0.01)
		a.Class = class
		s.Ask(a, now)
	}
	for i, class := range []fair.Class{ordinary, batch, interactive} {
		s.Took(class, fmt.Sprint(i), 0.01, now)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var again fair.State
	if err := json.Unmarshal(text, &again); err != nil || !reflect.DeepEqual(s, again) {
		t.Errorf("%v: %+v, want %+v", err, again, s)
	}
	copied := s.Clone()
	copied.Took(batch, "1", 0.5, now)
	copied.Took(ordinary, "0", 0.5, now)
	if !reflect.DeepEqual(s, again) {
		t.Error("a copy shares with its state")
	}
	if got := s.Waiting(now); len(got) != 3 || got[0].Flow != "2" { // it took the smallest part of what it may
		t.Errorf("waiting: %+v", got)
	}
	n := 0
	for s.Shrink(now) {
		n++
	}
	if n < 4 || len(s.Inside) > 0 || len(s.Tickets) > 0 {
		t.Errorf("made shorter %d times: %+v", n, s)
	}
}

// As long as somebody waits, a line that is made shorter knows how far his class has got: else callers that come later
// would all pass him.
func TestAShorterLineKeepsTheOrder(t *testing.T) {
	s, now := fair.State{Warm: start}, start
	for range 100 {
		s.Took(interactive, "a", 0.1, now)
	}
	for i := range fair.MostTickets {
		a := ask(fmt.Sprint("waits ", i), 0.01)
		a.Class = interactive
		s.Ask(a, now)
	}
	for len(s.Tickets) > fair.MostTickets/2 && s.Shrink(now) {
	}
	late := loose("late", 0.01)
	late.Class = interactive
	s.Ask(late, now)
	if first := s.Waiting(now)[0]; first.Tag < 1 || late.Tag < first.Tag {
		t.Errorf("who waits first is at %g, and who comes late at %g", first.Tag, late.Tag)
	}
}

// A class that waits for another pool changes nothing between those that take turns here.
func TestAClassThatWaitsElsewhere(t *testing.T) {
	u := newUpstream()
	elsewhere, a, b := ask("elsewhere", 0.01), ask("a", 0.01), ask("b", 0.01)
	elsewhere.Pools, elsewhere.Class = []string{"days"}, batch
	a.Class, b.Class = fair.Class{Name: "most", Share: 0.6}, fair.Class{Name: "least", Share: 0.2}
	for range 50_000 {
		u.pass(80 * time.Millisecond)
		u.state.Ask(elsewhere, u.now)
		for _, one := range []*fair.Ask{b, b, b, a} {
			u.try(one)
		}
	}
	if part := u.took["a"] / (u.took["a"] + u.took["b"]); math.Abs(part-0.75) > 0.03 {
		t.Errorf("of two that have 60%% and 20%%, the first has %.3f", part)
	}
}
