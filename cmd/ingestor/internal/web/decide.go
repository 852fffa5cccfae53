package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// The routes under /v1/ let programs in any language reserve on the ledger, with a token.

// decision returns the handler of such a route. It reads the body before the timeout of
// the answer starts, so that a slow client does not use that up. The token needs one of
// the rights; without any, the answer itself asks.
func (s *Server) decision(rights []access.Right, h answer, parameters ...string) http.Handler {
	longest := s.o.Timeouts.Query
	if rights == nil { // a reservation, which may wait
		longest += longestWait
	}
	next := s.within(longest, func(r *http.Request) (any, error) {
		value, err := h(r)
		if err != nil {
			err = problem.OfLedger(s.current().Ledger.Book(), err)
		}
		return value, err
	}, parameters...)
	return s.authenticated(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rights != nil {
			if err := caller(r).May(rights...); err != nil {
				s.fail(w, r, err)
				return
			}
		}
		body, err := io.ReadAll(r.Body)
		var long *http.MaxBytesError
		switch {
		case errors.As(err, &long):
			err = &problem.Problem{Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("the body is longer than %d bytes", long.Limit)}
		case err != nil:
			err = problem.BadRequest("the body is incomplete")
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	}))
}

// reserve takes the units of a call, or of each call of an array. A caller that hangs up
// before the answer may have been charged: a grant counts as spent, and asking again with
// the same id returns it.
func (s *Server) reserve(r *http.Request) (any, error) {
	body, err := readJSON(r)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")) {
		return s.reserveAll(r, body)
	}
	return s.reserveOne(r.Context(), caller(r), body, longestWait)
}

// maxCalls is the highest number of calls of one request.
const maxCalls = 100

// reserveAll takes the units of each call of an array, in order and apart from the others.
// The answers are in the same order: grants, and problems of the calls that got none.
func (s *Server) reserveAll(r *http.Request, body []byte) (any, error) {
	var calls []json.RawMessage
	if err := json.Unmarshal(body, &calls); err != nil {
		return nil, err
	}
	if len(calls) == 0 || len(calls) > maxCalls {
		return nil, problem.BadInput("send 1 to %d calls in an array, not %d", maxCalls, len(calls))
	}
	answers := make([]any, len(calls))
	for i, call := range calls {
		granted, err := s.reserveOne(r.Context(), caller(r), call, 0)
		if hungUp := context.Cause(r.Context()); errors.Is(hungUp, context.Canceled) {
			return nil, hungUp // the calls that are left are not made
		}
		if err == nil {
			answers[i] = granted
			continue
		}
		p := s.problem(r, err)
		p.Index, p.Detail = &i, fmt.Sprintf("call %d: %s", i, p.Error())
		answers[i] = p
	}
	return answers, nil
}

// longestWait is the longest time that a call may wait for its units. It must end before
// [Timeouts.Request], because the server then takes the client for gone.
const longestWait = 5 * time.Second

// mostReserving is how many calls may wait for their units at once. A token, or a key that it asks for, may have as
// many of these places as it leaves free for others. A call beyond them does not wait.
const mostReserving = 256

// waiting names whose calls wait.
type waiting struct{ token, family, key string }

// reserveOne takes the units of the call that an object describes, which may wait as long as most.
func (s *Server) reserveOne(ctx context.Context, by *access.Token, object []byte, most time.Duration) (*problem.Verdict, error) {
	call, wait, err := readCall(object)
	if err != nil {
		return nil, err
	}
	if wait > most {
		return nil, problem.BadInput("a call of an array cannot wait; send it by itself")
	}
	granted, err := s.decide(ctx, by, &call, wait)
	if err != nil {
		err = problem.OfLedger(s.current().Ledger.Book(), err)
		if p, ok := errors.AsType[*problem.Problem](err); ok && p.Verdict != nil {
			p.ID = cmp.Or(call.ID, p.ID) // as it was sent, also if the store was not asked
		}
		return nil, err
	}
	v := grantOf(granted)
	v.ID = cmp.Or(call.ID, v.ID)
	return v, nil
}

