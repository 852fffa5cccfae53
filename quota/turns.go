package quota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/fair"
	"github.com/headroom-quota/headroom/quota/window"
)

// While calls wait for the units of an account, all processes take turns, by package fair. The line is a
// note of the store. A call looks at it before it asks the store, and is held back if its flow is ahead
// of others that wait. Whether units are left, the store decides, as always: a line that is late or
// lost costs order, and no units.
//
// While nobody waits, no call looks at a line. A process learns that others wait if a call of its own is
// refused, or a pool has less left than an eighth or than its dearest method costs: then it looks in the
// background, once a second at most. Of a call of several pools, the store says only what one of them has
// left: it looks each ten seconds if another one may lack units.

const (
	// turnsFresh is how old what is known of a line may be if a call is held back by it.
	turnsFresh = 20 * time.Millisecond
	// turnsDelay is how long what calls have taken waits at most before it is written, unless a ticket is.
	turnsDelay = 50 * time.Millisecond
	// lastTurn is how long a call that is held back pauses at most before it looks again.
	lastTurn = 500 * time.Millisecond
	// turnsPatience is for how long a question for a line may take. After that, calls do without it for turnsOff.
	turnsPatience = 250 * time.Millisecond
	turnsOff      = 2 * time.Second
	// peekEvery is how often a process looks whether others wait, and peekRarely if that is less likely.
	peekEvery  = time.Second
	peekRarely = 10 * time.Second
	// nearlyUsed is which part of its limit a pool has left that is nearly used up: an eighth.
	nearlyUsed = 8
	// largestBlock is which part of a limit a block of units has at most: a sixteenth.
	largestBlock = 16
	// mostTaken bounds the calls that are remembered until they are settled.
	mostTaken = 4096
)

// turns are the lines of all accounts in which somebody waits.
type turns struct {
	keeper NoteKeeper   // nil: the store keeps no notes, so processes do not take turns
	none   atomic.Bool  // the store has said that it keeps none
	warm   atomic.Int64 // lines
	mu     sync.Mutex
	lines  map[accountKey]*turnLine
	peeked map[accountKey]time.Time // by the machine's clock
}

// turnLine is the line of an account.
type turnLine struct {
	account accountKey
	turn    chan struct{} // one change of the note at a time

	// Only the one that changes the note may use these.
	state   fair.State
	version int64
	read    time.Time // when the note was read or written last, by the ledger's clock; zero: never
	kept    bool      // the note has a text

	mu    sync.Mutex
	ahead time.Duration // the store's clock minus the ledger's
	off   time.Time     // the line does without the note until then, by the machine's clock
	news  news
	timer *time.Timer      // writes the news
	taken map[string]taken // calls that are not settled, by their ids
}

// news is what the note does not have yet.
type news struct {
	took    map[flowOf]float64     // shares of the limit
	back    map[flowOf]float64     // what settled calls took more, and if negative, gave back
	granted map[flowOf]fair.Ticket // of the last call that has its units, and would have waited
	left    []string               // the tickets of calls that wait no longer
}

// flowOf is a flow in its class.
type flowOf struct {
	class fair.Class
	flow  string
}

// taken is what a call has taken, until it is settled.
type taken struct {
	flow    flowOf
	class   book.Class
	charges []Charge // those that take turns
}

// turn is that of a call in the line of its account.
type turn struct {
	ask     fair.Ask
	line    *turnLine  // in which its ticket may be; nil if in none
	held    bool       // it was held back when it asked last
	refused bool       // the store refused it when it asked last
	class   book.Class // whose limit is lower if it keeps units free
	shown   bool       // it has left a ticket
	ahead   int        // how many calls come first
}

// turnOf returns the turn of a call; nil if it takes no units for which others wait in a line: its pools count
// calls in flight, or their limit is learned.
func (l *Ledger) turnOf(c *Call, p *price) *turn {
	if !l.turns.can() || len(p.charges) == 0 || p.learns || c.Family != "" || l.observes(c) || p.charges[0].Pool.Upstream == book.Budgets {
		return nil
	}
	t := &turn{}
	u := l.Book().Upstreams[p.charges[0].Pool.Upstream]
	if u != nil {
		t.class = u.Classes[c.Class]
	}
	if t.measure(p.charges); len(t.ask.Pools) == 0 {
		return nil
	}
	t.ask.Flow = l.flow(c)
	if class := &t.class; class.Share+class.Priority > 0 {
		t.ask.Class = fair.Class{Name: c.Class, Share: float64(class.Share) / 100, Priority: int(class.Priority)}
		t.ask.Flow += " in class " + c.Class // it has a queue of its own in this process, too
	}
	return t
}

