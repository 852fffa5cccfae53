package web

import (
	"context"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/window"
)

// guessLimit is the name of the limit on requests with a wrong token: the family
// client_guesses of the price book, or 20 a minute.
const guessLimit = "guesses"

// guesses counts requests with a wrong token by the address of the client. A client that
// has used up its guesses is refused until some come back, even with the right token:
// checking it would let the client guess at full speed. So all clients that share the
// address are refused, for example if one of them uses an old token.
type guesses struct {
	mu     sync.Mutex // one guess at a time, so that concurrent ones do not exceed the limit
	store  quota.Store
	family *book.Family
	client func(*http.Request) netip.Addr
}

// newGuesses returns guesses with the limit of a family, or the default limit for nil.
func newGuesses(clock quota.Clock, family *book.Family, client func(*http.Request) netip.Addr) *guesses {
	if family == nil {
		costs, err := book.Parse("guesses", []byte(`
revision: 1
families: {client_guesses: {quota: 20, windows: [{per: 1m}]}}
`), nil)
		if err != nil {
			panic(err) // it is a constant
		}
		family = costs.Families[ownLimit+guessLimit]
	}
	return &guesses{store: memstore.New(&memstore.Options{Clock: clock}), family: family, client: client}
}

// errNotTheToken is the answer to a wrong or missing token.
var errNotTheToken = &Problem{Status: http.StatusUnauthorized, Code: "wrong_token", Detail: "send the token as Authorization: Bearer TOKEN"}

// check returns nil if a request has the token. A request without a token is no guess: a
// page of another site can make a browser on this machine send one, and must not use up
// the guesses of the machine.
func (g *guesses) check(r *http.Request, token *Token) error {
	presented := bearer(r)
	if presented == "" {
		return errNotTheToken
	}
	ctx := context.WithoutCancel(r.Context()) // a client that hangs up has guessed, too
	charges := []quota.Charge{g.charge(r)}
	g.mu.Lock()
	defer g.mu.Unlock()
	pages, err := g.store.Look(ctx, charges)
	if err != nil {
		return err
	}
	var wait time.Duration
	for _, w := range pages[0].Windows {
		if w.Used >= w.Limit {
			wait = max(wait, w.NextAt.Sub(pages[0].Now), time.Second)
		}
	}
	if wait > 0 {
		return &Problem{
			Status: http.StatusTooManyRequests, Code: "too_many_guesses", RetryAfter: wait,
			Detail: "too many requests from this address had a wrong token; try again after the seconds in Retry-After",
		}
	}
	if token.matches(presented) {
		return nil
	}
	if _, err := g.store.Reserve(ctx, quota.Request{Charges: charges}); err != nil {
		return err
	}
	return errNotTheToken
}

// charge returns the charge of one guess by the client of a request. An IPv6 network /64
// counts as one client.
func (g *guesses) charge(r *http.Request) quota.Charge {
	addr := g.client(r)
	key := addr.String()
	if addr.Is6() {
		key = netip.PrefixFrom(addr, 64).Masked().String()
	}
	c := quota.Charge{
		Pool:  quota.Pool{Upstream: g.family.Name, Account: quota.DefaultAccount, Key: key},
		Units: 1, Revision: 1, MaxKeys: g.family.MaxKeys,
	}
	windows, listed := g.family.Overrides[key]
	if !listed {
		windows = g.family.Windows
	}
	for _, w := range windows {
		c.Windows = append(c.Windows, window.NewLimit(w.Spec, w.Limit(book.Class{})))
	}
	return c
}
