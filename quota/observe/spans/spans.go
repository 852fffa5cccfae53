// Package spans has the words that our spans use: names of attributes, and outcomes.
package spans

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/headroom-quota/headroom/internal/pattern"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// These are the names of attributes.
const (
	AttrJob       = "headroom.job"
	AttrWork      = "headroom.work"
	AttrRegion    = "headroom.region"
	AttrState     = "headroom.state"
	AttrScheduled = "headroom.scheduled"
	AttrPages     = "headroom.pages"
	AttrUnits     = "headroom.units"
	AttrPool      = "headroom.pool"
	AttrOutcome   = "headroom.outcome"
	AttrSpilledTo = "headroom.spilled_to"
	AttrRoute     = "http.route"
	AttrStatus    = "http.response.status_code"
)

// Outcome returns the ledger's answer in one word, the kind of its event.
func Outcome(err error) string {
	for _, known := range []struct {
		err  error
		word quota.EventKind
	}{
		{nil, quota.EventGranted},
		{quota.ErrBlocked, quota.EventBlocked}, // a refusal, too
		{quota.ErrRefused, quota.EventRefused},
		{quota.ErrOutage, quota.EventOutage},
		{quota.ErrImpossible, quota.EventImpossible},
		{quota.ErrUnpriced, quota.EventUnpriced},
		{meter.ErrBudget, "over budget"},
		{meter.ErrCredential, "credential"},
		{context.Canceled, "cancelled"},
		{context.DeadlineExceeded, "timeout"},
	} {
		if errors.Is(err, known.err) {
			return string(known.word)
		}
	}
	return string(quota.EventFailed)
}

// PoolOf returns the pool that decided, without the key of a family, which may be an
// address.
func PoolOf(p quota.Pool) attribute.KeyValue {
	if p.Name == "" {
		return attribute.String(AttrPool, p.Upstream)
	}
	return attribute.String(AttrPool, p.String())
}

// Fault marks a span as failed if there is an error other than a refusal, which is a normal
// answer of the ledger.
func Fault(s trace.Span, err error) {
	if err != nil && !errors.Is(err, quota.ErrRefused) {
		s.SetStatus(codes.Error, Text(err))
	}
}

// links matches URLs, which an error may include.
var links = pattern.Of(`[a-zA-Z][a-zA-Z0-9+.-]*://[^\s"']+`)

// Text returns the text of an error without URLs.
func Text(err error) string {
	said := err.Error()
	if asked, ok := errors.AsType[*url.Error](err); ok {
		said = asked.Err.Error()
	}
	return Bounded(links().ReplaceAllString(said, "[url]"))
}

// Bounded returns text cut to a bounded length, on one line.
func Bounded(said string) string {
	const longest = 300
	said = strings.ToValidUTF8(strings.Join(strings.Fields(said), " "), "?")
	for i := range said {
		if i > longest {
			return said[:i] + " ..."
		}
	}
	return said
}
