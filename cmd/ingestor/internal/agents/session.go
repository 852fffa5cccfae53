package agents

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

const (
	mostWaiting = 16      // calls of a session that wait for units at once; the others do not wait
	mostOpen    = 10_000  // reservations that a session can still settle, and ids of its own that it has settled
	mostUnits   = 1 << 32 // of a pool; a sum of them fits into a budget's number
	settleIn    = 10 * time.Second
)

// session is what an agent does from the time it connects until it hangs up.
type session struct {
	ledger *quota.Ledger
	o      *Options
	log    *slog.Logger
	prefix string // of the ids of its calls in the ledger, which no other session has

	ended   context.Context
	stop    context.CancelFunc
	calls   sync.WaitGroup
	waiting chan struct{}

	mu     sync.Mutex
	closed bool
	spent  int64 // of the budget
	number int   // of its last reservation without an id
	open   map[string]*held
	gone   map[string]bool // ids that were settled
	busy   map[string]chan struct{}
}

// held is a reservation that is not settled.
type held struct {
	*quota.Reservation
	fixed []string // pools in which the price book has the price of the call
}

func newSession(ctx context.Context, l *quota.Ledger, o *Options) *session {
	s := &session{ledger: l, o: o, log: cmp.Or(o.Log, slog.Default()), prefix: rand.Text() + "/", waiting: make(chan struct{}, mostWaiting), open: map[string]*held{}, gone: map[string]bool{}, busy: map[string]chan struct{}{}}
	s.ended, s.stop = context.WithCancel(ctx)
	return s
}

func (s *session) begin(ctx context.Context) (_ context.Context, done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, errors.New("the session has ended")
	}
	s.calls.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ended, cancel)
	return ctx, func() { stop(); cancel(); s.calls.Done() }, nil
}

// end ends the session. What was not settled counts as spent, and its slots are given back.
func (s *session) end() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.calls.Wait()
	for _, r := range s.open {
		if err := r.Done(context.Background()); err != nil {
			s.log.Warn("give back the slots of a session", "error", err)
		}
	}
	log := s.log.With("job", s.o.Job, "units", s.spent)
	if s.o.Budget > 0 {
		log = log.With("of", s.o.Budget)
	}
	log.Info("the session has ended", "not_settled", len(s.open))
}

// budget is what a session may spend, of all pools together.
type budget struct {
	Budget int64 `json:"budget"`
	Spent  int64 `json:"spent"`
	Left   int64 `json:"left"`
}

func (s *session) budget() *budget {
	if s.o.Budget == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &budget{s.o.Budget, s.spent, max(s.o.Budget-s.spent, 0)}
}

// take takes units of the budget, or reports that it has not so many left. Fewer than none
// gives some back.
func (s *session) take(units int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if units > 0 && s.o.Budget > 0 && units > s.o.Budget-s.spent {
		return false
	}
	s.spent += units
	return true
}

func (s *session) may(upstream string) error {
	if upstream == "" || len(s.o.Upstreams) == 0 || slices.Contains(s.o.Upstreams, upstream) {
		return nil
	}
	return quota.BadInput("this session may not use the upstream %.80q; it may use %s", upstream, strings.Join(s.o.Upstreams, ", "))
}

// wantedReservation are the arguments of the tool reserve.
type wantedReservation struct {
	wantedCall
	ID   string  `json:"id,omitempty" jsonschema:"makes retries safe: the same id in this session is charged once"`
	Wait float64 `json:"wait,omitempty" jsonschema:"seconds to wait for units; the operator bounds them"`
}

// reservation is the answer of the tool reserve.
type reservation struct {
	Allowed    bool             `json:"allowed" jsonschema:"make the call only if this is true"`
	Message    string           `json:"message"`
	ID         string           `json:"id,omitempty" jsonschema:"for settle"`
	Charges    map[string]int64 `json:"charges,omitempty" jsonschema:"units by pool"`
	Bill       *int64           `json:"bill,omitempty" jsonschema:"what its budgets in money keep for it, in millionths of a dollar; settle it as USD"`
	Code       string           `json:"code,omitempty" jsonschema:"why it is not allowed: budget, refused, blocked, impossible or outage"`
	RetryAfter float64          `json:"retry_after,omitempty" jsonschema:"seconds after which the same call may be allowed"`
	Session    *budget          `json:"session,omitempty"`
}

