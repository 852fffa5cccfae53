package proxy

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
	"github.com/headroom-quota/headroom/internal/places"
	"github.com/headroom-quota/headroom/quota"
)

const (
	// mostDrained is how much of a refused body is read: more than bodies of 100 MB.
	mostDrained = 128 << 20
	// mostBefore is the length of a body that is read before its refusal is answered, so that
	// the connection can stay open. It is what net/http reads of other bodies.
	mostBefore = 256 << 10
)

// body is the body of a request. ReverseProxy leaves it open when the transport closes that of a
// call that it does not send, so that the rest can be read: a program that sends all of its body
// first would find its connection reset, and never see the answer.
type body struct {
	io.ReadCloser
	begun, ended atomic.Bool // read in part, and to its end
}

func (b *body) Read(p []byte) (int, error) {
	b.begun.Store(true)
	if b.ended.Load() { // net/http closes the body when the answer begins, and the transport may still look for more
		return 0, io.EOF
	}
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.ended.Store(true)
	}
	return n, err
}

// drain reads the body of a refused request over HTTP/1, within h.linger. It returns what to
// do once the answer is written. If the body does not end, the connection is closed.
func (h *Handler) drain(w http.ResponseWriter, c *call) (after func()) {
	r, b := c.request, c.body
	if b == nil || r.ProtoMajor != 1 || b.ended.Load() {
		return func() {}
	}
	control, now := http.NewResponseController(w), quota.SystemClock{}.Now
	_ = control.SetReadDeadline(now().Add(h.linger))         // recorders have none
	waits := r.Header.Get("Expect") != "" && !b.begun.Load() // so the program does not send it
	if r.ContentLength >= 0 && r.ContentLength <= mostBefore && !waits {
		_, _ = io.Copy(io.Discard, b)
	}
	if b.ended.Load() {
		return func() {}
	}
	closes(w.Header(), r) // or net/http would read some of it before it answers
	return func() {
		switch err := control.Flush(); {
		case waits:
			_ = control.SetReadDeadline(now()) // or net/http would read it
		case err == nil:
			_, _ = io.CopyN(io.Discard, b, mostDrained)
		}
	}
}

// mostKept is how many bytes of bodies the proxy keeps at once, to read their prices.
const mostKept = 256 << 20

// outgoing is the body of a request as it is sent. The transport may keep it before, to read
// its price, and closes it once it is sent.
type outgoing struct {
	io.ReadCloser

	mu     sync.Mutex
	closed bool
	room   *places.Places[string]
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
	if !h.bodies.Take(c.token.Name(), n, h.alone()) {
		return h.crowded(metrics.Bodies, "bodies of calls that are not sent yet take all of the memory that the token %s may have; send fewer at once", c.token.Name())
	}
	b.room, b.of = h.bodies, c.token.Name()
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
