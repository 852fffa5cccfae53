package web

import (
	"context"
	"net/http"

	"github.com/headroom-quota/headroom/quota"
)

// Tracer traces requests and reservations.
type Tracer interface {
	// Requests returns a handler that traces requests to next. The function route returns
	// the pattern of a request, such as "GET /livez", or "".
	Requests(next http.Handler, route func(*http.Request) string) http.Handler
	// Reserve starts tracing a reservation, with the context of its request. The server
	// calls the function it returns with the result.
	Reserve(ctx context.Context) func(*quota.Reservation, error)
}

// untraced traces nothing.
type untraced struct{}

func (untraced) Requests(next http.Handler, _ func(*http.Request) string) http.Handler { return next }

func (untraced) Reserve(context.Context) func(*quota.Reservation, error) {
	return func(*quota.Reservation, error) {}
}
