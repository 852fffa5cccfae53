// Package breaker is a circuit breaker for stores. It keeps a ledger that is down from
// adding its timeout to every call. [New] returns a store that fails at once while the
// store behind it is down.
//
// After three failures in a row the store counts as down. Those three calls wait for the
// full timeout. All other calls in flight fail at that moment. Later calls fail at once,
// with [ErrOpen]. Every few seconds a probe in the background asks whether the store is
// back.
//
// A caller's deadline or cancellation ends the caller's wait only. Its request goes on for as long as
// the store's own timeout allows, and that result counts. So impatient callers cannot make a
// healthy store count as down, and a store that hangs is found out even if no caller
// waits for its timeout. See [storekit.Apart].
package breaker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
)

// ErrOpen means that the store was not asked, because it is down. It matches
// [quota.ErrNotAsked].
var ErrOpen = fmt.Errorf("the ledger did not answer lately, so %w", quota.ErrNotAsked)

var errNotMade = quota.BadInput("this store was not made by breaker.New, or has no store behind it")

// errGivenUp is the error of calls in flight when the store went down. The store may have
// taken them.
var errGivenUp = errors.New("the ledger went down before it answered")

// Options are the settings of a [Store]. Nil is legal.
type Options struct {
	Probe   time.Duration   // time until the next probe; zero is 5s
	Changed func(dead bool) // called when the store goes down and when it is back; may be nil
}

const (
	failures     = 3 // in a row until the store counts as down
	probeTimeout = 2 * time.Second
)

// Store is a [quota.Store] behind a breaker.
type Store struct {
	store   storekit.Whole
	breaker *gobreaker.CircuitBreaker[any]
	apart   storekit.Apart
	life    atomic.Pointer[life]
	last    atomic.Pointer[error] // the last failure of the store
}

// life is the time until the store next goes down.
type life struct {
	context.Context
	end context.CancelFunc
}

// begin begins a life.
func (s *Store) begin() {
	ctx, end := context.WithCancel(context.Background())
	s.life.Store(&life{ctx, end})
}

var _ storekit.Whole = (*Store)(nil)

// New puts a breaker before a store.
func New(store quota.Store, o *Options) *Store {
	o = cmp.Or(o, &Options{})
	s := &Store{store: storekit.Complete(store), apart: storekit.NewApart()}
	s.begin()
	s.breaker = gobreaker.NewCircuitBreaker[any](gobreaker.Settings{
		Name:         "ledger",
		MaxRequests:  1,
		Timeout:      cmp.Or(o.Probe, 5*time.Second),
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= failures },
		IsSuccessful: answered,
		OnStateChange: func(_ string, from, to gobreaker.State) {
			switch to {
			case gobreaker.StateOpen:
				s.life.Load().end()
			case gobreaker.StateClosed:
				s.begin()
			}
			if o.Changed != nil && (to == gobreaker.StateOpen && from == gobreaker.StateClosed || to == gobreaker.StateClosed) {
				o.Changed(to == gobreaker.StateOpen)
			}
		},
	})
	return s
}

// answered reports whether the store has answered: to say no, to find fault with
// the question, or to have forgotten, is an answer.
func answered(err error) bool {
	return err == nil || errors.Is(err, quota.ErrBadInput) || errors.Is(err, quota.ErrStaleBook) || errors.Is(err, quota.ErrNoLimits) ||
		errors.As(err, new(*quota.ForgottenError))
}

// note remembers what is wrong with the store, and returns it.
func (s *Store) note(err error) error {
	if !answered(err) {
		s.last.Store(&err)
	}
	return err
}

// because is the error of a call that a store which is down did not answer, and what is wrong
// with the store.
func (s *Store) because(err error) error {
	if last := s.last.Load(); last != nil {
		return fmt.Errorf("%w (the last error: %v)", err, *last) //nolint:errorlint // it is not this call's
	}
	return err
}

// through asks the store if it is alive, apart from the caller's patience.
func through[T any](ctx context.Context, s *Store, probe []quota.Charge, ask func(context.Context) (T, error)) (T, error) {
	if err := s.ready(ctx, probe); err != nil {
		var none T
		return none, err
	}
	return storekit.Run(ctx, s.apart, func() (T, error) { return try(ctx, s, ask) }, nil)
}

// ready returns an error if the store must not be asked. It lets a probe ask whether the store is back.
func (s *Store) ready(ctx context.Context, probe []quota.Charge) error {
	if s == nil || s.store == nil {
		return errNotMade
	}
	if err := ctx.Err(); err != nil {
		return err // before it was asked
	}
	if len(probe) > 0 && s.breaker.State() == gobreaker.StateHalfOpen {
		first := probe[0] // the caller may use its slice again
		s.probe(func(ctx context.Context) error {
			_, err := s.store.Look(ctx, []quota.Charge{first})
			return err
		})
	}
	if s.breaker.State() != gobreaker.StateClosed {
		return s.because(ErrOpen)
	}
	return nil
}

