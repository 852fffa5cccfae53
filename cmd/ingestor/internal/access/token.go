// Package access says who may do what: the tokens of programs and persons, their rights, and the
// bounds of their calls. Server, proxy, agents and programs share it.
package access

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// The lowest lengths of a token: of one that is made today, and of the one without a name,
// which may be from an earlier version.
const (
	MinToken    = 32
	minNameless = 16
)

// Right is what the bearer of a token may do.
type Right string

// The rights of tokens.
const (
	Reserve Right = "reserve" // reserve, settle and release units of pools
	Read    Right = "read"    // read the state of the pools
	Limits  Right = "limits"  // charge the families, the limits of the caller's own clients, and read those of keys
	Operate Right = "operate" // act on the pages: adjust, block, unblock, reset; and read and change the limits of keys
)

// Rights are the rights of programs. Operate is for people, and has to be named.
var Rights = []Right{Reserve, Read, Limits}

// Token authenticates a caller of the decision service. Only its hash is kept.
type Token struct {
	name   string
	rights []Right
	sum    [sha256.Size]byte
	grant  *Grant // nil: no bounds but the rights
}

// New returns a token of a name with these rights. Spend through it is that of its
// name. Without a name, the caller names the job alone. It returns an error if the text is
// too short or not printable ASCII.
func New(name, text string, rights ...Right) (*Token, error) {
	least := MinToken
	if name == "" {
		least = minNameless
	}
	switch {
	case name == "" && slices.Contains(rights, Operate):
		return nil, errors.New("a token with the right operate needs a name, under which its actions are recorded")
	case text == "":
		return nil, errors.New("the token is empty; to make one: ingestor token new")
	case len(text) < least:
		return nil, fmt.Errorf("the token has %d characters and needs at least %d; to make one: ingestor token new", len(text), least)
	case strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }):
		return nil, errors.New("the token may hold only printable ASCII without spaces; to make one: ingestor token new")
	}
	return &Token{name: name, rights: rights, sum: sha256.Sum256([]byte(text))}, nil
}

// Name returns the name of the token, "" if it has none.
func (t *Token) Name() string { return t.name }

// Grant returns what bounds the calls of the token; nil if nothing does.
func (t *Token) Grant() *Grant { return t.grant }

// Same reports whether two tokens have the same text.
func (t *Token) Same(u *Token) bool { return t.sum == u.sum }

// Is reports whether a text is that of the token, in constant time.
func (t *Token) Is(text string) bool {
	sum := sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1
}

// Find returns the token that was presented, or nil. It compares with each in constant time.
func Find(tokens []*Token, presented string) (found *Token) {
	for _, t := range tokens {
		if t.Is(presented) {
			found = t
		}
	}
	return found
}

// May returns an error if the token has none of these rights.
func (t *Token) May(rights ...Right) error {
	if slices.ContainsFunc(rights, func(r Right) bool { return slices.Contains(t.rights, r) }) {
		return nil
	}
	names := make([]string, len(rights))
	for i, r := range rights {
		names[i] = string(r)
	}
	return &problem.Problem{Status: http.StatusForbidden, Code: "no_right", Detail: fmt.Sprintf("the token %s does not have the right %s", cmp.Or(t.name, "without a name"), strings.Join(names, " or "))}
}

// Job returns the name under which a job of the caller spends: it begins with that of the
// token, so that no caller spends in the name of another.
func (t *Token) Job(named string) string {
	switch {
	case t.name == "":
		return named
	case named == "":
		return t.name
	}
	return t.name + "/" + named
}

// Grant bounds the calls of a token, through the proxy and by the decision service. Without
// upstreams it grants nothing. The tags are for ingestor.yaml.
type Grant struct {
	Upstreams []string `yaml:"upstreams" doc:"The upstreams that it may call."`
	Methods   []string `yaml:"methods,omitempty" doc:"The methods that it may call; all of its upstreams if empty."`
	Classes   []string `yaml:"classes,omitempty" doc:"The classes that its calls may have, beside none."`
	Accounts  []string `yaml:"accounts,omitempty" doc:"The accounts whose units it may spend; only the default account if empty, any with '*'."`
	Budget    Bound    `yaml:"budget,omitempty" doc:"What it may spend on a day in UTC: units of all pools together, such as 2000, or money, such as 5 USD."`
}

// Bound is what a caller may spend: a number of units, or an amount of money. None is no bound.
type Bound string

// Read returns the units of a bound, or its millionths.
func (b Bound) Read() (units, millionths int64, err error) {
	if strings.HasSuffix(string(b), book.Money) {
		if millionths, err = book.ParseMoney(string(b)); err == nil && millionths == 0 {
			err = errors.New("is nothing; write an amount above 0")
		}
	} else if b != "" {
		if units, err = strconv.ParseInt(string(b), 10, 64); err != nil || units < 0 {
			err = fmt.Errorf("is neither a number of units, such as 2000, nor an amount, such as 5 %s", book.Money)
		}
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%.40q %w", b, err)
	}
	return units, millionths, nil
}

// Units returns the units of a bound, 0 if it has none.
func (b Bound) Units() int64 {
	units, _, _ := b.Read()
	return units
}

// Given reports whether it grants anything.
func (g Grant) Given() bool { return len(g.Upstreams) > 0 }

func (g Grant) String() string {
	text := strings.Join(g.Upstreams, " ")
	for _, part := range []struct {
		name  string
		names []string
	}{{"methods", g.Methods}, {"classes", g.Classes}, {"accounts", g.Accounts}} {
		if len(part.names) > 0 {
			text += fmt.Sprintf(", %s %s", part.name, strings.Join(part.names, " "))
		}
	}
	if g.Budget != "" && g.Budget != "0" {
		text += fmt.Sprintf(", budget %s", g.Budget)
	}
	return text
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
