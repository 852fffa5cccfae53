package agents

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"

	"github.com/headroom-quota/headroom/quota"
)

const (
	mostPlanned = 100     // kinds of calls in a plan
	mostCount   = 1 << 20 // calls of a kind
)

// wantedPlan are the arguments of the tool plan.
type wantedPlan struct {
	Calls []plannedCall `json:"calls" jsonschema:"the calls to price"`
}

// plannedCall is a call that is made several times.
type plannedCall struct {
	wantedCall
	Count int64 `json:"count,omitempty" jsonschema:"how often it is made; 1 if it is left out"`
}

// planned is the answer of the tool plan.
type planned struct {
	Fits    bool             `json:"fits" jsonschema:"whether all calls would be allowed now"`
	Message string           `json:"message"`
	Units   map[string]int64 `json:"units" jsonschema:"what the calls cost, by pool, as youtube/units"`
	// RetryAfter is when all of them fit, by what is spent so far.
	RetryAfter float64 `json:"retry_after,omitempty" jsonschema:"seconds after which they may fit"`
	Session    budget  `json:"session"`
}

// plan prices calls. It takes no units.
func (s *session) plan(ctx context.Context, in wantedPlan) (planned, error) {
	if len(in.Calls) == 0 || len(in.Calls) > mostPlanned {
		return planned{}, quota.BadInput("name 1 to %d calls, not %d", mostPlanned, len(in.Calls))
	}
	sums, err := s.sums(ctx, in.Calls)
	if err != nil {
		return planned{}, err
	}
	p := planned{Fits: true, Units: map[string]int64{}}
	var cost int64
	var short []string
	for _, upstream := range slices.Sorted(maps.Keys(sums)) {
		units := sums[upstream]
		cost += sum(units)
		for name, n := range units {
			p.Units[quota.Pool{Upstream: upstream, Account: s.o.Account, Name: name}.String()] = n
		}
		_, err := s.ledger.Check(ctx, quota.Call{Upstream: upstream, Account: s.o.Account, Class: s.o.Class, Job: s.o.Job, Charges: units})
		if err == nil {
			continue
		}
		refused, err := s.refused(err)
		if err != nil {
			return planned{}, err
		}
		short = append(short, refused.Message)
		p.RetryAfter = max(p.RetryAfter, refused.RetryAfter)
	}
	p.Session = s.budget()
	if cost > p.Session.Left {
		short = append(short, fmt.Sprintf("the calls cost %d units, and the budget of this session has %d left", cost, p.Session.Left))
	}
	p.Fits, p.Message = len(short) == 0, "all of them fit now"
	if !p.Fits {
		p.Message = strings.Join(short, "; ")
	}
	return p, nil
}

// sums returns what calls cost together, by upstream and pool. A call that could not be
// granted by itself, such as one without a price, is an error.
func (s *session) sums(ctx context.Context, calls []plannedCall) (map[string]quota.Units, error) {
	all := map[string]quota.Units{}
	for i := range calls {
		call, err := s.call(&calls[i].wantedCall)
		if err != nil {
			return nil, err
		}
		count := calls[i].Count
		if count == 0 {
			count = 1
		}
		if count < 0 || count > mostCount {
			return nil, quota.BadInput("count is 1 to %d, not %d", mostCount, count)
		}
		if _, err := s.ledger.Check(ctx, call); err != nil && problem.Of(s.ledger.Book(), err).Verdict == nil {
			return nil, err
		}
		if all[call.Upstream] == nil {
			all[call.Upstream] = quota.Units{}
		}
		for pool, units := range s.price(&call) {
			if units < 0 || units > 1<<32 {
				return nil, quota.BadInput("%d units of %.80q make no sense", units, pool)
			}
			if units > 0 {
				all[call.Upstream][pool] += count * units
			}
		}
	}
	maps.DeleteFunc(all, func(_ string, units quota.Units) bool { return len(units) == 0 })
	return all, nil
}
