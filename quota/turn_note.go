package quota

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/quota/fair"
	"github.com/headroom-quota/headroom/quota/window"
)

// How the line of an account is read and written.

// note notes news, which are written a moment later, or with the next ticket.
func (t *turnLine) note(l *Ledger, add func(*news)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	add(&t.news)
	if len(t.news.took)+len(t.news.granted)+len(t.news.left) > mostTaken { // the ledger has been down for long
		t.news = newNews()
	}
	if t.timer == nil && !t.news.none() {
		t.timer = time.AfterFunc(turnsDelay, func() { t.write(l) })
	}
}

func newNews() news {
	return news{took: make(map[flowOf]float64), back: make(map[flowOf]float64), granted: make(map[flowOf]fair.Ticket)}
}

func (n *news) none() bool { return len(n.took)+len(n.back)+len(n.granted)+len(n.left) == 0 }

// tell tells a state the news.
func (n *news) tell(s *fair.State, now window.Instant) {
	for of, share := range n.took {
		s.Took(of.class, of.flow, share, now)
	}
	for of, share := range n.back {
		s.Corrected(of.class, of.flow, share, now)
	}
	for _, id := range n.left {
		s.Leave(id)
	}
	for _, ticket := range n.granted {
		s.Granted(ticket, now)
	}
}

// addTo adds news to later ones.
func (n *news) addTo(later *news) {
	for of, share := range n.took {
		later.took[of] += share
	}
	for of, share := range n.back {
		later.back[of] += share
	}
	for of, ticket := range n.granted {
		if _, newer := later.granted[of]; !newer {
			later.granted[of] = ticket
		}
	}
	later.left = append(n.left, later.left...)
}

// write writes the news. If that fails, they are lost, which costs order, and no units.
func (t *turnLine) write(l *Ledger) {
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	t.mu.Lock()
	t.timer = nil
	t.mu.Unlock()
	_ = t.change(ctx, l, nil)
}

// writeTurns writes all news. If that fails, they are lost, which costs order, and no units.
func (l *Ledger) writeTurns(ctx context.Context) {
	l.turns.mu.Lock()
	all := slices.Collect(maps.Values(l.turns.lines))
	l.turns.mu.Unlock()
	for _, line := range all {
		_ = line.change(ctx, l, nil)
	}
}

// change changes the line, and tells it the news. Do says whether it has changed the state so that it must be
// written; it may be called several times. Nil writes the news, if there are some. No call waits long for a
// line: after an error, calls do without it for a while.
func (t *turnLine) change(ctx context.Context, l *Ledger, do func(*fair.State, window.Instant) bool) (err error) {
	ctx, cancel := context.WithTimeout(ctx, turnsPatience)
	defer cancel()
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	t.mu.Lock()
	news, ahead, off := t.news, t.ahead, SystemClock{}.Now().Before(t.off)
	t.news = newNews()
	t.mu.Unlock()
	if off {
		return errLineOff
	}
	defer func() {
		if err != nil {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.read, t.off = time.Time{}, SystemClock{}.Now().Add(turnsOff)
		}
	}()
	for range mostSwaps {
		if t.read.IsZero() {
			if err := t.reads(ctx, l); err != nil {
				return err
			}
			continue
		}
		now := l.clock.Now()
		s, at := t.state.Clone(), window.At(now.Add(ahead))
		news.tell(&s, at)
		write := do == nil && !news.none() && !s.Idle(at) || do != nil && do(&s, at)
		if !write && now.Sub(t.read).Abs() > turnsFresh {
			t.read = time.Time{}
			continue
		}
		text := ""
		if write {
			text = encode(&s, at)
		} else if !t.kept || !s.Idle(at) {
			if !news.none() && !s.Idle(at) {
				t.note(l, news.addTo)
			}
			return nil // else nobody needs the note any more
		}
		n, swapped, err := l.turns.swap(ctx, t.account, t.version, text)
		if err != nil {
			return err
		}
		if t.saw(n, l.clock.Now()); swapped {
			return nil
		}
	}
	return errLineOff
}

// errLineOff is the error of a line that calls do without for a while.
var errLineOff = errors.New("the line cannot be read or written")

// encode makes the text of a note.
func encode(s *fair.State, now window.Instant) string {
	for {
		text, err := json.Marshal(s)
		if err != nil {
			return "" // no number of a state does that
		}
		if len(text) <= MaxNote || !s.Shrink(now) {
			return string(text)
		}
	}
}

// reads reads the note.
func (t *turnLine) reads(ctx context.Context, l *Ledger) error {
	n, _, err := l.turns.swap(ctx, t.account, -1, "")
	if err == nil {
		t.saw(n, l.clock.Now())
	}
	return err
}

// saw takes what a note says.
func (t *turnLine) saw(n Note, now time.Time) {
	t.state, t.version, t.read, t.kept = readNote[fair.State](n), n.Version, now, n.Text != ""
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ahead = n.Now.Sub(now)
}
