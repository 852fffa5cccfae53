package storetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/deadline"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// patienceBook has room for every call of Patience.
const patienceBook = `
revision: 1
upstreams:
  api:
    pools:
      units: {quota: 1000000, headroom: 0, windows: [{per: 24h}]}
      flight: {windows: [{in_flight: 1000000, ttl: 5m}]}
    methods:
      quick: {pool: units, cost: 2}
      slow: {charge: {units: 1, flight: 1}}
`

// The callers of Patience.
const (
	patientCallers   = 4
	impatientCallers = 12
)

// testPatience checks that what a caller's patience cuts off says nothing about the store.
func testPatience(t *testing.T, h Harness) { Patience(t, newRig(t, h).s) }

// Patience has callers whose contexts end after 1 ms or later, or are cancelled at any moment,
// beside callers that wait. What a caller's patience cuts off says nothing about the store, so nobody
// meets an outage. A caller that ran out of time gets the error of its context, and what its call has
// taken is given back behind it: in the end, the pools count what was granted. [Run] calls Patience, and so do
// tests of what stands before a store.
func Patience(t *testing.T, s quota.Store) {
	t.Helper()
	seed, err := strconv.ParseUint(suiteSeed(t), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	costs, err := book.Parse("costs.yaml", []byte(patienceBook), nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := quota.New(costs, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &patience{TB: t, ledger: l}
	var wg sync.WaitGroup
	for caller := range patientCallers + impatientCallers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(caller)))
			for range scaled(1_600, 100_000) / (patientCallers + impatientCallers) {
				p.call(random, caller < patientCallers)
			}
		})
	}
	wg.Wait()
	p.settled()
}

// patience is a ledger whose callers have little of it.
type patience struct {
	testing.TB
	ledger *quota.Ledger
	mu     sync.Mutex
	units  int64                // that are granted
	open   []*quota.Reservation // calls that are under way
}

// call makes one call at random. An impatient caller may leave before the answer.
func (p *patience) call(random *rand.Rand, patient bool) {
	ctx, cancel := context.WithCancel(context.Background())
	switch {
	case patient:
	case random.IntN(3) == 0:
		time.AfterFunc(time.Duration(random.Int64N(int64(5*time.Millisecond))), cancel)
	default:
		ctx, cancel = context.WithTimeout(ctx, time.Millisecond<<random.IntN(6))
	}
	defer cancel()
	var err error
	switch act := random.IntN(20); {
	case act < 14:
		c := quota.Call{Method: "quick"}
		if random.IntN(2) == 0 {
			c.Method = "slow"
		}
		if random.IntN(4) == 0 {
			c.ID = "call-" + strconv.FormatUint(random.Uint64(), 36)
		}
		var r *quota.Reservation
		if r, err = p.ledger.Reserve(ctx, c); err != nil && c.ID != "" {
			p.check(ctx, patient, err)
			r, err = p.ledger.Reserve(context.Background(), c) // an id of the caller's is settled by asking again
			patient = true
		}
		if err == nil {
			p.granted(r)
		}
	case act < 17:
		_, err = p.ledger.View().Usage(ctx, "api", "")
	case act < 18:
		err = p.ledger.Admin().Unblock(ctx, quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: "units"})
	default:
		err = p.release(ctx)
	}
	p.check(ctx, patient, err)
}

// check checks an error of a call.
func (p *patience) check(ctx context.Context, patient bool, err error) {
	ended := deadline.Err(ctx)
	switch {
	case err == nil:
	case patient:
		p.Errorf("a patient caller: %v", err)
	case errors.Is(err, quota.ErrOutage) || errors.Is(err, quota.ErrRefused):
		p.Errorf("an impatient caller got what says something about the store: %v", err)
	case ended == nil:
		p.Errorf("an impatient caller was cut off before its time: %v", err)
	case !errors.Is(err, ended):
		p.Errorf("an impatient caller: %v, want %v", err, ended)
	}
}

// granted notes a grant.
func (p *patience) granted(r *quota.Reservation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Outage {
		p.Errorf("admitted in an outage: %+v", r.Verdict)
	}
	p.units += r.Charges()["units"]
	p.open = append(p.open, r)
}

// release releases a call. A caller that leaves meanwhile does not stop that.
func (p *patience) release(ctx context.Context) error {
	p.mu.Lock()
	if len(p.open) == 0 {
		p.mu.Unlock()
		return nil
	}
	r := p.open[0]
	p.open = p.open[1:]
	p.units -= r.Charges()["units"]
	p.mu.Unlock()
	_, err := r.Release(ctx)
	return err
}

// settled waits until the pools count what was granted.
func (p *patience) settled() {
	for _, r := range p.open {
		if err := r.Done(context.Background()); err != nil {
			p.Error(err)
		}
	}
	counted := map[string]int64{}
	for range 12_000 { // longer than the timeout of any store that the suite runs on
		all, err := p.ledger.View().Usage(context.Background(), "api", "")
		if err != nil {
			p.Fatal(err)
		}
		for _, u := range all {
			counted[u.Pool.Name] = u.Allowances[0].Used
		}
		if counted["units"] == p.units && counted["flight"] == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.Errorf("%d units were granted and no call is in flight, but the pools count %v", p.units, counted)
}
