package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/guard"
)

const (
	headerTimeout = 5 * time.Second
	idleTimeout   = time.Minute
	flushTimeout  = 10 * time.Second
)

// Serve serves requests from a listener, which may have TLS, until ctx ends. Then open requests
// may finish within Options.Grace, unless abort ends too. Serve cuts off the rest, without an
// error. Until then nothing bounds the time of a request or an answer, because streams are long.
// Calls have the values of ctx, such as its budget and its span.
func (h *Handler) Serve(ctx, abort context.Context, l net.Listener) error {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: 64 << 10, Protocols: &protocols,
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ErrorLog:    slog.NewLogLogger(h.set.Log.Handler(), slog.LevelDebug), // programs that hang up
	}
	err := h.crowd.Serve(ctx, abort, server, l, h.set.Grace)
	if errors.Is(err, context.DeadlineExceeded) && abort.Err() == nil { // it stops as it was told to
		err = nil
		h.set.Log.Warn("the proxy has stopped and cut off open calls", "after", h.set.Grace.String())
	}
	if err != nil {
		err = fmt.Errorf("the proxy: %w", err)
	}
	flush, end := context.WithTimeout(context.WithoutCancel(abort), flushTimeout)
	defer end()
	return errors.Join(err, h.Flush(flush))
}

// DefaultConnections is the default of [Options.Connections].
const DefaultConnections = 1024

// crowds bound what a program may have at once, so that it does not keep others out.
type crowds struct {
	door  *guard.Door
	crowd *guard.Crowd          // connections
	calls *guard.Counts[string] // under way, by the name of the token
	// mostOfToken bounds those of a token.
	mostOfToken int
}

// begin counts a call of a token, unless too many are under way.
func (h *Handler) begin(c *call) error {
	if h.calls.Begin(c.token.Name()) {
		return nil
	}
	return h.crowded(metrics.OfToken, "%d calls of the token %s are under way; end some first", h.mostOfToken, c.token.Name())
}

// crowded is the refusal of a call that others of its token leave no room for.
func (h *Handler) crowded(reason, format string, args ...any) error {
	h.set.Metrics.RequestRefused(reason)
	r := refusef(http.StatusTooManyRequests, "too_many_at_once", format, args...)
	r.RetryAfter = time.Second
	return r
}

// alone reports whether there is only one token, so that nobody needs a share.
func (h *Handler) alone() bool { return len(*h.tokens.Load()) <= 1 }

// crowdedError is a refusal of a call that could not wait for its units.
type crowdedError struct{ error }

func (e *crowdedError) Error() string {
	return e.error.Error() + "; it did not wait as Headroom-Wait says, because too many calls wait already"
}

func (e *crowdedError) Unwrap() error { return e.error }

// guess counts a wrong token, and returns the error for its program. A request without one
// is no guess.
func (h *Handler) guess(c *call) error {
	if len(c.presented()) == 0 {
		return errNoToken
	}
	err := h.door.Guess(c.request, errNoToken)
	if _, told := errors.AsType[*problem.Problem](err); told {
		return err
	}
	return errNoToken
}

func addressOf(r *http.Request) netip.Addr {
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	return from.Addr().Unmap()
}