// flow names the flow of a call: each token, each job and each process has its turns.
func (l *Ledger) flow(c *Call) string {
	switch {
	case c.Job != "":
		return pageKey(book.CallerOf(c.Job))
	case c.Owner != "":
		return c.Owner
	}
	return "process " + l.ids.prefix[:6]
}

// measure works out of which pools a call takes how much. Their limits may change while it waits.
func (t *turn) measure(charges []Charge) {
	t.ask.Pools, t.ask.Share = t.ask.Pools[:0:0], 0
	for i := range charges {
		charge := &charges[i]
		if !charge.takesTurns() {
			continue
		}
		t.ask.Pools = append(t.ask.Pools, charge.Pool.inAccount())
		if share, per := shareOf(charge, charge.Units, &t.class); share >= t.ask.Share {
			t.ask.Share, t.ask.Per, t.ask.Units = share, per, charge.Units
		}
	}
}

// takesTurns reports whether others wait for the units of a charge in a line.
func (c *Charge) takesTurns() bool {
	return c.Units > 0 && !c.Windows[0].Spec.InFlight()
}

// inAccount names a pool among those of its account.
func (p Pool) inAccount() string {
	if p.Key == "" {
		return p.Name
	}
	return p.Name + " " + p.Key
}

// shareOf returns which part of a limit units are, in the window where that is most. What a class keeps free is of the
// limit, too.
func shareOf(c *Charge, units int64, class *book.Class) (share float64, per time.Duration) {
	for i := range c.Windows {
		w := &c.Windows[i]
		limit := (w.Limit + class.KeepFree) * 100 / (100 - class.KeepFreePercent)
		if one, of := fair.Part(units, limit, w.Spec.Length()); i == 0 || one > share {
			share, per = one, of
		}
	}
	return share, per
}

// can reports whether processes take turns.
func (t *turns) can() bool { return t.keeper != nil && !t.none.Load() }

// openLine returns the line of an account, in which a call waits.
func (l *Ledger) openLine(of accountKey) *turnLine {
	t := &l.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	line := t.lines[of]
	if line == nil {
		line = &turnLine{account: of, turn: make(chan struct{}, 1), news: newNews(), taken: make(map[string]taken)}
		if t.lines == nil {
			t.lines = make(map[accountKey]*turnLine)
		}
		t.lines[of] = line
		t.warm.Add(1)
		l.closeLater(line)
	}
	return line
}

// closeLater closes a line in which nobody waits any more, so that it costs nothing if no call comes that would notice.
func (l *Ledger) closeLater(line *turnLine) {
	time.AfterFunc(2*fair.Quiet, func() {
		ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
		defer cancel()
		idle := true
		_ = line.change(ctx, l, func(s *fair.State, now window.Instant) bool { // else it is closed without its note
			idle = s.Idle(now)
			return false
		})
		if idle {
			l.turns.close(line)
		} else {
			l.closeLater(line)
		}
	})
}

// line returns the line of an account; nil if nobody has waited for long.
func (t *turns) line(of accountKey) *turnLine {
	if t.warm.Load() == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lines[of]
}

// close forgets a line in which nobody has waited for long.
func (t *turns) close(line *turnLine) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lines[line.account] == line {
		delete(t.lines, line.account)
		t.warm.Add(-1)
	}
}

// swap changes the note of a line, or reads it if the version is -1.
func (t *turns) swap(ctx context.Context, of accountKey, version int64, text string) (Note, bool, error) {
	n, done, err := t.keeper.SwapNote(ctx, "line "+of.upstream+"@"+of.account, version, text)
	if errors.Is(err, ErrNoNotes) {
		t.none.Store(true)
	}
	return n, done, err
}

