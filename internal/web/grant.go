package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// Grant bounds the calls of a token, through the proxy and by the decision service.
type Grant struct {
	Upstreams []string // at least one
	Methods   []string // none: all of these upstreams
	Classes   []string // beside calls without a class
	Accounts  []string // none: only the default account; AnyAccount is any
	Budget    int64    // units a day in UTC, of all pools together; 0: no bound
}

// AnyAccount stands for every account in a grant.
const AnyAccount = "*"

// Forbids returns the class or account that calls with this grant may not use, and which of
// the two it is, or "".
func (g *Grant) Forbids(class, account string) (what, name string) {
	account = cmp.Or(account, quota.DefaultAccount)
	switch {
	case class != "" && !slices.Contains(g.Classes, class):
		return "class", class
	case slices.Contains(g.Accounts, AnyAccount), slices.Contains(g.Accounts, account), len(g.Accounts) == 0 && account == quota.DefaultAccount:
		return "", ""
	}
	return "account", account
}

// Bound returns the token with its calls bounded by a grant.
func (t *Token) Bound(g *Grant) *Token {
	bound := *t
	bound.grant = g
	return &bound
}

// sees reports whether the token may use the pools of an account.
func (t *Token) sees(upstream, account string) bool {
	if t.grant == nil {
		return true
	}
	what, _ := t.grant.Forbids("", account)
	return what == "" && slices.Contains(t.grant.Upstreams, upstream)
}

// deny returns the error for something that a token may not use.
func (t *Token) deny(what, name string) error {
	return &Problem{Status: http.StatusForbidden, Code: "no_right", Detail: fmt.Sprintf("the token %s may not use the %s %.80q", cmp.Or(t.name, "without a name"), what, name)}
}

// mayCall returns an error if a token may not make a call, on any way in. It completes the
// call: it is the token's, and its job begins with the name of the token.
func (s *Server) mayCall(t *Token, call *quota.Call) error {
	if err := t.may(rightFor(call)); err != nil {
		return err
	}
	src := s.current()
	if first, _, _ := strings.Cut(call.Job, "/"); t.name == "" && (slices.Contains(src.Names, first) || slices.ContainsFunc(src.Tokens, func(u *Token) bool { return u.name != "" && u.name == first })) {
		return t.deny("job", call.Job) // the spend and the budget of that token
	}
	call.Job, call.Owner = t.job(call.Job), t.owner()
	if t.grant == nil {
		return nil
	}
	if ups := src.Ledger.Book().Upstreams; call.Upstream == "" && call.Family == "" && len(ups) == 1 {
		for call.Upstream = range ups { // the one that the ledger would take
		}
	}
	what, name := t.grant.Forbids(call.Class, call.Account)
	switch {
	case call.Family != "" && what != "class": // the right to charge limits is for families
	case call.Family == "" && call.Upstream != "" && !slices.Contains(t.grant.Upstreams, call.Upstream):
		return t.deny("upstream", call.Upstream)
	case len(t.grant.Methods) > 0 && !slices.Contains(t.grant.Methods, call.Method) && call.Family == "":
		return t.deny("method", cmp.Or(call.Method, "of explicit units"))
	case what != "":
		return t.deny(what, name)
	}
	return nil
}

// owner is the owner of the calls of a token in the ledger. A token that replaces another one
// of its name has its ids and receipts. No name is "-".
func (t *Token) owner() string { return cmp.Or(t.name, "-") }

// owns reports whether a token may settle a reservation. A receipt without an owner is one that
// a program has got from its own ledger and passed on, or one of an earlier version of this
// service.
func (t *Token) owns(receipt *quota.Token) bool {
	owner := receipt.Owner()
	return owner == t.owner() || owner == "" && t.sees(receipt.Upstream, receipt.Account)
}

// Budgets are what tokens may spend on a day.
type Budgets interface {
	// Today returns the budget of a token of this name, or nil if it has none.
	Today(ctx context.Context, name string) Budget
}

// Budget is what a token may spend on a day.
type Budget interface {
	Take(units int64) error
	Add(units int64)
	Spent() int64
}

// budget returns the budget of a token, or nil.
func (s *Server) budget(ctx context.Context, t *Token) Budget {
	if s.budgets == nil || t.grant == nil || t.grant.Budget <= 0 {
		return nil
	}
	return s.budgets.Today(ctx, t.name)
}

// expected returns the units that a call takes, as far as the price book knows it before.
func expected(costs *quota.Book, call *quota.Call) (sum int64) {
	units := map[string]int64(call.Charges)
	u := costs.Upstreams[call.Upstream]
	if u == nil {
		return 0
	}
	if m := u.Methods[call.Method]; units == nil && m != nil {
		units = m.Charges
	}
	for pool, n := range units {
		if p := u.Pools[pool]; p != nil && !p.Windows[0].InFlight() {
			sum += max(n, 0)
		}
	}
	return sum
}

const codeBudget = "budget"

// overBudget returns the answer to a call that would cost more than is left of a budget.
func (s *Server) overBudget(err error) error {
	now := s.clock.Now().UTC()
	return &Problem{
		Status: http.StatusTooManyRequests, Code: codeBudget, RetryAfter: now.Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(now),
		Detail: "the daily budget of the token is used up: " + err.Error(),
	}
}