// decide takes the units of a call for the bearer of a token, whatever the protocol. It may wait
// for them.
func (s *Server) decide(ctx context.Context, by *access.Token, call *quota.Call, wait time.Duration) (*quota.Reservation, error) {
	if err := s.mayCall(by, call); err != nil {
		return nil, err
	}
	units := int64(0)
	var b access.Budget
	if call.Family == "" { // the limits of the caller's own clients are no spend
		b = s.budget(ctx, by)
	}
	if b != nil {
		units = expected(s.current().Ledger.Book(), call)
		if err := b.Take(units); err != nil {
			return nil, s.overBudget(err)
		}
		if call.ID != "" && wait == 0 { // a caller that hangs up may ask for the grant again, which costs nothing then
			var done context.CancelFunc
			ctx, done = context.WithTimeout(context.WithoutCancel(ctx), s.o.Timeouts.Query)
			defer done()
		}
	}
	ended := s.o.Traces.Reserve(ctx)
	granted, err := s.take(ctx, by, call, wait)
	ended(granted, err)
	s.o.Refused.Add(by.Name(), err)
	if b != nil {
		if wait > 0 && call.ID != "" && unanswered(ctx, err) {
			return nil, err // it may have been granted, and asking again with its id finds that
		}
		if err == nil && !granted.Repeat {
			for _, n := range granted.Charges() {
				units -= n
			}
		}
		b.Add(-units) // of a call that took nothing, all
	}
	if err != nil {
		return nil, err
	}
	call.Upstream = cmp.Or(call.Upstream, granted.Pool.Upstream)
	if _, ttl := charged(s.current().Ledger.Book(), call); ttl > 0 { // a caller need not say when its call has ended
		time.AfterFunc(ttl, func() { _ = granted.Done(context.Background()) }) // the ledger tries again by itself
	}
	return granted, nil
}

// unanswered reports whether the caller left while the ledger was asked. A caller that left in line gets the error of
// its context as it is: nothing was asked then.
func unanswered(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() != nil && err != ctx.Err() && !errors.Is(err, quota.ErrRefused) //nolint:errorlint // as it is
}

// take takes the units of a call, which waits for them if its token has a place left.
func (s *Server) take(ctx context.Context, by *access.Token, call *quota.Call, wait time.Duration) (*quota.Reservation, error) {
	ledger := s.current().Ledger
	of := waiting{by.Name(), call.Family, call.Key}
	if wait == 0 || !s.reserving.Take(of, 1, false) {
		ctx, cancel := context.WithTimeout(ctx, s.o.Timeouts.Query)
		defer cancel()
		return ledger.Reserve(ctx, *call)
	}
	defer s.reserving.Give(of, 1)
	return ledger.Wait(ctx, *call, wait)
}

// settle corrects a reservation to the real cost of the call.
func (s *Server) settle(r *http.Request) (any, error) {
	var text string
	var units settledUnits
	if err := readObject(r, field{"token", &text}, field{"units", &units}); err != nil {
		return nil, err
	}
	if units.one == nil && units.all == nil {
		return nil, problem.BadInput("units are missing: send a number, or for several pools an object with the units of each")
	}
	token, pools, err := readReceipt(text)
	if err != nil {
		return nil, err
	}
	cost, err := units.byPool(pools)
	if err != nil {
		return nil, err
	}
	return s.settleFor(r, token, cost)
}

// release gives back the units of a call that was never sent.
func (s *Server) release(r *http.Request) (any, error) {
	var text string
	if err := readObject(r, field{"token", &text}); err != nil {
		return nil, err
	}
	token, pools, err := readReceipt(text)
	if err != nil {
		return nil, err
	}
	var nothing quota.Units
	if len(pools) > 0 { // by name, so that a changed token is noticed
		nothing = make(quota.Units, len(pools))
		for _, pool := range pools {
			nothing[pool] = 0
		}
		nothing[book.Money] = 0
	}
	return s.settleFor(r, token, nothing)
}

