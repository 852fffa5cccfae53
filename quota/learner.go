package quota

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota/pace"
	"github.com/headroom-quota/headroom/quota/window"
)

// learner is what a ledger knows of one of them.
type learner struct {
	pool Pool
	turn chan struct{} // one change of the note at a time

	// Who has the turn may use these.
	state   pace.State
	version int64
	read    time.Time // when the note was read or written last, by the ledger's clock; zero: never
	unsure  *unsure   // a write without an answer; else nil

	mu     sync.Mutex
	bounds pace.Bounds
	ahead  time.Duration       // the store's clock minus the ledger's
	open   bool                // a call was refused, and none has passed since
	held   bool                // calls wait for answers: for that of the probe, or for places
	most   int                 // of sent, before old ones are forgotten
	sent   map[string]sentCall // calls of this process that have no answer yet, by their ids
	told   []told              // that the note does not have
	timer  *time.Timer         // writes them
}

// unsure is a write of which is not known whether it has reached the note.
type unsure struct {
	text string
	told int            // how many answers it had
	sent window.Instant // the call that it let through, which then was not sent; or 0
}

// sentCall is a call that was sent.
type sentCall struct {
	at    window.Instant
	units int64
	tells bool  // see Call.TellsAnswer
	nonce Nonce // of its receipt
}

// told is what became of a call.
type told struct {
	sentCall
	by    time.Time // when it was told, by the ledger's clock
	as    answer
	named time.Duration // the wait that a refusal has named
	owner bool          // the call is known; else somebody has only said that there was a refusal
}

type answer int

const (
	wasAccepted answer = iota
	wasRefused
	wasNotSent
	wasUnclear // it was sent, and may have been refused
)

// has reports whether a call was sent and has no answer yet.
func (lr *learner) has(id string) bool {
	lr.mu.Lock()
	defer lr.mu.Unlock()
	_, sent := lr.sent[id]
	return sent
}

// change changes the note. What was told is written along. Do says whether it has changed the state;
// it may be called several times. With reads, what is known must be fresh.
func (lr *learner) change(ctx context.Context, l *Ledger, reads bool, do func(*pace.State, pace.Bounds, window.Instant) bool) error {
	keeper, can := l.store.(NoteKeeper)
	if !can {
		return ErrNoNotes
	}
	select {
	case lr.turn <- struct{}{}:
		defer func() { <-lr.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout) // so that nobody keeps the turn for ever
	defer cancel()
	for range mostSwaps {
		if now := l.clock.Now(); lr.read.IsZero() || reads && now.Sub(lr.read).Abs() > learnedFresh {
			n, _, err := keeper.SwapNote(ctx, lr.name(), -1, "")
			if err != nil {
				return err
			}
			lr.state = readNote[pace.State](n)
			lr.saw(n, now)
		}
		lr.mu.Lock()
		all, b, ahead := slices.Clone(lr.told), lr.bounds, lr.ahead
		lr.mu.Unlock()
		s := lr.state.Clone()
		for i := range all {
			all[i].tell(&s, b, ahead)
		}
		if !do(&s, b, window.At(l.clock.Now().Add(ahead))) && len(all) == 0 {
			return nil
		}
		text, err := json.Marshal(&s)
		if err != nil {
			return err
		}
		n, swapped, err := keeper.SwapNote(ctx, lr.name(), lr.version, string(text))
		if err != nil {
			lr.read, lr.unsure = time.Time{}, &unsure{text: string(text), told: len(all)}
			if sent := latest(&s); sent > latest(&lr.state) {
				lr.unsure.sent = sent
			}
			return err
		}
		if !swapped {
			lr.state = readNote[pace.State](n)
			lr.saw(n, l.clock.Now())
			continue
		}
		lr.state = s
		lr.saw(n, l.clock.Now())
		lr.mu.Lock()
		defer lr.mu.Unlock()
		lr.told = slices.Delete(lr.told, 0, len(all))
		return nil
	}
	return fmt.Errorf("others have changed what is known of %s %d times meanwhile", lr.pool, mostSwaps)
}

// latest returns when the last call in flight was sent, or 0.
func latest(s *pace.State) window.Instant {
	if n := len(s.Flight); n > 0 {
		return s.Flight[n-1].At
	}
	return 0
}

// name is that of the note.
func (lr *learner) name() string { return "learned " + lr.pool.String() }

// saw takes the version and the time of a note.
func (lr *learner) saw(n Note, now time.Time) {
	lr.version, lr.read = n.Version, now
	lr.mu.Lock()
	defer lr.mu.Unlock()
	lr.ahead, lr.open, lr.held = n.Now.Sub(now), lr.state.Open != 0, lr.state.Open != 0 || lr.state.Places > 0
	if u := lr.unsure; u != nil {
		if lr.unsure = nil; n.Text == u.text { // it was written
			lr.told = slices.Delete(lr.told, 0, min(u.told, len(lr.told)))
			if u.sent != 0 {
				lr.told = append(lr.told, told{sentCall: sentCall{at: u.sent}, by: now, as: wasNotSent, owner: true})
			}
		}
	}
}

// tell tells a state what became of a call.
func (t *told) tell(s *pace.State, b pace.Bounds, ahead time.Duration) {
	sent, by := t.at, window.At(t.by.Add(ahead))
	if !t.owner {
		if sent = by; s.Open != 0 && s.Probe != 0 { // only the probe is under way
			sent = s.Probe
		}
	}
	switch t.as {
	case wasAccepted:
		s.Accepted(b, sent, by, float64(t.units))
	case wasRefused:
		s.Refused(b, sent, by, t.named)
	case wasNotSent:
		s.Unsent(b, sent, by)
	case wasUnclear:
		s.Unclear(sent, by)
	}
}

// hear notes what became of a call.
func (lr *learner) hear(l *Ledger, id string, as answer, settled bool) {
	lr.mu.Lock()
	c, sent := lr.sent[id]
	if !sent || settled && c.tells {
		lr.mu.Unlock()
		return
	}
	delete(lr.sent, id)
	lr.note(l, told{sentCall: c, as: as, owner: true})
	lr.mu.Unlock()
	lr.wake(l)
}

// wake wakes who waits for an answer.
func (lr *learner) wake(l *Ledger) {
	lr.mu.Lock()
	held := lr.held
	lr.mu.Unlock()
	if held {
		l.line.freed([]Pool{lr.pool}, 0, time.Time{})
	}
}

// note notes what became of a call, to be written a moment later. The caller holds the lock.
func (lr *learner) note(l *Ledger, t told) {
	t.by = l.clock.Now()
	if lr.told = append(lr.told, t); len(lr.told) > mostSent { // the ledger has been down for long
		lr.told = slices.Delete(lr.told, 0, len(lr.told)-mostSent)
	}
	delay := learnedDelay
	if lr.open {
		delay = 0 // others wait for it
	}
	if lr.timer == nil {
		lr.timer = time.AfterFunc(delay, func() { lr.write(l) })
	} else if delay == 0 {
		lr.timer.Reset(0)
	}
}
