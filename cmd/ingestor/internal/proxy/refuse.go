package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// failed answers a call that got no answer from the upstream.
func (h *Handler) failed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the program hung up; returning would send status 200
	}
	h.refuse(w, callOf(r.Context()), err)
}

// refuse answers in the form that the SDKs of the upstream understand.
func (h *Handler) refuse(w http.ResponseWriter, c *call, err error) {
	if c.token != nil {
		h.refused.Add(c.token.Name, err)
	}
	p := h.problem(c, err)
	if p.refuses() && !errors.As(err, new(*refusal)) { // it lacks units
		h.told(err, p.retryAt)
	}
	header := w.Header()
	clear(header) // what ReverseProxy has copied
	defer h.drain(w, c)()
	if p.kind == "too_many_guesses" { // the next guess costs a connection
		closes(header, c.request)
	}
	for name, values := range p.header {
		header[name] = values
	}
	format := ""
	if c.upstream != nil {
		format = c.upstream.ErrorFormat
	}
	contentType, body := p.shape(format, header)
	text, err := json.Marshal(body)
	if err != nil { // it never does: all of it is text and numbers
		text = []byte("{}")
	}
	if p.status == http.StatusUnauthorized {
		header.Set("Www-Authenticate", "Bearer")
	}
	header.Set("Content-Type", contentType)
	header.Set("Content-Length", strconv.Itoa(len(text)))
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(p.status)
	_, _ = w.Write(text) // the program may have gone
}

// problem is what is wrong with a call, for its program.
type problem struct {
	status  int
	kind    string // refused, blocked, impossible, unpriced, outage, or a kind of our own
	message string
	header  http.Header
	retryAt time.Time // zero: unknown
	pool    string    // the pool that refuses, or ""
	limit   int64     // the limit of the window that refuses, or 0
	after   time.Duration
}

// problem returns what an error means to the program. It hides what it should not know.
func (h *Handler) problem(c *call, err error) *problem {
	p := &problem{status: http.StatusBadGateway, kind: "upstream", header: http.Header{}}
	var own *refusal
	var refused *quota.RefusedError
	var over *meter.BudgetError
	if resp := meter.As429(c.request, err); resp != nil {
		_ = resp.Body.Close()
		p.status, p.message, p.kind = resp.StatusCode, err.Error(), resp.Header.Get(meter.RefusedHeader)
		p.header.Set(meter.RefusedHeader, p.kind)
		for _, name := range []string{"Retry-After", "X-Should-Retry"} {
			if value := resp.Header.Get(name); value != "" {
				p.header.Set(name, value)
			}
		}
		if p.kind == "outage" {
			p.message = "the ledger cannot be reached, so the units left are not known"
			p.header.Set("Retry-After", "5")
		}
		if errors.As(err, &refused) {
			p.after, p.pool, p.limit = refused.RetryAfter, refused.Pool.Name, refused.Limit
			p.retryAt = h.clock.Now().Add(refused.RetryAfter)
		}
		if errors.As(err, new(*crowdedError)) {
			p.kind = "too_many_waiting"
			p.header.Set(meter.RefusedHeader, p.kind)
		}
		return p
	}
	retry := false
	switch {
	case errors.As(err, &own):
		p.status, p.kind, p.message = own.status, own.kind, own.message
		if retry = own.after > 0; retry {
			p.waits(h.clock.Now(), own.after)
		}
	case errors.As(err, &over):
		p.status, p.kind, p.limit = http.StatusTooManyRequests, "budget", over.Most
		if c.budget == nil { // that of the process, which has no days
			p.message = "the budget of the run is used up: " + err.Error()
			break
		}
		p.message = "the daily budget of the token is used up: " + err.Error()
		now := h.clock.Now() // read once, or the time would be just before midnight
		p.waits(now, tomorrow(now))
	case errors.Is(err, meter.ErrCredential):
		p.kind, p.message = "credential", "the proxy has no valid key for this account of "+c.upstream.Name+"; its log has the details"
		h.complain(c, err)
	case errors.As(err, new(*meter.RedirectError)):
		p.kind, p.message = "redirect", err.Error()
	case errors.Is(err, quota.ErrBadInput):
		p.status, p.kind, p.message = http.StatusBadRequest, "bad_input", err.Error()
	case errors.Is(err, quota.ErrStaleBook), errors.Is(err, quota.ErrOtherWindows):
		p.status, p.kind, p.message = http.StatusServiceUnavailable, "stale_book", "the price book of the proxy does not match the ledger"
		h.complain(c, err)
	case errors.Is(err, context.DeadlineExceeded):
		p.status, p.message, retry = http.StatusGatewayTimeout, "the upstream took too long", true
		h.complain(c, err)
	default:
		p.message, retry = "the upstream could not be reached, or broke off", true
		if c.upstream != nil {
			p.message = c.upstream.Name + " could not be reached, or broke off"
		}
		h.complain(c, err)
	}
	if !retry {
		p.header.Set("X-Should-Retry", "false")
	}
	p.header.Set(meter.RefusedHeader, p.kind)
	return p
}

// waits says when the program may try again.
func (p *problem) waits(now time.Time, after time.Duration) {
	p.after, p.retryAt = after, now.Add(after)
	p.header.Set("Retry-After", strconv.FormatInt(seconds(after), 10))
}

// closes ends the connection of a request after its answer.
func closes(h http.Header, r *http.Request) {
	if r.ProtoMajor == 1 {
		h.Set("Connection", "close")
	}
}

// complain logs what the operator should know. The transport has removed keys from its errors.
func (h *Handler) complain(c *call, err error) {
	h.log.LogAttrs(c.request.Context(), slog.LevelWarn, "proxied call failed", slog.String("upstream", c.upstream.Name),
		slog.String("token", c.token.Name), slog.String("method", calledMethod(c)), slog.String("error", err.Error()))
}
