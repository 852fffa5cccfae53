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

// guessLimit is the name of the limit on requests whose token is not the right one: the
// family client_guesses of the price book, or 20 a minute.
const guessLimit = "guesses"

// guesses counts them by the address of the client. Who has used up its
// guesses is refused unseen until some come back, with the right token too: were it
// looked at, guessing would be as fast as ever. So whoever shares an address with one
// that guesses, or that goes on with an old token, is shut out with it.
type guesses struct {
	mu     sync.Mutex // one by one: many at once are not more
	store  quota.Store
	family *book.Family
	client func(*http.Request) netip.Addr
}

// newGuesses counts by a family, or by our own if that is nil.
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

// errNotTheToken is all that is said of a token that is wrong, absent or of another
// length.
var errNotTheToken = &Problem{Status: http.StatusUnauthorized, Code: "wrong_token", Detail: "send the token as Authorization: Bearer TOKEN"}

// check returns why a request is not to be answered; nil if it has the token. Who
// presents none has not guessed: a page of another site can make a browser on this
// machine ask, but not with a token, and is not to use up the guesses of the machine.
func (g *guesses) check(r *http.Request, token *Token) error {
	presented := bearer(r)
	if presented == "" {
		return errNotTheToken
	}
	ctx := context.WithoutCancel(r.Context()) // who hangs up has guessed, too
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
			Detail: "too many requests from this address had a wrong token; until the seconds in Retry-After are over none is looked at",
		}
	}
	if token.is(presented) {
		return nil
	}
	if _, err := g.store.Reserve(ctx, quota.Request{Charges: charges}); err != nil {
		return err
	}
	return errNotTheToken
}

// charge is one guess of the client of a request; an IPv6 network of /64 is one.
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
