package traces

import (
	"net/http"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/observe/otel"
)

// Calls returns a transport that traces the calls of base, which the ledger should meter.
// Spans have the method names of the price book.
func (t *Traces) Calls(l *quota.Ledger, metered http.RoundTripper) http.RoundTripper {
	if t == nil {
		return metered
	}
	return otel.Calls(t.tracer, l, metered)
}
