package quota

import (
	"context"
	"errors"
	"time"
)

// Observer gets the events of a ledger, for logs, metrics and traces. The context is that
// of the call that caused the event, so it has the caller's span. It may have ended. An
// observer is called from the goroutines that use the ledger and must not block.
type Observer interface {
	Observe(context.Context, Event)
}

// ObserverFunc makes an [Observer] of a function that needs no context.
type ObserverFunc func(Event)

func (f ObserverFunc) Observe(_ context.Context, e Event) { f(e) }

// EventKind says what happened.
type EventKind string

// These are the kinds of events.
const (
	EventGranted    EventKind = "granted"
	EventDrawn      EventKind = "drawn" // from a hold
	EventRefused    EventKind = "refused"
	EventBlocked    EventKind = "blocked" // refused because the pool is shut
	EventImpossible EventKind = "impossible"
	EventUnpriced   EventKind = "unpriced"
	EventObserved   EventKind = "observed" // let through in mode observe; Err says why it would have been refused
	EventAdmitted   EventKind = "admitted" // while the ledger is down
	EventReplayed   EventKind = "replayed" // an admitted call was charged to the ledger
	EventOutage     EventKind = "outage"   // refused while the ledger is down
	EventFailed     EventKind = "failed"   // bad input, a stale book, a context that ended
	EventSettled    EventKind = "settled"
	EventAdjusted   EventKind = "adjusted"
	EventShut       EventKind = "shut"      // a pool was blocked
	EventOpened     EventKind = "opened"    // a block was lifted
	EventOthers     EventKind = "others"    // units of others were charged; with Err, they could not be
	EventLimit      EventKind = "limit"     // an answer reports another limit than the price book, in Units; it was adopted
	EventUnmetered  EventKind = "unmetered" // a request went to a Host that no upstream lists; with Err, it was refused
	EventSpilled    EventKind = "spilled"   // a call went to another upstream, for lack of units; Reason says to which
	EventRebased    EventKind = "rebased"   // a reservation found that the store's clock was set back by more than a window, or has returned
)

// Event is one event of a ledger. Fields that do not belong to its Kind are zero.
type Event struct {
	Kind       EventKind
	Call       Call
	Pool       Pool
	Verdict    Verdict       // granted, refused, blocked, observed, rebased
	Token      Token         // settled: whose id and account, without the secret
	Settlement Settlement    // settled
	Units      int64         // adjusted, replayed, others, limit
	Until      time.Time     // shut, replayed, limit
	BlockedBy  Blocker       // shut, replayed: who shut the pool
	Reason     string        // adjusted, shut, replayed; spilled: the other upstream, as "azure-east"
	Host       string        // unmetered
	Err        error         // impossible, unpriced, observed, outage, failed, others, unmetered; admitted: the outage
	Took       time.Duration // granted, refused, blocked: how long the store took
}

// tell calls the observer, if there is one.
func (l *Ledger) tell(ctx context.Context, e Event) {
	if l.watch != nil {
		l.watch.Observe(ctx, e)
	}
}

// Unmetered tells the observer of a request to a host that no upstream of the price book lists.
// A meter calls it. The error says why the request was refused; nil: it was sent.
func (l *Ledger) Unmetered(ctx context.Context, host string, err error) {
	if l.Book() != nil { // New has made it
		l.tell(ctx, Event{Kind: EventUnmetered, Host: host, Err: err})
	}
}

// Spilled tells the observer of a call that went to another upstream, as its book says, because its own
// had no units. A meter calls it.
func (l *Ledger) Spilled(ctx context.Context, c Call, to string) {
	if l.Book() != nil {
		l.tell(ctx, Event{Kind: EventSpilled, Call: c, Reason: to})
	}
}

// answered reports a verdict to the observer.
func (l *Ledger) answered(ctx context.Context, c *Call, v Verdict, took time.Duration) {
	if l.watch == nil {
		return
	}
	e := Event{Kind: EventGranted, Call: *c, Pool: v.Pool, Verdict: v, Took: took}
	switch {
	case !v.Allowed && l.observes(c):
		e.Kind, e.Err = EventObserved, refusal(c, v)
	case v.Impossible:
		e.Kind, e.Err = EventImpossible, refusal(c, v)
	case v.Blocked:
		e.Kind = EventBlocked
	case !v.Allowed:
		e.Kind = EventRefused
	}
	l.watch.Observe(ctx, e)
	if v.Rebased {
		e.Kind = EventRebased
		l.watch.Observe(ctx, e)
	}
}

// failed reports a call without a verdict to the observer, and returns its error.
func (l *Ledger) failed(ctx context.Context, c *Call, err error) error {
	if l.watch == nil {
		return err
	}
	e := Event{Kind: EventFailed, Call: l.told(c), Err: err}
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
	l.watch.Observe(ctx, e)
	return err
}

// unseen reports a call that was decided without the ledger, in an outage.
func (l *Ledger) unseen(ctx context.Context, c *Call, r *Reservation, outage, err error) error {
	if err != nil {
		return l.failed(ctx, c, err)
	}
	l.tell(ctx, Event{Kind: EventAdmitted, Call: *c, Pool: r.Pool, Verdict: r.Verdict, Err: outage})
	return nil
}
