package traces

import (
	"context"
	"errors"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/headroom-quota/headroom/quota"
)

// Requests follows those to a handler. A span has the name of the request's route, and
// neither its path nor its query; it is "no route" where that is "". What a client says of
// traces of its own is not believed.
func (t *Traces) Requests(next http.Handler, route func(*http.Request) string) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pattern := route(r)
		name := pattern
		if pattern == "" {
			name = "no route"
		}
		ctx, s := t.span(r.Context(), name, trace.SpanKindServer)
		if pattern != "" {
			s.SetAttributes(attribute.String(attrRoute, pattern))
		}
		answered := &answer{ResponseWriter: w}
		defer func() { // also of a panic, which is the server's to catch
			s.SetAttributes(attribute.Int(attrStatus, answered.code()))
			if answered.code() >= http.StatusInternalServerError {
				s.SetStatus(codes.Error, http.StatusText(answered.code()))
			}
			s.End()
		}()
		next.ServeHTTP(answered, r.WithContext(ctx))
	})
}

// answer notes with which status a request is answered.
type answer struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) {
	if a.status < http.StatusOK { // those below are followed by another
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// code is the status; what says none is answered with 200.
func (a *answer) code() int {
	if a.status == 0 {
		return http.StatusOK
	}
	return a.status
}

// Reserve follows a reservation, until the function that it returns is told what came of
// it.
func (t *Traces) Reserve(ctx context.Context) func(*quota.Reservation, error) {
	_, s := t.span(ctx, "reserve", trace.SpanKindInternal)
	return func(granted *quota.Reservation, err error) {
		s.SetAttributes(attribute.String(attrOutcome, outcome(err)))
		var refused *quota.RefusedError
		var impossible *quota.ImpossibleError
		switch {
		case err == nil:
			var units int64
			for _, n := range granted.Charges() {
				units += n
			}
			s.SetAttributes(poolOf(granted.Pool), attribute.Int64(attrUnits, units))
		case errors.As(err, &refused):
			s.SetAttributes(poolOf(refused.Pool), attribute.Int64(attrUnits, refused.Units))
		case errors.As(err, &impossible):
			s.SetAttributes(poolOf(impossible.Pool), attribute.Int64(attrUnits, impossible.Units))
		}
		if errors.Is(err, quota.ErrOutage) {
			fault(s, err)
		}
		s.End()
	}
}
