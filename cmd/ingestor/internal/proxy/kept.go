package proxy

import (
	"io"
	"net/http"
	"sync"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/guard"
)

// mostKept is how many bytes of bodies the proxy keeps at once, to read their prices.
const mostKept = 256 << 20

// outgoing is the body of a request as it is sent. The transport may keep it before, to read
// its price, and closes it once it is sent.
type outgoing struct {
	io.ReadCloser

	mu     sync.Mutex
	closed bool
	room   *guard.Shares[string]
	of     string // the token whose body it is
	kept   int64  // bytes
}

// keep lets the transport keep n more bytes of a request's body.
func (h *Handler) keep(req *http.Request, n int64) error {
	c := callOf(req.Context())
	b := &c.out
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return http.ErrBodyReadAfterClose
	}
	if !h.bodies.Take(c.token.Name, n, h.alone()) {
		return h.crowded(metrics.Bodies, "bodies of calls that are not sent yet take all of the memory that the token %s may have; send fewer at once", c.token.Name)
	}
	b.room, b.of = h.bodies, c.token.Name
	b.kept += n
	return nil
}

// Close implements [io.Closer]. The bytes that were kept are free then.
func (b *outgoing) Close() error {
	b.mu.Lock()
	if b.closed = true; b.kept > 0 {
		b.room.Give(b.of, b.kept)
		b.kept = 0
	}
	b.mu.Unlock()
	return b.ReadCloser.Close()
}
