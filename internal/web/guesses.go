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
// has used up its guesses is told to wait. The right token is always accepted: others share
// the address, and a token is too long to be guessed at any speed.
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

// add counts a guess, unless the client has used up its guesses and has to wait.
func (g *guesses) add(r *http.Request) (wait time.Duration, client string, err error) {
	ctx := context.WithoutCancel(r.Context()) // a client that hangs up has guessed, too
	charges := []quota.Charge{g.charge(r)}
	client = charges[0].Pool.Key
	g.mu.Lock()
	defer g.mu.Unlock()
	pages, err := g.store.Look(ctx, charges)
	if err != nil {
		return 0, client, err
	}
	for _, w := range pages[0].Windows {
		if w.Used >= w.Limit {
			wait = max(wait, w.NextAt.Sub(pages[0].Now), time.Second)
		}
	}
	if wait == 0 {
		_, err = g.store.Reserve(ctx, quota.Request{Charges: charges})
	}
	return wait, client, err
}

// charge returns the charge of one guess by the client of a request. An IPv6 network /64
// counts as one client.
func (g *guesses) charge(r *http.Request) quota.Charge {
	client := clientOf(g.client(r))
	key := client.Addr().String()
	if client.Addr().Is6() {
		key = client.String()
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
