package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
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
		h.set.Refused.Add(c.token.Name, err)
	}
	p := h.problem(c, err)
	if p.refuses() && !errors.As(err, new(*refusal)) { // it lacks units
		h.set.Told(err, p.retryAt)
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
			p.retryAt = h.set.Clock.Now().Add(refused.RetryAfter)
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
			p.waits(h.set.Clock.Now(), own.after)
		}
	case errors.As(err, &over):
		p.status, p.kind, p.limit = http.StatusTooManyRequests, "budget", over.Most
		if c.budget == nil { // that of the process, which has no days
			p.message = "the budget of the run is used up: " + err.Error()
			break
		}
		p.message = "the daily budget of the token is used up: " + err.Error()
		now := h.set.Clock.Now() // read once, or the time would be just before midnight
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
	h.set.Log.LogAttrs(c.request.Context(), slog.LevelWarn, "proxied call failed", slog.String("upstream", c.upstream.Name),
		slog.String("token", c.token.Name), slog.String("method", calledMethod(c)), slog.String("error", err.Error()))
}

// object is JSON.
type object map[string]any

// shape returns a problem in the form of an upstream's own errors, and sets the headers that
// belong to it.
func (p *problem) shape(format string, h http.Header) (contentType string, body object) {
	switch format {
	case "google":
		return "application/json; charset=UTF-8", p.google()
	case "openai":
		p.exactly(h)
		return "application/json", p.openAI()
	case "anthropic":
		p.exactly(h)
		return "application/json", object{"type": "error", "error": object{"type": byStatus(anthropicTypes, p.status), "message": p.message}}
	case "github":
		p.gitHub(h)
		body = object{"message": p.message, "documentation_url": "", "status": strconv.Itoa(p.status)}
		if p.refuses() {
			body["message"] = "API rate limit exceeded: " + p.message
			body["errors"] = []object{{"type": "RATE_LIMITED", "message": p.message}} // of GraphQL
		}
		return "application/json; charset=utf-8", body
	case "graphql":
		code := strings.ToUpper(p.kind)
		if p.refuses() {
			code = "THROTTLED"
		}
		return "application/json; charset=utf-8", object{"errors": []object{{"message": p.message, "extensions": object{"code": code}}}}
	}
	body = object{"title": http.StatusText(p.status), "status": p.status, "detail": p.message, "code": p.kind}
	if !p.retryAt.IsZero() {
		body["retry_at"] = p.retryAt.UTC().Format("2006-01-02T15:04:05Z07:00")
	}
	return "application/problem+json", body
}

// refuses reports whether a later try may succeed, because units come back.
func (p *problem) refuses() bool { return p.status == http.StatusTooManyRequests }

// exactly sets the header by which the SDKs of OpenAI and Anthropic wait no longer than they
// must: Retry-After is in whole seconds, rounded up.
func (p *problem) exactly(h http.Header) {
	if p.refuses() && p.after > 0 {
		h.Set("Retry-After-Ms", strconv.FormatInt((p.after+time.Millisecond-1).Milliseconds(), 10))
	}
}

// google is the form of Google's APIs. SDKs look at the code, and at the reason in errors.
func (p *problem) google() object {
	reason := byStatus(googleReasons, p.status)
	inner := object{
		"code": p.status, "message": p.message, "status": byStatus(googleStatuses, p.status),
		"errors": []object{{"message": p.message, "domain": "usageLimits", "reason": reason}},
	}
	if p.refuses() {
		inner["details"] = []object{
			{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "RATE_LIMIT_EXCEEDED", "domain": "headroom"},
			{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": fmt.Sprintf("%.3fs", p.after.Seconds())},
		}
	}
	return object{"error": inner}
}

// openAI is the form of OpenAI's API, and of those that imitate it.
func (p *problem) openAI() object {
	kind, code := byStatus(openAITypes, p.status), any(p.kind)
	switch {
	case p.refuses():
		code = "rate_limit_exceeded"
	case p.status == http.StatusUnauthorized:
		code = "invalid_api_key"
	}
	return object{"error": object{"message": p.message, "type": kind, "param": nil, "code": code}}
}

// gitHub sets the headers by which octokit and others know when to retry.
func (p *problem) gitHub(h http.Header) {
	if !p.refuses() {
		return
	}
	h.Set("X-Ratelimit-Remaining", "0")
	if p.pool != "" { // the pools of the built-in book have GitHub's names
		h.Set("X-Ratelimit-Resource", p.pool)
	}
	if p.limit > 0 {
		limit := strconv.FormatInt(p.limit, 10)
		h.Set("X-Ratelimit-Limit", limit)
		h.Set("X-Ratelimit-Used", limit)
	}
	if !p.retryAt.IsZero() {
		h.Set("X-Ratelimit-Reset", strconv.FormatInt((p.retryAt.UnixMilli()+999)/1000, 10))
	}
}

var (
	googleStatuses = map[int]string{
		400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED",
		502: "UNAVAILABLE", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED", 0: "FAILED_PRECONDITION",
	}
	googleReasons = map[int]string{
		400: "badRequest", 401: "authError", 403: "forbidden", 404: "notFound", 429: "rateLimitExceeded", 0: "backendError",
	}
	openAITypes = map[int]string{
		429: "rate_limit_error", 502: "server_error", 503: "server_error", 504: "server_error", 0: "invalid_request_error",
	}
	anthropicTypes = map[int]string{
		401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error",
		502: "api_error", 503: "overloaded_error", 504: "timeout_error", 0: "invalid_request_error",
	}
)

// byStatus returns the word for a status; 0 is any other.
func byStatus(words map[int]string, status int) string {
	if word, has := words[status]; has {
		return word
	}
	return words[0]
}