// reserve takes the units of a call.
func (s *session) reserve(ctx context.Context, in wantedReservation) (reservation, error) {
	call, err := s.call(&in.wantedCall)
	if err != nil {
		return reservation{}, err
	}
	done, err := s.alone(ctx, in.ID)
	if err != nil {
		return reservation{}, err
	}
	defer done()
	id, known, err := s.name(in.ID)
	if err != nil {
		return reservation{}, err
	}
	call.ID = s.prefix + id
	guess := sum(s.price(&call))
	if known { // the ledger charges nothing more
		guess = 0
	}
	if !s.take(guess) {
		return s.overBudget(guess), nil
	}
	granted, err := s.wait(ctx, call, in.Wait)
	if err != nil {
		s.take(-guess)
		return s.refused(err)
	}
	cost := sum(granted.Charges())
	switch {
	case known && granted.Repeat:
	case !s.take(cost - guess):
		s.take(-guess)
		if _, err := granted.Release(context.WithoutCancel(ctx)); err != nil {
			s.log.Warn("give back units that the budget of a session has not left", "error", err)
		}
		return s.overBudget(cost), nil
	default:
		s.mu.Lock()
		s.open[id] = &held{granted, s.fixed(&call)}
		s.mu.Unlock()
		s.freeSlots(&call, granted)
	}
	answer := reservation{Allowed: true, ID: id, Charges: granted.Charges(), Session: s.budget(), Message: "make the call"}
	if bill, has := granted.Bill(); has {
		answer.Bill = &bill
	}
	if known && granted.Repeat {
		answer.Message += "; this id was granted before, and nothing more was charged"
	}
	return answer, nil
}

// name returns the id of a reservation, and whether the session has one of that id. An id
// that was settled is an error: the ledger would return its grant, and charge nothing.
func (s *session) name(wanted string) (id string, known bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case wanted == "":
		s.number++
		return "#" + strconv.Itoa(s.number), false, nil
	case wanted[0] == '#': // it would be one of those, now or later
		return "", false, quota.BadInput("id %.80q begins with #, as those that reserve makes do; leave the # out", wanted)
	case len(s.gone) >= mostOpen:
		return "", false, quota.BadInput("this session has settled %d ids of its own; leave the id out", mostOpen)
	case s.gone[wanted]:
		return "", false, quota.BadInput("id %.80q was settled before; use a new one for another call", wanted)
	}
	return wanted, s.open[wanted] != nil, nil
}

// wait reserves, and waits for units at most as long as the operator allows.
func (s *session) wait(ctx context.Context, call quota.Call, seconds float64) (granted *quota.Reservation, err error) {
	s.mu.Lock()
	full := len(s.open) >= mostOpen
	s.mu.Unlock()
	if full {
		return nil, quota.BadInput("this session has %d reservations that are not settled; settle some of them", mostOpen)
	}
	longest := s.o.Wait
	if seconds < longest.Seconds() {
		longest = time.Duration(max(seconds, 0) * float64(time.Second))
	}
	if s.o.Trace != nil {
		ended := s.o.Trace(ctx)
		defer func() { ended(granted, err) }()
	}
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
		return s.ledger.Wait(ctx, call, longest)
	default:
		return s.ledger.Reserve(ctx, call)
	}
}

// overBudget returns the answer to a call that the budget has not enough left for.
func (s *session) overBudget(cost int64) reservation {
	b := s.budget()
	return reservation{Code: "budget", Session: b, Message: fmt.Sprintf(
		"the budget of this session is %d units, and %d of them are left; the call costs %d. Do not make it: the budget does not come back before the session ends", b.Budget, b.Left, cost)}
}

