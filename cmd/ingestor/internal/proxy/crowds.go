package proxy

import (
	"math"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/guard"
)

// DefaultConnections is the default of [Options.Connections].
const DefaultConnections = 1024

// crowds bound what a program may have at once, so that it does not keep others out.
type crowds struct {
	metrics    *metrics.Metrics
	complaints *guard.Complaints
	crowd      *guard.Crowd          // connections
	calls      *guard.Counts[string] // under way, by the name of the token
	// mostOfToken bounds those of a token.
	mostOfToken int
	guesses     atomic.Pointer[guard.Guesses] // of a token
}

// begin counts a call of a token, unless too many are under way.
func (h *Handler) begin(c *call) error {
	if h.calls.Begin(c.token.Name) {
		return nil
	}
	return h.crowded(metrics.OfToken, "%d calls of the token %s are under way; end some first", h.mostOfToken, c.token.Name)
}

// crowded is the refusal of a call that others of its token leave no room for.
func (h *Handler) crowded(reason, format string, args ...any) error {
	h.metrics.RequestRefused(reason)
	r := refusef(http.StatusTooManyRequests, "too_many_at_once", format, args...)
	r.after = time.Second
	return r
}

// alone reports whether there is only one token, so that nobody needs a share.
func (h *Handler) alone() bool { return len(*h.tokens.Load()) <= 1 }

// crowdedError is a refusal of a call that could not wait for its units.
type crowdedError struct{ error }

// Error says so, too.
func (e *crowdedError) Error() string {
	return e.error.Error() + "; it did not wait as Headroom-Wait says, because too many calls wait already"
}

// Unwrap returns the refusal.
func (e *crowdedError) Unwrap() error { return e.error }

// guess counts a wrong token, and returns the error for its program. A request without one
// is no guess.
func (h *Handler) guess(c *call) error {
	if len(c.presented()) == 0 {
		return errNoToken
	}
	wait, client, err := h.guesses.Load().Add(c.request)
	if err != nil || wait == 0 {
		return errNoToken
	}
	h.metrics.RequestRefused(metrics.WrongToken)
	if due, skipped := h.complaints.Due("wrong tokens"); due {
		h.log.Warn("an address sends wrong tokens to the proxy", "client", client, "skipped", skipped)
	}
	r := refusef(http.StatusTooManyRequests, "too_many_guesses", "too many requests from this address had a wrong token; try again after the seconds in Retry-After")
	r.after = wait
	return r
}

// connectionClosed logs that a connection was closed to make room, once a minute.
func (h *Handler) connectionClosed(reason string, client netip.Prefix) {
	h.metrics.ConnectionClosed(reason)
	if due, skipped := h.complaints.Due("connections of " + reason); due {
		h.log.Warn("the proxy closed a connection to make room", "client", client.Addr(), "too_many_of", reason, "skipped", skipped)
	}
}

// addressOf returns the address of a request's client.
func addressOf(r *http.Request) netip.Addr {
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	return from.Addr().Unmap()
}

// seconds returns a wait as Retry-After has it.
func seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }
