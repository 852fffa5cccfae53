package quota

import (
	"errors"
	"time"
)

// Observer is told what a ledger does, for logs and metrics. It is called from
// the goroutines that use the ledger and must not block.
type Observer interface {
	Observe(Event)
}

// ObserverFunc is a function as an [Observer].
type ObserverFunc func(Event)

// Observe implements [Observer].
func (f ObserverFunc) Observe(e Event) { f(e) }

// EventKind is what happened.
type EventKind string

// What a ledger tells its observer.
const (
	EventGranted    EventKind = "granted"
	EventDrawn      EventKind = "drawn" // from a hold, which had been granted
	EventRefused    EventKind = "refused"
	EventBlocked    EventKind = "blocked" // refused because the pool is shut
	EventImpossible EventKind = "impossible"
	EventUnpriced   EventKind = "unpriced"
	EventAdmitted   EventKind = "admitted" // unseen: the ledger is not to be reached
	EventReplayed   EventKind = "replayed" // what was admitted is in the ledger now
	EventOutage     EventKind = "outage"   // refused because the ledger is not to be reached
	EventFailed     EventKind = "failed"   // bad input, a stale book, a context that ended
	EventSettled    EventKind = "settled"
	EventAdjusted   EventKind = "adjusted"
	EventShut       EventKind = "shut"    // a pool was blocked
	EventOpened     EventKind = "opened"  // a block was lifted
	EventRebased    EventKind = "rebased" // the store's clock had been far ahead, and a reservation is what found it
)

// Event is one thing that happened. Fields that do not belong to its Kind are
// zero.
type Event struct {
	Kind       EventKind
	Call       Call
	Pool       Pool
	Verdict    Verdict       // granted, refused, blocked, rebased
	Token      Token         // settled: whose id and account, without the secret
	Settlement Settlement    // settled
	Units      int64         // adjusted, replayed
	Until      time.Time     // shut, replayed
	BlockedBy  Blocker       // shut, replayed: who shut the pool
	Reason     string        // adjusted, shut, replayed
	Err        error         // impossible, unpriced, outage, failed; admitted: the outage
	Took       time.Duration // granted, refused, blocked: how long the store took
}

// tell tells the observer, if there is one.
func (l *Ledger) tell(e Event) {
	if l.watch != nil {
		l.watch.Observe(e)
	}
}

// answered tells the observer of a verdict.
func (l *Ledger) answered(c *Call, v Verdict, took time.Duration) {
	e := Event{Kind: EventGranted, Call: *c, Pool: v.Pool, Verdict: v, Took: took}
	switch {
	case v.Impossible:
		e.Kind, e.Err = EventImpossible, refusal(c, v)
	case v.Blocked:
		e.Kind = EventBlocked
	case !v.Allowed:
		e.Kind = EventRefused
	}
	l.watch.Observe(e)
	if v.Rebased {
		e.Kind = EventRebased
		l.watch.Observe(e)
	}
}

// failed tells the observer of a call that got no verdict, and returns its error.
func (l *Ledger) failed(c *Call, err error) error {
	if l.watch == nil {
		return err
	}
	e := Event{Kind: EventFailed, Call: *c, Err: err}
	var impossible *ImpossibleError
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		e.Kind, e.Pool, e.Verdict = EventRefused, refused.Pool, refused.Verdict
		if refused.Blocked {
			e.Kind = EventBlocked
		}
	case errors.As(err, &impossible):
		e.Kind, e.Pool = EventImpossible, impossible.Pool
	case errors.Is(err, ErrUnpriced):
		e.Kind = EventUnpriced
	case errors.Is(err, ErrOutage):
		e.Kind = EventOutage
	}
	l.watch.Observe(e)
	return err
}

// unseen tells the observer of a call that was decided without the ledger, because
// of an outage.
func (l *Ledger) unseen(c *Call, r *Reservation, outage, err error) error {
	if err != nil {
		return l.failed(c, err)
	}
	l.tell(Event{Kind: EventAdmitted, Call: *c, Pool: r.Pool, Verdict: r.Verdict, Err: outage})
	return nil
}
