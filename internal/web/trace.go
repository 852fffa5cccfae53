package web

import (
	"context"
	"net/http"

	"github.com/headroom-quota/headroom/quota"
)

// Tracer follows what a server does.
type Tracer interface {
	// Requests follows those to a handler. The route of one is its line in the table,
	// as "GET /livez", or "" if it has none.
	Requests(next http.Handler, route func(*http.Request) string) http.Handler
	// Reserve is told of a reservation that somebody asks for over HTTP, with the
	// context of the request. The function that it returns is told what came of it.
	Reserve(ctx context.Context) func(*quota.Reservation, error)
}

// untraced follows nothing.
type untraced struct{}

func (untraced) Requests(next http.Handler, _ func(*http.Request) string) http.Handler { return next }

func (untraced) Reserve(context.Context) func(*quota.Reservation, error) {
	return func(*quota.Reservation, error) {}
}
