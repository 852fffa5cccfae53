package guard

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/throttle"
)

// GuessFamily is the family of a price book that limits requests with a wrong token by the
// client. Without it the limit is 20 a minute.
const GuessFamily = throttle.DefaultFamily + "_guesses"

// Guesses counts requests with a wrong token by the address of the client. A client that
// has used up its guesses is told to wait. The right token is always accepted: others share
// the address, and a token is too long to be guessed at any speed.
type Guesses struct {
	ledger *quota.Ledger
	client func(*http.Request) netip.Addr
}

// NewGuesses returns guesses with the limit of a family, or the default limit for nil.
func NewGuesses(clock quota.Clock, family *book.Family, client func(*http.Request) netip.Addr) *Guesses {
	costs, err := book.Parse("guesses", []byte("revision: 1\nfamilies: {client_guesses: {quota: 20, windows: [{per: 1m}]}}\n"), nil)
	if err == nil && family != nil {
		costs.Families[GuessFamily] = family
	}
	ledger, failed := quota.New(costs, memstore.New(&memstore.Options{Clock: clock}), &quota.Options{Clock: clock})
	if err = errors.Join(err, failed); err != nil {
		panic(err) // the book is a constant, and the family is of a valid one
	}
	return &Guesses{ledger, client}
}

// Add counts a guess, unless the client has used up its guesses and has to wait. An IPv6 network
// /64 counts as one client.
func (g *Guesses) Add(r *http.Request) (wait time.Duration, client string, err error) {
	from := ClientOf(g.client(r))
	if client = from.Addr().String(); from.Addr().Is6() {
		client = from.String()
	}
	ctx := context.WithoutCancel(r.Context()) // a client that hangs up has guessed, too
	_, err = g.ledger.Reserve(ctx, quota.Call{Family: GuessFamily, Key: client})
	if refused, no := errors.AsType[*quota.RefusedError](err); no {
		return max(refused.RetryAfter, time.Second), client, nil
	}
	return 0, client, err
}
