package storekit

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// maxApart bounds the operations that are under way apart from their callers.
const maxApart = 256

// Apart runs operations of a store apart from the patience of their callers. A caller whose
// context ends first gets the context's error, which says nothing about the store. Its operation
// goes on, for as long as the store's own timeout allows, and only that result counts.
//
// At most 256 operations are under way. Another caller waits for its turn, so that callers that leave
// cannot pile up work that nobody waits for.
type Apart chan struct{}

// NewApart returns an Apart without operations.
func NewApart() Apart { return make(Apart, maxApart) }

// Run runs an operation, and returns its result. If the context ends before that, Run returns the
// context's error. When the operation then succeeds, Run calls late, which may be nil. The
// operation runs under a context of [Within], and must end by itself. It runs in the caller's goroutine if the
// context cannot end, or is of [Within] itself.
func Run[T any](ctx context.Context, a Apart, do func() (T, error), late func(T)) (T, error) {
	if ctx.Done() == nil || RunsApart(ctx) {
		return do()
	}
	var none T
	select {
	case a <- struct{}{}:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	o := &operation[T]{done: make(chan struct{})}
	go func() {
		defer func() { <-a }()
		o.run(do)
		if o.taken.CompareAndSwap(false, true) {
			close(o.done)
			return
		}
		if o.panicked != nil {
			panic(o.panicked) // nobody else can report it
		}
		if o.err == nil && late != nil {
			late(o.value)
		}
	}()
	select {
	case <-o.done:
	case <-ctx.Done():
		if o.taken.CompareAndSwap(false, true) {
			return none, ctx.Err()
		}
		<-o.done // both at the same moment
	}
	if o.panicked != nil {
		panic(o.panicked)
	}
	return o.value, o.err
}

// operation is an operation under way.
type operation[T any] struct {
	taken    atomic.Bool // by its caller, who has left, or by its end
	done     chan struct{}
	value    T
	err      error
	panicked any // what its caller must panic with
}

func (o *operation[T]) run(do func() (T, error)) {
	defer func() { o.panicked = recover() }()
	o.value, o.err = do()
}

// Reserve runs a reservation. If its caller has left when it is granted, Reserve releases it, unless
// the caller chose the id. A caller that chose the id may ask again, and gets what was granted.
func (a Apart) Reserve(ctx context.Context, r quota.Request, reserve func(context.Context, quota.Request) (quota.Verdict, error), settle func(context.Context, quota.Token, quota.Units) (quota.Settlement, error)) (quota.Verdict, error) {
	apart := Within(context.Background(), ctx)
	r.Charges = Own(ctx, r.Charges)
	return Run(ctx, a, func() (quota.Verdict, error) { return reserve(apart, r) }, func(v quota.Verdict) {
		if !r.Fresh || !v.Allowed || v.Token().ID == "" {
			return
		}
		for _, pause := range releasing { // without an answer it counts as spent
			time.Sleep(pause)
			if _, err := settle(apart, v.Token(), nil); err == nil {
				return
			}
		}
	})
}

// releasing is how long each attempt waits to release what nobody took.
var releasing = []time.Duration{0, 100 * time.Millisecond, time.Second}

// Own returns a copy of what belongs to a caller that may leave, and then use it again.
func Own[T any](ctx context.Context, all []T) []T {
	if ctx.Done() == nil {
		return all
	}
	return slices.Clone(all)
}

// Within returns the context of an operation that runs apart from its caller. It ends with life, and has
// the values of the caller's context.
func Within(life, caller context.Context) context.Context { return &within{life, caller} }

// RunsApart reports whether a context is of [Within]: if it ends, no caller has left.
func RunsApart(ctx context.Context) bool { return ctx.Value(apartKey{}) != nil }

// apartKey finds the context of an operation that runs apart.
type apartKey struct{}

type within struct {
	context.Context
	caller context.Context //nolint:containedctx // only its values
}

func (w *within) Value(key any) any {
	if key == any(apartKey{}) {
		return w
	}
	if v := w.Context.Value(key); v != nil { // what contexts know of their parents
		return v
	}
	return w.caller.Value(key)
}

var waiting sync.Mutex // two that close a store at a time would each wait for the places of the other

// Wait waits for the operations under way. A store that is being closed calls it first.
func (a Apart) Wait() {
	waiting.Lock()
	defer waiting.Unlock()
	for range cap(a) {
		a <- struct{}{}
	}
	for range cap(a) {
		<-a
	}
}
