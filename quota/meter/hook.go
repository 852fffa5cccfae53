package meter

import (
	"io"
	"net/http"

	"github.com/headroom-quota/headroom/quota"
)

// PriceFunc returns the units, by pool, to reserve for a request that calls a method. It
// replaces what the price book has for these pools, and is not capped by it; nil leaves
// all as it is. The pools must be those that the method charges. The body of the request
// can be read if the request has GetBody, and is empty otherwise. With an error the call
// is not sent.
type PriceFunc func(req *http.Request, method string) (quota.Units, error)

// ActualFunc begins to read an answer for what its call has cost; nil is that it need not
// be read. It must not read the body: [Cost] is given it while the caller reads it.
type ActualFunc func(resp *http.Response, method string) Cost

// Cost is told the body of one answer, and then what the call has cost.
type Cost interface {
	io.Writer // a piece of the body, as the caller gets it; it must not be kept

	// Units returns the units by pool, when the body has ended or was closed; whole says
	// that it was read to its end. A pool that is not named keeps its estimate, or what
	// the price book has read.
	Units(whole bool) quota.Units
}