// takesTurn returns the refusal of a call that is held back, and nil for one that may ask the store. If the line
// cannot be read, the store is asked, and says why.
func (l *Ledger) takesTurn(ctx context.Context, id string, charges []Charge, t *turn) *Verdict {
	t.held, t.ahead, t.ask.Wait = false, 0, 0
	first := &charges[0]
	if t.line = l.turns.line(first.account()); t.line == nil && t.ask.Waits {
		t.line = l.openLine(first.account())
	}
	if t.line == nil {
		return nil
	}
	if t.ask.ID == "" {
		t.ask.ID = l.ids.next()
	}
	t.measure(charges)
	var told fair.Answer
	idle := false
	err := t.line.change(ctx, l, func(s *fair.State, now window.Instant) bool {
		idle = !t.ask.Waits && s.Idle(now)
		// The calls of a flow need one ticket, and all processes write the same note: so not each call has one.
		shows, expected := t.ask.Stays && !idle && s.Shows(&t.ask, now), s.Expects(&t.ask, now.Add(turnsDelay))
		told = s.Ask(&t.ask, now)
		shows = shows && (told.Held || t.refused || !expected)
		t.shown = t.shown || shows
		return shows
	})
	if err == nil && idle {
		l.turns.close(t.line)
		t.line = nil
	}
	if err != nil || !told.Held {
		return nil
	}
	t.held, t.ahead = true, told.Ahead
	now := l.now()
	v := &Verdict{
		ID: id, Pool: first.Pool, Window: first.Windows[0].Name, Units: first.Units, Limit: first.Windows[0].Limit, At: now,
		RetryAfter: told.Due, RetryAt: now.Add(told.Due), ResetAt: now.Add(told.Due),
		Place: told.Ahead + 1, Reason: "1 call of others comes first",
	}
	if told.Ahead != 1 {
		v.Reason = fmt.Sprintf("%d calls of others come first", told.Ahead)
	}
	return v
}

func (c *Charge) account() accountKey {
	return accountKey{upstream: c.Pool.Upstream, account: c.Pool.Account}
}

// hadTurn notes the store's answer to a call.
func (l *Ledger) hadTurn(t *turn, v *Verdict, charges []Charge) {
	if t.refused = !v.Allowed; t.line == nil || v.Repeat || t.refused {
		return
	}
	t.line.note(l, func(n *news) {
		flow := flowOf{t.ask.Class, t.ask.Flow}
		n.took[flow] += t.ask.Share
		if t.ask.Stays {
			n.granted[flow] = t.ask.Ticket
		}
		if t.shown {
			n.left = append(n.left, t.ask.ID)
		}
		if len(t.line.taken) >= mostTaken { // callers that never settle
			clear(t.line.taken)
		}
		t.line.taken[v.ID] = taken{flow, t.class, slices.DeleteFunc(slices.Clone(charges), func(c Charge) bool { return !c.takesTurns() })}
	})
	t.line = nil
}

// leave takes a call out of line that waits no longer.
func (t *turn) leave(l *Ledger) {
	if t != nil && t.line != nil {
		t.line.note(l, func(n *news) { n.left = append(n.left, t.ask.ID) })
		t.line = nil
	}
}

// shows writes the ticket of a call again that waits for units for this long. If that fails, others do not
// wait for the call.
func (t *turn) shows(ctx context.Context, l *Ledger, of accountKey, d time.Duration) {
	if t.ask.ID == "" {
		t.ask.ID = l.ids.next()
	}
	t.line, t.ask.Wait = l.openLine(of), d // others may have closed it meanwhile
	_ = t.line.change(ctx, l, func(s *fair.State, now window.Instant) bool {
		shows := s.Shows(&t.ask, now)
		s.Ask(&t.ask, now)
		t.shown = t.shown || shows
		return shows
	})
}

// isHeld reports whether the call was held back when it asked last.
func (t *turn) isHeld() bool { return t != nil && t.held }

// waitsFor returns the turn that holds the call back, or else the one for its units.
func (c *Call) waitsFor() *turn {
	if c.billTurn.isHeld() {
		return c.billTurn
	}
	return c.turn
}

// pause is how long a call that is held back sleeps before it asks again.
func (t *turn) pause() time.Duration { return min(firstPause*time.Duration(1+t.ahead), lastTurn) }

// mostKept is how long others wait at most for a call of a class that keeps units free and has no share.
const mostKept = 5 * time.Second