// refused returns the answer to a call that was not granted, or an error for one that makes
// no sense.
func (s *session) refused(err error) (reservation, error) {
	p := problem.Of(s.ledger.Book(), err)
	if p.Verdict == nil && p.Code != "outage" && p.Code != "stale_book" {
		return reservation{}, err
	}
	answer := reservation{Code: p.Code, Message: p.Error(), RetryAfter: p.RetryAfter.Seconds(), Session: s.budget()}
	if p.Code == "outage" || p.Code == "stale_book" {
		s.log.Warn("a reservation failed", "error", err)
	}
	return answer, nil
}

// wantedSettlement are the arguments of the tool settle.
type wantedSettlement struct {
	ID        string           `json:"id" jsonschema:"that reserve returned"`
	Units     map[string]int64 `json:"units,omitempty" jsonschema:"what the call really cost, by pool"`
	NeverSent bool             `json:"never_sent,omitempty" jsonschema:"the call certainly never left: its units come back"`
}

// settlement is the answer of the tool settle.
type settlement struct {
	Back    int64   `json:"back" jsonschema:"units that came back"`
	Charged int64   `json:"charged" jsonschema:"units that were charged on top"`
	Bill    *int64  `json:"bill,omitempty" jsonschema:"what the call has cost in money, in millionths of a dollar"`
	Session *budget `json:"session,omitempty"`
}

// settle corrects a reservation of this session. Its effect must not depend on whether the
// agent waits for the answer.
func (s *session) settle(ctx context.Context, in wantedSettlement) (settlement, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleIn)
	defer cancel()
	s.mu.Lock()
	granted := s.open[in.ID]
	delete(s.open, in.ID) // one call of the tool settles it
	s.mu.Unlock()
	if granted == nil {
		return settlement{}, quota.BadInput("this session has no reservation %.80q that is not settled", in.ID)
	}
	done, err := settleUnits(ctx, granted, &in)
	if err != nil {
		s.mu.Lock()
		s.open[in.ID] = granted
		s.mu.Unlock()
		return settlement{}, err
	}
	s.mu.Lock()
	s.spent += done.Charged - done.Back
	if in.ID[0] != '#' { // nobody asks for those again
		s.gone[in.ID] = true
	}
	s.mu.Unlock()
	if err := granted.Done(ctx); err != nil {
		s.log.Warn("give back the slots of a call", "error", err)
	}
	bill, has := granted.Bill()
	if n, said := in.Units[book.Money]; said || in.NeverSent {
		bill = n
	}
	answer := settlement{Back: done.Back, Charged: done.Charged, Session: s.budget()}
	if has {
		answer.Bill = &bill
	}
	return answer, nil
}

// settleUnits settles a reservation, or releases it.
func settleUnits(ctx context.Context, granted *held, in *wantedSettlement) (quota.Settlement, error) {
	pools := strings.Join(slices.Sorted(maps.Keys(granted.Charges())), ", ")
	switch {
	case in.NeverSent && len(in.Units) > 0:
		return quota.Settlement{}, quota.BadInput("a call that was never sent has no units; leave one of the two out")
	case in.NeverSent:
		return granted.Release(ctx)
	case len(in.Units) == 0:
		return quota.Settlement{}, quota.BadInput("say what the call cost, by pool: %s", cmp.Or(pools, "it charges none"))
	}
	if err := checkUnits(in.Units); err != nil {
		return quota.Settlement{}, err
	}
	for _, pool := range granted.fixed {
		cost := granted.Charges()[pool]
		if pool == book.Money {
			cost, _ = granted.Bill()
		}
		if units, said := in.Units[pool]; said && units < cost {
			return quota.Settlement{}, quota.BadInput("each call costs %d in %s, whatever it returns; leave it out, or say never_sent if the call never left", cost, pool)
		}
	}
	return granted.Settle(ctx, in.Units)
}

// alone waits until no other call reserves an id, and then keeps others from it until done is
// called. Otherwise each of them would take its units from the budget, before one of them is
// granted.
func (s *session) alone(ctx context.Context, id string) (done func(), err error) {
	if id == "" {
		return func() {}, nil
	}
	for {
		s.mu.Lock()
		other := s.busy[id]
		if other == nil {
			mine := make(chan struct{})
			s.busy[id] = mine
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.busy, id)
				close(mine)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
