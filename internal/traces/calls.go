package traces

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// Calls returns a transport that traces the calls of base, which the ledger should meter.
// Spans have the method names of the price book.
func (t *Traces) Calls(l *quota.Ledger, metered http.RoundTripper) http.RoundTripper {
	if t == nil {
		return metered
	}
	return &calls{t, l, metered}
}

// calls is the transport of [Traces.Calls].
type calls struct {
	*Traces
	ledger *quota.Ledger
	base   http.RoundTripper
}

// CloseIdleConnections closes the idle connections of the base.
func (c *calls) CloseIdleConnections() {
	(&http.Client{Transport: c.base}).CloseIdleConnections()
}

// RoundTrip implements [http.RoundTripper]. The span ends when the answer begins.
func (c *calls) RoundTrip(req *http.Request) (*http.Response, error) {
	m := c.ledger.Book().Match(req.Method, req.URL.Host, cmp.Or(req.URL.EscapedPath(), "/"))
	if m.Upstream == nil {
		return c.base.RoundTrip(req)
	}
	name := "unpriced"
	if m.Method != nil {
		name = m.Method.Name
	}
	_, s := c.span(req.Context(), name, trace.SpanKindClient, costs(&m)...)
	defer s.End()
	resp, err := c.base.RoundTrip(req)
	if err != nil {
		s.SetAttributes(attribute.String(attrOutcome, outcome(err)))
		var refused *quota.RefusedError
		if errors.As(err, &refused) {
			s.SetAttributes(poolOf(refused.Pool))
		}
		fault(s, err)
		return resp, err
	}
	s.SetAttributes(attribute.String(attrOutcome, "answered"), attribute.Int(attrStatus, resp.StatusCode))
	if resp.StatusCode >= http.StatusBadRequest {
		s.SetStatus(codes.Error, http.StatusText(resp.StatusCode))
	}
	return resp, nil
}

// costs returns the units of a call by the price book, and its pools.
func costs(m *book.Match) []attribute.KeyValue {
	if m.Method == nil {
		return nil
	}
	var units int64
	var pools []string
	for _, name := range slices.Sorted(maps.Keys(m.Method.Charges)) {
		units += m.Method.Charges[name]
		pools = append(pools, m.Upstream.Name+"/"+name)
	}
	all := []attribute.KeyValue{attribute.Int64(attrUnits, units)}
	if len(pools) == 1 {
		return append(all, attribute.String(attrPool, pools[0]))
	}
	return append(all, attribute.StringSlice(attrPool+"s", pools))
}
