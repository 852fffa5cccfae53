package boundary

import (
	"context"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// Contender is a kind of limiter.
type Contender struct {
	ID   string // for programs
	Name string // for people
	// Open makes a new limiter with a unique name, one for each timeline.
	Open func(name string) (Limiter, error)
}

// Result is how much a contender accepted.
type Result struct {
	Contender
	Trials []*Trial // by timeline
	At     *Trial   // the worst trial
	Worst  Window   // of that trial
}

// Prove runs the same timelines against all contenders.
func Prove(ctx context.Context, clock quota.Clock, r Rate, timelines []Timeline, contenders []Contender) ([]Result, error) {
	results := make([]Result, len(contenders))
	var all []*Trial
	for i, c := range contenders {
		results[i].Contender = c
		for _, t := range timelines {
			limiter, err := c.Open(c.ID + "-" + t.Name)
			if err != nil {
				return nil, err
			}
			results[i].Trials = append(results[i].Trials, &Trial{Timeline: t, Limiter: limiter})
		}
		all = append(all, results[i].Trials...)
	}
	if err := Run(ctx, clock, r, all); err != nil {
		return nil, err
	}
	for i := range results {
		results[i].judge(r.Per)
	}
	return results, nil
}

// judge finds the first of the worst trials.
func (r *Result) judge(per time.Duration) {
	for _, t := range r.Trials {
		if worst := Worst(t.Accepted, per); r.At == nil || worst.Accepted > r.Worst.Accepted {
			r.At, r.Worst = t, worst
		}
	}
}
