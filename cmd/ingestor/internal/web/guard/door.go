package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/throttle"
)

// GuessFamily is the family of a price book that limits requests with a wrong token by the
// client. Without it the limit is 20 a minute.
const GuessFamily = throttle.DefaultFamily + "_guesses"

// guesses counts requests with a wrong token by the address of the client. A client that
// has used up its guesses is told to wait. The right token is always accepted: others share
// the address, and a token is too long to be guessed at any speed.
type guesses struct {
	ledger *quota.Ledger
	client func(*http.Request) netip.Addr
}

// Door is where clients are turned away. It counts them, and logs each kind once a minute.
type Door struct {
	*Complaints
	server  string // in the log
	clock   quota.Clock
	log     *slog.Logger
	metrics *metrics.Metrics
	guesses atomic.Pointer[guesses]
}

// NewDoor returns the door of a server with this name in the log.
func NewDoor(server string, clock quota.Clock, log *slog.Logger, m *metrics.Metrics) *Door {
	return &Door{Complaints: NewComplaints(clock), server: server, clock: clock, log: log, metrics: m}
}

// Closed notes that a connection was closed to make room. It is for [NewCrowd].
func (d *Door) Closed(reason string, client netip.Prefix) {
	d.metrics.ConnectionClosed(reason)
	if due, skipped := d.Due("connections of " + reason); due {
		d.log.Warn("closed a connection to make room", "server", d.server, "client", client.Addr(), "too_many_of", reason, "skipped", skipped)
	}
}

// LimitGuesses limits wrong tokens by a family of a price book from now on, or by the default limit
// for nil.
func (d *Door) LimitGuesses(family *book.Family, client func(*http.Request) netip.Addr) {
	costs, err := book.Parse("guesses", []byte("revision: 1\nfamilies: {client_guesses: {quota: 20, windows: [{per: 1m}]}}\n"), nil)
	if err == nil && family != nil {
		costs.Families[GuessFamily] = family
	}
	ledger, failed := quota.New(costs, memstore.New(&memstore.Options{Clock: d.clock}), &quota.Options{Clock: d.clock})
	if err = errors.Join(err, failed); err != nil {
		panic(err) // the book is a constant, and the family is of a valid one
	}
	d.guesses.Store(&guesses{ledger, client})
}

// Guess counts a wrong token, and returns the error for its client: wrong, unless it has used up its
// guesses and has to wait. An IPv6 network /64 counts as one client.
func (d *Door) Guess(r *http.Request, wrong error) error {
	g := d.guesses.Load()
	from := ClientOf(g.client(r))
	client := from.Addr().String()
	if from.Addr().Is6() {
		client = from.String()
	}
	ctx := context.WithoutCancel(r.Context()) // a client that hangs up has guessed, too
	_, err := g.ledger.Reserve(ctx, quota.Call{Family: GuessFamily, Key: client})
	refused, no := errors.AsType[*quota.RefusedError](err)
	switch {
	case err == nil:
		return wrong
	case !no:
		return err
	}
	d.metrics.RequestRefused(metrics.WrongToken)
	if due, skipped := d.Due("wrong tokens"); due {
		d.log.Warn("an address sends wrong tokens", "server", d.server, "client", client, "skipped", skipped)
	}
	return &problem.Problem{
		Status: http.StatusTooManyRequests, Code: "too_many_guesses", RetryAfter: max(refused.RetryAfter, time.Second),
		Detail: "too many requests from this address had a wrong token; try again after the seconds in Retry-After",
	}
}

// Serve serves requests from a listener until ctx ends, with connections that the crowd bounds. Then
// open requests may finish within a time, unless abort ends too. The rest is cut off.
func (c *Crowd) Serve(ctx, abort context.Context, server *http.Server, l net.Listener, finish time.Duration) error {
	server.ConnState = c.Track
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, conn)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(abort, finish)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return fmt.Errorf("stop serving: %w", errors.Join(err, server.Close()))
	}
	return nil
}

// Loopback reports whether a host, with or without a port, is a loopback name or address.
func Loopback(host string) bool {
	host = Hostname(host)
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback()
}

// Hostname returns a host without its port.
func Hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}
