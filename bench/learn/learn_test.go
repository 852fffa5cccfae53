package main

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// The sample has each kind, window, shape and header that all cases have.
func TestSampleHasOfEach(t *testing.T) {
	all := trials()
	if len(all) != 750 {
		t.Errorf("there are %d cases, want 750", len(all))
	}
	of := func(cases []*trial) map[string]bool {
		has := make(map[string]bool)
		for _, c := range cases {
			has["kind "+c.kind+c.span.per.String()] = true
			has["shape "+c.shape.name] = true
			has["retry after "+c.named] = true
			has["foreign "+c.shape.name+map[bool]string{true: " some"}[c.foreign > 0]] = true
		}
		return has
	}
	if got, want := of(sample(all)), of(all); !reflect.DeepEqual(got, want) {
		t.Errorf("the sample has %v, want %v", got, want)
	}
}

// always sends as often as its workers can.
type always struct{}

func (always) send(int, float64) float64                     { return 0 }
func (always) answered(int, float64, float64, bool, float64) {}

// A sender that never waits uses all that the upstream has, so the oracle is not too low or high.
func TestOracle(t *testing.T) {
	for _, c := range trials() {
		if c.per > 10 || c.named != "none" || c.shape.name == "step down" {
			continue
		}
		got := run(c, 5, always{})
		least := .95
		if c.kind == "in flight" { // there is a pause until the next call takes a free place
			least = .9
		}
		if got.yield < least || got.yield > 1.05 {
			t.Errorf("%s: who never waits has a yield of %.3f", c, got.yield)
		}
	}
}

// A told sender of a limit that nobody shares is hardly refused, and a run is the same each time.
func TestRunsAreRepeatable(t *testing.T) {
	for _, c := range trials()[:240] {
		if c.number%12 != 0 || c.per > 60 {
			continue
		}
		told := run(c, 5, newTold(c, 1))
		if c.foreign == 0 && c.per > 1 && told.refused > .02 {
			t.Errorf("%s: the told sender has %.2f%% refused", c, 100*told.refused)
		}
		for _, s := range senders {
			make := func() sender { return s.make(c, rand.New(rand.NewPCG(1, 2))) }
			if a, b := run(c, 5, make()), run(c, 5, make()); a != b {
				t.Errorf("%s: %s had %+v, and then %+v", c, s.name, a, b)
			}
		}
	}
}

// The rule reaches its bars where it is known to: a change of the rule that loses one of them
// is seen without the whole bench. Each second case will do: both kinds and all waits are among them.
func TestRuleReachesItsBars(t *testing.T) {
	for _, c := range trials() {
		easy := c.kind == "bucket" && c.per >= 10 && c.per <= 60 || c.kind == "gcra" && c.per >= 45 && c.per <= 60
		if !easy || c.foreign > 0 || c.shape.change > 0 || c.number%2 > 0 {
			continue
		}
		r := compareOne(c, 31, "pace")
		if v := judge(&r); v.misses != nil {
			t.Errorf("%s: %v", c, v.misses)
		}
	}
}

// A judge that finds nothing wrong would make any rule good.
func TestJudgeFindsWhatIsWrong(t *testing.T) {
	c := trials()[30] // a fixed window of 10 s
	for _, tt := range []struct {
		what string
		result
		misses int
	}{
		{"a good one", result{yield: .96, refused: .004}, 0},
		{"a slow one", result{yield: .94, refused: .004}, 1},
		{"a refused one", result{yield: .96, refused: .006, no: 60}, 1},
		{"a slow and refused one", result{yield: .9, refused: .2, no: 60}, 2},
	} {
		v := judge(&compared{trial: c, by: map[string]result{"pace": tt.result}})
		if len(v.misses) != tt.misses {
			t.Errorf("%s misses %v, want %d", tt.what, v.misses, tt.misses)
		}
	}
}