// yields reports whether the class of a refused call leaves what it keeps free to others, who else would wait for it until
// enough has come back. In a calendar's period nothing does before its end, and a class without a share is not promised it.
func (t *turn) yields(v *Verdict, charges []Charge) bool {
	if t == nil || t.class.KeepFree+t.class.KeepFreePercent == 0 {
		return false
	}
	return t.class.Share == 0 && v.RetryAfter > mostKept || slices.ContainsFunc(charges, func(c Charge) bool {
		return c.Pool == v.Pool && slices.ContainsFunc(c.Windows, func(w window.Limit) bool { return w.Name == v.Window && w.Spec.Calendar() })
	})
}

// settled notes what a call has really taken.
func (t *turns) settled(l *Ledger, of Token, units Units) {
	line := t.line(accountKey{upstream: of.Upstream, account: of.Account})
	if line == nil {
		return
	}
	line.note(l, func(n *news) {
		c, known := line.taken[of.ID]
		delete(line.taken, of.ID)
		was, is := 0.0, 0.0
		for i := range c.charges {
			charge := &c.charges[i]
			share, _ := shareOf(charge, charge.Units, &c.class)
			was = max(was, share)
			if cost, named := units[chargeName(charge.Pool)]; named || units == nil {
				share, _ = shareOf(charge, cost, &c.class)
			}
			is = max(is, share)
		}
		if known && was != is {
			n.back[c.flow] += is - was
		}
	})
}

// peeks returns how often to look whether others wait: a pool is nearly used up, or a dearer call would have to wait
// for units of it. Zero is never.
func (p *price) peeks(v *Verdict) time.Duration {
	if !v.Allowed {
		if v.Blocked || v.Impossible {
			return 0
		}
		return peekEvery
	}
	here, elsewhere := v.Limit/nearlyUsed, int64(0)
	for i := range p.charges {
		c, units := &p.charges[i], int64(0)
		if i < len(p.dearest) {
			units = p.dearest[i]
		}
		if units == varies {
			units = most(c) / 2
		}
		if c.Pool.Name == v.Pool.Name {
			here = max(here, units) + min(c.Lease.Most, v.Limit/largestBlock) // others do not see what a block has left
		} else {
			elsewhere = max(elsewhere, units)
		}
	}
	switch {
	case v.Remaining < here:
		return peekEvery
	case v.Remaining < elsewhere: // the verdict does not say what the other pools have left, but it is no less
		return peekRarely
	}
	return 0
}

// peek looks in the background whether others wait.
func (l *Ledger) peek(c *Call, p *price, v *Verdict, every time.Duration) {
	t := &l.turns
	if !t.can() {
		return
	}
	of, now := accountKey{upstream: v.Pool.Upstream, account: v.Pool.Account}, SystemClock{}.Now()
	t.mu.Lock()
	last, looked := t.peeked[of]
	if t.lines[of] != nil || looked && now.Sub(last).Abs() < every {
		t.mu.Unlock()
		return
	}
	if t.peeked == nil || len(t.peeked) >= mostTaken {
		t.peeked = make(map[accountKey]time.Time)
	}
	t.peeked[of] = now
	t.mu.Unlock()
	if l.turnOf(c, p) == nil {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), peekEvery)
		defer cancel()
		n, _, err := t.swap(ctx, of, -1, "")
		if s := readNote[fair.State](n); err == nil && !s.Idle(window.At(n.Now)) { // else the next call meets the same fault
			l.openLine(of)
		}
	}()
}

// varies stands for a price that depends on the call.
const varies = window.MaxUnits

// Waiting is the first call of a flow that waits for units, in one process.
type Waiting struct {
	Flow  string // whose it is: the name of a job or a token, or "process k3d9ab"
	Units int64  // of the pool of which it takes the largest part
	Since time.Time
	pools []string
}

// waiting returns who waits for the units of an account, in the order of their turns. If the line cannot be
// read, nobody is known to wait.
func (l *Ledger) waiting(ctx context.Context, of accountKey) (all []Waiting) {
	if !l.turns.can() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, turnsPatience)
	defer cancel()
	n, _, err := l.turns.swap(ctx, of, -1, "")
	if err != nil {
		return nil
	}
	s := readNote[fair.State](n)
	for _, t := range s.Waiting(window.At(n.Now)) {
		all = append(all, Waiting{t.Flow, t.Units, t.Since.Time(), t.Pools})
	}
	return all
}

// waitingFor returns those who wait for a pool.
func waitingFor(all []Waiting, pool Pool) (some []Waiting) {
	for _, w := range all {
		if slices.Contains(w.pools, pool.inAccount()) {
			some = append(some, w)
		}
	}
	return some
}
