package storetest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/headroom-quota/headroom/quota"
)

const (
	linearLimit   = 10
	linearCallers = 8
	linearCalls   = 10 // of each caller
	// linearPatience bounds the search for an order. It mostly takes
	// milliseconds: what was used after each call leaves little to choose.
	linearPatience = 30 * time.Second
)

// testLinearizable has several callers reserve, settle, release and look at one
// pool at once, and then searches for an order in which a sequential pool would
// have given the same answers (see [linearPool]): each call at one instant between
// its beginning and its end. Without such an order, some call was not atomic.
//
// Few ids are shared by all, so that repeats, second settlements and tokens of
// the past are common. The clock stands still, so that nothing leaves the window.
func testLinearizable(t *testing.T, h Harness) {
	if h.GiveBack != nil {
		t.Skip("the harness says that this store has blocks: a refusal may count units that another call is taking")
	}
	seed := suiteSeed(t)
	number, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	for kind, w := range everyKind(linearLimit) {
		if w.Spec.InFlight() {
			continue // settling leaves slots: see testSlots
		}
		t.Run("a_"+kind, func(t *testing.T) {
			if kind == "counter" || kind == "calendar" {
				needClock(t, h) // the end of an hour or of a day may come in between
			}
			for i := range scaled(10, 500) {
				s := scope{TB: t}
				r := newRig(&s, h, w)
				history := r.overlap(number + uint64(i))
				s.close()
				if !linearizable(t, history) {
					t.Fatalf("history %d; the same calls (the machine interleaves them anew): -rapid.seed=%s", i, seed)
				}
			}
		})
	}
}

// overlap runs all callers at once on the pool "units". It records each call, its answer,
// and the order in which the calls began and ended.
func (r *rig) overlap(seed uint64) []porcupine.Operation {
	r.Helper()
	stores := []quota.Store{r.s}
	if r.h.Share != nil {
		stores = append(stores, r.h.Share(r, r.s))
	}
	var (
		instant atomic.Int64
		known   linearTokens
		wg      sync.WaitGroup
		begin   = make(chan struct{})
		told    [linearCallers][]porcupine.Operation
	)
	for caller := range linearCallers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(caller)))
			<-begin
			for range linearCalls {
				call := drawLinearCall(random, &known)
				runtime.Gosched() // a fast store would be done with one caller before the next begins
				op := porcupine.Operation{ClientId: caller, Input: call, Call: instant.Add(1)}
				answer, err := r.makeCall(stores[caller%len(stores)], call)
				op.Return, op.Output = instant.Add(1), answer
				if err != nil {
					r.Errorf("%s: %v", call, err)
					return
				}
				known.learn(call, answer)
				told[caller] = append(told[caller], op)
			}
		})
	}
	close(begin)
	wg.Wait()
	return slices.Concat(told[:]...)
}

// makeCall makes a call to a store. Bad input counts as an answer. Any other error is a
// fault of the store.
func (r *rig) makeCall(s quota.Store, call linearCall) (linearAnswer, error) {
	var (
		answer linearAnswer
		err    error
	)
	switch call.op {
	case linearReserve:
		var v quota.Verdict
		v, err = s.Reserve(context.Background(), quota.Request{ID: call.name(), Charges: []quota.Charge{r.charge("units", call.units)}})
		answer = linearAnswer{allowed: v.Allowed, repeat: v.Repeat, used: v.Used, nonce: v.Nonce}
		if problem := unsound(r.now, r.h.SetClock != nil, &v); err == nil && problem != "" {
			r.Errorf("%s: %s: %+v", call, problem, v)
		}
	case linearSettle:
		token := quota.Token{Upstream: "api", Account: quota.DefaultAccount, ID: call.name(), Nonce: call.nonce}
		answer.settlement, err = s.Settle(context.Background(), token, quota.Units{"units": call.units})
	case linearLook:
		var pages []quota.PageState
		if pages, err = s.Look(context.Background(), []quota.Charge{r.charge("units", 0)}); err == nil {
			answer.used = pages[0].Windows[0].Used
		}
	}
	if fault(err) == "bad input" {
		return linearAnswer{bad: true}, nil
	}
	return answer, err
}

