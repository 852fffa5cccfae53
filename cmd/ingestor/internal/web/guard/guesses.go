package guard

import (
	"context"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/throttle"
	"github.com/headroom-quota/headroom/quota/window"
)

// GuessFamily is the family of a price book that limits requests with a wrong token by the
// client. Without it the limit is 20 a minute.
const GuessFamily = throttle.DefaultFamily + "_guesses"

// Guesses counts requests with a wrong token by the address of the client. A client that
// has used up its guesses is told to wait. The right token is always accepted: others share
// the address, and a token is too long to be guessed at any speed.
type Guesses struct {
	mu     sync.Mutex // one guess at a time, so that concurrent ones do not exceed the limit
	store  quota.Store
	family *book.Family
	client func(*http.Request) netip.Addr
}

// NewGuesses returns guesses with the limit of a family, or the default limit for nil.
func NewGuesses(clock quota.Clock, family *book.Family, client func(*http.Request) netip.Addr) *Guesses {
	if family == nil {
		costs, err := book.Parse("guesses", []byte(`
revision: 1
families: {client_guesses: {quota: 20, windows: [{per: 1m}]}}
`), nil)
		if err != nil {
			panic(err) // it is a constant
		}
		family = costs.Families[GuessFamily]
	}
	return &Guesses{store: memstore.New(&memstore.Options{Clock: clock}), family: family, client: client}
}

// Add counts a guess, unless the client has used up its guesses and has to wait.
func (g *Guesses) Add(r *http.Request) (wait time.Duration, client string, err error) {
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
func (g *Guesses) charge(r *http.Request) quota.Charge {
	client := ClientOf(g.client(r))
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
