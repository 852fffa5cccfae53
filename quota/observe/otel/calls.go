package otel

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
	"github.com/headroom-quota/headroom/quota/meter"
	"github.com/headroom-quota/headroom/quota/observe/spans"
)

// Calls returns a transport that makes a span for each call of base, which the ledger
// should meter. Spans have the method names of the price book, and say what a call costs
// and what became of it. They hold no key and no URL.
func Calls(tracer trace.Tracer, l *quota.Ledger, base http.RoundTripper) http.RoundTripper {
	return &calls{tracer, l, base}
}

// calls is the transport of [Calls].
type calls struct {
	tracer trace.Tracer
	ledger *quota.Ledger
	base   http.RoundTripper
}

// CloseIdleConnections closes the idle connections of the base.
func (c *calls) CloseIdleConnections() {
	(&http.Client{Transport: c.base}).CloseIdleConnections()
}

// RoundTrip implements [http.RoundTripper]. The span ends when the answer begins.
func (c *calls) RoundTrip(req *http.Request) (*http.Response, error) {
	m := c.ledger.Book().MatchAgain(meter.CallerOf(req.Context()).Match, req.Method, req.URL.Host, cmp.Or(req.URL.EscapedPath(), "/"))
	if m.Upstream == nil {
		return c.base.RoundTrip(req)
	}
	name := "unpriced"
	if m.Method != nil {
		name = m.Method.Name
	}
	ctx, s := c.tracer.Start(req.Context(), name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(costs(&m)...))
	defer s.End()
	resp, err := c.base.RoundTrip(req.WithContext(ctx))
	if resp != nil && resp.Request != nil && resp.Request.Context() == ctx {
		resp.Request = req
	}
	if err != nil {
		s.SetAttributes(attribute.String(spans.AttrOutcome, spans.Outcome(err)))
		if refused, ok := errors.AsType[*quota.RefusedError](err); ok {
			s.SetAttributes(spans.PoolOf(refused.Pool))
		}
		spans.Fault(s, err)
		return resp, err
	}
	s.SetAttributes(attribute.String(spans.AttrOutcome, "answered"), attribute.Int(spans.AttrStatus, resp.StatusCode))
	if to := resp.Request; to != nil && to.URL != req.URL && resp.Header.Get(meter.SpilledHeader) != "" {
		m = c.ledger.Book().Match(to.Method, to.URL.Host, to.URL.EscapedPath())
		s.SetAttributes(append(costs(&m), attribute.String(spans.AttrSpilledTo, resp.Header.Get(meter.SpilledHeader)))...)
	}
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
	all := []attribute.KeyValue{attribute.Int64(spans.AttrUnits, units)}
	if len(pools) == 1 {
		return append(all, attribute.String(spans.AttrPool, pools[0]))
	}
	return append(all, attribute.StringSlice(spans.AttrPool+"s", pools))
}