// linearTokens are the tokens of all callers, because a caller may hand on a token.
type linearTokens struct {
	mu   sync.Mutex
	byID [linearIDs][][16]byte
}

func (k *linearTokens) learn(call linearCall, answer linearAnswer) {
	if call.op == linearReserve && answer.allowed {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.byID[call.id] = append(k.byID[call.id], answer.nonce)
	}
}

// pick returns a token of an id, mostly the last. It returns false if the id has none.
func (k *linearTokens) pick(random *rand.Rand, id int) ([16]byte, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.byID[id]
	if len(all) == 0 {
		return [16]byte{}, false
	}
	if random.IntN(4) == 0 {
		return all[random.IntN(len(all))], true
	}
	return all[len(all)-1], true
}

// drawLinearCall draws a caller's next call.
func drawLinearCall(random *rand.Rand, known *linearTokens) linearCall {
	call := linearCall{op: linearReserve, id: random.IntN(linearIDs)}
	call.units = int64(1 + call.id%4) // so that an id is mostly reserved for the same
	switch n := random.IntN(20); {
	case n == 0:
		call.units++
	case n < 8:
		if nonce, ok := known.pick(random, call.id); ok {
			call.op, call.nonce = linearSettle, nonce
			if call.units = 0; random.IntN(3) == 0 {
				call.units = int64(random.IntN(6))
			}
		}
	case n < 11:
		call = linearCall{op: linearLook}
	}
	return call
}

// linearizable searches for an order. If it finds none in time, it fails the test and
// draws a picture.
func linearizable(t *testing.T, history []porcupine.Operation) bool {
	t.Helper()
	result, info := porcupine.CheckOperationsVerbose(linearPool, history, linearPatience)
	if result == porcupine.Ok {
		return true
	}
	if t.Failed() {
		return false // the store failed, so its state is unknown
	}
	picture := filepath.Join(t.ArtifactDir(), "history.html")
	if err := porcupine.VisualizePath(linearPool, info, picture); err != nil {
		t.Error(err)
	}
	picture = "a picture, for the time of this test unless it runs with -artifacts: " + picture
	if result == porcupine.Unknown {
		t.Errorf("%s was not enough to say whether %d calls can be put in an order; %s", linearPatience, len(history), picture)
		return false
	}
	t.Errorf("no order of these %d calls, one at a time, explains every answer; %s\n%s", len(history), picture, unexplained(history, info))
	return false
}

// unexplained describes the order that explains most calls, and the first calls that it
// leaves out.
func unexplained(history []porcupine.Operation, info porcupine.LinearizationInfo) string {
	best := slices.MaxFunc(info.PartialLinearizations()[0], func(a, b []int) int { return cmp.Compare(len(a), len(b)) })
	var b strings.Builder
	tell := func(op porcupine.Operation, state any) {
		fmt.Fprintf(&b, "\tcaller %d, %3d to %3d: %s", op.ClientId, op.Call, op.Return, linearPool.DescribeOperation(op.Input, op.Output))
		if state != nil {
			fmt.Fprintf(&b, "\t(%s)", linearPool.DescribeState(state))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "an order that explains %d:\n", len(best))
	state := linearPool.Init()
	left := slices.Clone(history)
	for _, i := range best {
		_, state = linearPool.Step(state, history[i].Input, history[i].Output)
		tell(history[i], state)
		left[i].Call = 0 // explained
	}
	left = slices.DeleteFunc(left, func(op porcupine.Operation) bool { return op.Call == 0 })
	slices.SortFunc(left, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	fmt.Fprintf(&b, "and then, of %d more, none can be next:\n", len(left))
	for _, op := range left[:min(len(left), linearCallers)] {
		tell(op, nil)
	}
	return b.String()
}