// refusal notes that the upstream has refused a call, so that its limit is learned.
func (s *Server) refusal(r *http.Request) (any, error) {
	var text string
	var wait seconds
	if err := readObject(r, field{"token", &text}, field{"retry_after", &wait}); err != nil {
		return nil, err
	}
	token, _, err := readReceipt(text)
	if err != nil {
		return nil, err
	}
	learns := false
	if by := caller(r); by.Owns(&token) {
		learns, err = s.current().Ledger.Refused(r.Context(), token, time.Duration(wait))
	}
	if err == nil && !learns {
		err = quota.ErrNoReceipt
	}
	if err != nil {
		return nil, err
	}
	return struct {
		Learned bool `json:"learned"`
	}{true}, nil
}

// seconds are a time to wait, as JSON has it.
type seconds time.Duration

func (s *seconds) UnmarshalJSON(text []byte) error {
	var n float64
	if err := json.Unmarshal(text, &n); err != nil {
		return err
	}
	if !(n >= 0 && n <= 366*24*3600) {
		return problem.BadInput("the seconds to wait must be from 0 to a year")
	}
	*s = seconds(n * float64(time.Second))
	return nil
}

// settleFor settles a reservation of the caller, or releases it if there are no units. The
// receipt of another token is answered as one that never was.
func (s *Server) settleFor(r *http.Request, token quota.Token, units quota.Units) (any, error) {
	by, ledger := caller(r), s.current().Ledger
	if !by.Owns(&token) {
		token.Nonce = quota.Nonce{} // the ledger knows no such receipt
	}
	settle := func() (quota.Settlement, error) { return ledger.SettleBounded(r.Context(), token, units) }
	if units == nil {
		settle = func() (quota.Settlement, error) { return ledger.Release(r.Context(), token) }
	}
	done, err := settle()
	if err != nil {
		return nil, err
	}
	if b := s.budget(r.Context(), by); b != nil && !done.Repeat && token.Owner() == by.Owner() {
		b.Add(max(done.Charged-done.Back, -b.Spent()))
	}
	if u := ledger.Book().Upstreams[token.Upstream]; u != nil && slices.ContainsFunc(slices.Collect(maps.Values(u.Pools)), func(p *book.Pool) bool { return p.Windows[0].InFlight() }) {
		if err := ledger.Done(r.Context(), token); err != nil { // a retry gives them back
			return nil, err
		}
	}
	return settlement{problem.OwnID(token.ID), done.Back, done.Left, done.Charged, done.Repeat}, nil
}

// readReceipt parses the text that receipt returns. The text of a [quota.Token] works too,
// and names no pools.
func readReceipt(text string) (token quota.Token, pools []string, err error) {
	head, names, named := strings.Cut(text, ".")
	token, err = quota.ParseToken(head)
	if named {
		pools = strings.Split(names, ".")
	}
	inOrder := slices.Compact(slices.Sorted(slices.Values(pools)))
	if err != nil || len(pools) > maxPools || !slices.Equal(pools, inOrder) || slices.Contains(pools, "") {
		return token, nil, &problem.Problem{Status: http.StatusBadRequest, Code: "malformed_token", Detail: "token: this service did not issue it; send the token that reserve returned, unchanged"}
	}
	return token, pools, nil
}

// maxPools is the highest number of pools of a reservation.
const maxPools = 16

// receipt returns the token of a grant with the names of its pools, or "" if the grant
// cannot be settled.
func receipt(granted *quota.Reservation, charges quota.Units) string {
	token := granted.Token().String()
	if token == "" || len(charges) == 0 { // or it took slots only
		return token
	}
	return token + "." + strings.Join(slices.Sorted(maps.Keys(charges)), ".")
}

func (s *Server) pools(r *http.Request) (any, error) {
	q := read(r)
	upstream, account := q.text("upstream"), q.text("account")
	by := caller(r)
	if by.Grant() != nil && (upstream != "" || account != "") && !slices.ContainsFunc(by.Grant().Upstreams, func(name string) bool {
		return (upstream == "" || name == upstream) && by.Sees(name, account)
	}) {
		return nil, by.Deny("pools of", cmp.Or(upstream, account))
	}
	all, err := s.current().Ledger.View().Usage(r.Context(), upstream, account)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(u quota.Usage) bool { return !by.Sees(u.Pool.Upstream, u.Pool.Account) })
	return struct {
		Pools []view.Pool `json:"pools"`
	}{view.Pools(all)}, nil
}