// try asks the store, and counts its answer.
func try[T any](ctx context.Context, s *Store, ask func(context.Context) (T, error)) (T, error) {
	got, err := s.breaker.Execute(func() (any, error) {
		life := s.life.Load()
		v, err := ask(storekit.Within(life.Context, ctx))
		switch {
		case err == nil:
		case life.Err() != nil:
			err = s.because(errGivenUp)
		default:
			err = s.note(err)
		}
		return v, err
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		err = s.because(ErrOpen)
	}
	value, _ := got.(T)
	return value, err
}

// probe looks whether the store is back, in the background, if it is time to. The breaker lets
// one through at a time.
func (s *Store) probe(look func(context.Context) error) {
	if s == nil || s.store == nil || s.breaker.State() != gobreaker.StateHalfOpen {
		return
	}
	go func() {
		_, _ = s.breaker.Execute(func() (any, error) {
			ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
			defer cancel()
			return nil, s.note(look(ctx))
		})
	}()
}

func (s *Store) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	if err := s.ready(ctx, r.Charges); err != nil {
		return quota.Verdict{}, err
	}
	return s.apart.Reserve(ctx, r, func(ctx context.Context, r quota.Request) (quota.Verdict, error) {
		return try(ctx, s, func(ctx context.Context) (quota.Verdict, error) { return s.store.Reserve(ctx, r) })
	}, s.Settle)
}

// Close waits for the requests under way, whose callers may have left. Call it before the store behind the
// breaker is closed.
func (s *Store) Close() error {
	if s != nil && s.store != nil {
		s.apart.Wait()
	}
	return nil
}

func (s *Store) Settle(ctx context.Context, t quota.Token, units quota.Units) (quota.Settlement, error) {
	if ctx.Done() != nil {
		units = maps.Clone(units) // the caller may leave, and use it again: so below
	}
	return through(ctx, s, nil, func(ctx context.Context) (quota.Settlement, error) { return s.store.Settle(ctx, t, units) })
}

func (s *Store) Slots(ctx context.Context, tokens []quota.Token, done bool) ([]bool, error) {
	tokens = storekit.Own(ctx, tokens)
	return through(ctx, s, nil, func(ctx context.Context) ([]bool, error) { return s.store.Slots(ctx, tokens, done) })
}

func (s *Store) Record(ctx context.Context, r quota.Request) (quota.Units, error) {
	r.Charges = storekit.Own(ctx, r.Charges)
	return through(ctx, s, r.Charges, func(ctx context.Context) (quota.Units, error) { return s.store.Record(ctx, r) })
}

func (s *Store) Block(ctx context.Context, b quota.BlockRequest) error {
	b.Charges = storekit.Own(ctx, b.Charges)
	_, err := through(ctx, s, b.Charges, func(ctx context.Context) (any, error) { return nil, s.store.Block(ctx, b) })
	return err
}

func (s *Store) Look(ctx context.Context, charges []quota.Charge) ([]quota.PageState, error) {
	charges = storekit.Own(ctx, charges)
	return through(ctx, s, charges, func(ctx context.Context) ([]quota.PageState, error) { return s.store.Look(ctx, charges) })
}

func (s *Store) Spend(ctx context.Context, q quota.SpendQuery) ([]quota.Spent, error) {
	return through(ctx, s, nil, func(ctx context.Context) ([]quota.Spent, error) { return s.store.Spend(ctx, q) })
}

// Identity implements [quota.Identified]; it is empty if the store behind the breaker
// has none.
func (s *Store) Identity(ctx context.Context, upstream, account string) (string, error) {
	ask := func(ctx context.Context) (string, error) { return s.store.Identity(ctx, upstream, account) }
	s.probe(func(ctx context.Context) error { _, err := ask(ctx); return err }) // a replay asks this first
	return through(ctx, s, nil, ask)
}

// Keys implements [quota.KeyLister]; a store that lists no keys has none.
func (s *Store) Keys(ctx context.Context, pool quota.Pool, most int) (keys []string, all int, err error) {
	type listed struct {
		keys []string
		all  int
	}
	l, err := through(ctx, s, nil, func(ctx context.Context) (l listed, err error) {
		l.keys, l.all, err = s.store.Keys(ctx, pool, most)
		return l, err
	})
	return l.keys, l.all, err
}
