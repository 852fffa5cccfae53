package program

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/internal/charged"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// refusals are the units that calls of a program were refused, and that no later call was
// granted. Calls may overlap: an answer to a call that began before a refusal says nothing
// about the units that are missing now.
type refusals struct {
	mu       sync.Mutex
	begun    int                     // calls
	answered int                     // the last call, by its number, that was answered
	open     map[quota.Pool]*refusal // the budget of the job has no pool
	latest   *refusal                // of those in open
	outage   error                   // of the ledger, if no later call was granted units
	failed   int                     // calls that had begun then
	signal   chan struct{}           // a call was refused
}

// refusal is the last one of a pool.
type refusal struct {
	*RefusedError
	pool  quota.Pool
	units int64
	begun int // calls that had begun then
}

func (r *refusals) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answered, r.open, r.latest, r.outage = 0, map[quota.Pool]*refusal{}, nil, nil
}

// told notes that a call was refused for lack of units. The proxy reports each answer, too;
// see metered.
func (r *refusals) told(why error, retryAt time.Time) {
	if why == nil {
		return
	}
	refused := &refusal{RefusedError: &RefusedError{RetryAt: retryAt, Err: why}}
	var ledger *quota.RefusedError
	var budget *meter.BudgetError
	switch {
	case errors.As(why, &ledger):
		refused.pool, refused.units = ledger.Pool, ledger.Units
	case errors.As(why, &budget):
		refused.units = budget.Units
	}
	r.mu.Lock()
	refused.begun = r.begun
	r.open[refused.pool], r.latest = refused, refused
	r.mu.Unlock()
	select {
	case r.signal <- struct{}{}:
	default:
	}
}

// metered returns a transport that notes which units the calls of another one are granted.
func (r *refusals) metered(base http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		r.mu.Lock()
		r.begun++
		number := r.begun
		r.mu.Unlock()
		ctx, record := charged.With(req.Context())
		resp, err := base.RoundTrip(req.WithContext(ctx))
		if resp != nil && resp.Request != nil && resp.Request.Context() == ctx {
			resp.Request = req
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case errors.Is(err, quota.ErrOutage):
			r.outage, r.failed = err, r.begun
		case err == nil:
			r.granted(number, record.Units())
		}
		return resp, err
	})
}

// granted ends refusals once a later call was granted as many units.
func (r *refusals) granted(number int, units map[quota.Pool]int64) {
	r.answered = max(r.answered, number)
	if len(units) > 0 && number > r.failed {
		r.outage = nil
	}
	sum := int64(0)
	for pool, n := range units {
		sum += n
		r.close(number, pool, n)
	}
	r.close(number, quota.Pool{}, sum)
}

func (r *refusals) close(number int, pool quota.Pool, units int64) {
	if refused := r.open[pool]; refused == nil || number <= refused.begun || units < refused.units || units == 0 {
		return
	}
	delete(r.open, pool)
	r.latest = nil
	for _, other := range r.open {
		if r.latest == nil || other.begun > r.latest.begun {
			r.latest = other
		}
	}
}

func (r *refusals) last() *RefusedError {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.latest == nil {
		return nil
	}
	return r.latest.RefusedError
}

// unanswered returns the last refusal that is open, if no call that began later was answered.
func (r *refusals) unanswered() *RefusedError {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.latest == nil || r.answered > r.latest.begun {
		return nil
	}
	return r.latest.RefusedError
}

// down returns the outage of the ledger that the last call has met, or nil.
func (r *refusals) down() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.outage
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
