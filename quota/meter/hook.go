package meter

import (
	"io"
	"net/http"

	"github.com/headroom-quota/headroom/quota"
)

// PriceFunc returns the units to reserve, by pool, for a request that calls a method. They
// replace the units that the price book has for these pools, and are capped like an
// estimate: see [quota.Call]. The method must charge the pools. A nil result changes
// nothing. If the request has GetBody, its body can be read; otherwise the body is empty.
// After an error, the call is not sent.
type PriceFunc func(req *http.Request, method string) (quota.Units, error)

// ActualFunc returns a [Cost] that reads the actual cost of a call from its response, or nil
// to leave the response alone. It may use the status and the header. It must not read the
// body, because the Cost gets it while the caller reads it.
type ActualFunc func(resp *http.Response, method string) Cost

// Cost reads the body of one response, and then returns the cost of the call.
type Cost interface {
	// Write gets the next piece of the body, as the caller gets it. Write must not keep it.
	io.Writer

	// Units returns the units by pool. It is called once, when the body has ended or was
	// closed. Whole reports whether the body was read to its end. A pool that is missing in
	// the result keeps its estimate, or the cost that the price book has read.
	Units(whole bool) quota.Units
}
