package traces

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// Names of attributes.
const (
	attrJob       = "headroom.job"
	attrWork      = "headroom.work"
	attrRegion    = "headroom.region"
	attrState     = "headroom.state"
	attrScheduled = "headroom.scheduled"
	attrPages     = "headroom.pages"
	attrUnits     = "headroom.units"
	attrPool      = "headroom.pool"
	attrOutcome   = "headroom.outcome"
	attrRoute     = "http.route"
	attrStatus    = "http.response.status_code"
)

// outcome returns the ledger's answer in one word, the kind of its event.
func outcome(err error) string {
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

// poolOf returns the pool that decided, without the key of a family, which may be an
// address.
func poolOf(p quota.Pool) attribute.KeyValue {
	if p.Name == "" {
		return attribute.String(attrPool, p.Upstream)
	}
	return attribute.String(attrPool, p.String())
}

// fault marks a span as failed if there is an error other than a refusal, which is a normal
// answer of the ledger.
func fault(s trace.Span, err error) {
	if err != nil && !errors.Is(err, quota.ErrRefused) {
		s.SetStatus(codes.Error, text(err))
	}
}

// links matches URLs, which an error may include.
var links = regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.-]*://[^\s"']+`)

// text returns the text of an error without URLs.
func text(err error) string {
	said := err.Error()
	var asked *url.Error
	if errors.As(err, &asked) {
		said = asked.Err.Error()
	}
	return bounded(links.ReplaceAllString(said, "[url]"))
}

// bounded returns text cut to a bounded length, on one line.
func bounded(said string) string {
	const longest = 300
	said = strings.ToValidUTF8(strings.Join(strings.Fields(said), " "), "?")
	for i := range said {
		if i > longest {
			return said[:i] + " ..."
		}
	}
	return said
}
