package access

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
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

// Sees reports whether the token may use the pools of an account.
func (t *Token) Sees(upstream, account string) bool {
	if t.grant == nil {
		return true
	}
	what, _ := t.grant.Forbids("", account)
	return what == "" && slices.Contains(t.grant.Upstreams, upstream)
}

// Deny returns the error for something that a token may not use.
func (t *Token) Deny(what, name string) error {
	return &problem.Problem{Status: http.StatusForbidden, Code: "no_right", Detail: fmt.Sprintf("the token %s may not use the %s %.80q", cmp.Or(t.name, "without a name"), what, name)}
}

// Owner is the owner of the calls of a token in the ledger. A token that replaces another one
// of its name has its ids and receipts. No name is "-".
func (t *Token) Owner() string { return cmp.Or(t.name, "-") }

// Owns reports whether a token may settle a reservation. A receipt without an owner is one that
// a program has got from its own ledger and passed on, or one of an earlier version of this
// service.
func (t *Token) Owns(receipt *quota.Token) bool {
	owner := receipt.Owner()
	return owner == t.Owner() || owner == "" && t.Sees(receipt.Upstream, receipt.Account)
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
