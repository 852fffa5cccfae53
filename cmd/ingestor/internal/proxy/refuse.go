package proxy

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
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
		h.set.Refused.Add(c.token.Name(), err)
	}
	p := h.refusal(c, err)
	if p.refuses() && !errors.As(err, new(*problem.Problem)) { // it lacks units
		h.set.Told(err, p.RetryAt)
	}
	header := w.Header()
	defer h.drain(w, c)()
	if p.Kind == "too_many_guesses" { // the next guess costs a connection
		closes(header, c.request)
	}
	for name, values := range p.header {
		header[name] = values
	}
	format := c.format
	if format == "" && c.upstream != nil {
		format = c.upstream.ErrorFormat
	}
	contentType, text := p.shape(format, header)
	if p.Status == http.StatusUnauthorized {
		header.Set("Www-Authenticate", "Bearer")
	}
	header.Set("Content-Type", contentType)
	header.Set("Content-Length", strconv.Itoa(len(text))) // or the answer would end after the drain
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(text) // the program may have gone
}

// refusal is what is wrong with a call, for its program. The templates of shapes read it.
type refusal struct {
	Status  int
	Kind    string // refused, blocked, impossible, unpriced, outage, or a kind of our own
	Message string
	header  http.Header
	RetryAt time.Time // zero: unknown
	pool    string    // the pool that refuses, or ""
	limit   int64     // the limit of the window that refuses, or 0
	After   time.Duration
}

// refusal returns what an error means to the program. It hides what it should not know.
func (h *Handler) refusal(c *call, err error) *refusal {
	p := &refusal{Status: http.StatusBadGateway, Kind: "upstream", header: http.Header{}}
	var own *problem.Problem
	var refused *quota.RefusedError
	var over *meter.BudgetError
	if resp := meter.As429(c.request, err); resp != nil {
		_ = resp.Body.Close()
		p.Status, p.Message, p.Kind = resp.StatusCode, err.Error(), resp.Header.Get(meter.RefusedHeader)
		p.header.Set(meter.RefusedHeader, p.Kind)
		for _, name := range []string{"Retry-After", "X-Should-Retry", meter.PlaceHeader} {
			if value := resp.Header.Get(name); value != "" {
				p.header.Set(name, value)
			}
		}
		if p.Kind == "outage" {
			p.Message = "the ledger cannot be reached, so the units left are not known"
			p.header.Set("Retry-After", "5")
		}
		if errors.As(err, &refused) {
			p.After, p.pool, p.limit = refused.RetryAfter, refused.Pool.Name, refused.Limit
			p.RetryAt = h.set.Clock.Now().Add(refused.RetryAfter)
		}
		if errors.As(err, new(*crowdedError)) {
			p.Kind = "too_many_waiting"
			p.header.Set(meter.RefusedHeader, p.Kind)
		}
		return p
	}
	retry := false
	switch {
	case errors.As(err, &own):
		p.Status, p.Kind, p.Message = own.Status, own.Code, own.Detail
		if retry = own.RetryAfter > 0; retry {
			p.waits(h.set.Clock.Now(), own.RetryAfter)
		}
	case errors.As(err, &over):
		p.Status, p.Kind, p.limit = http.StatusTooManyRequests, "budget", over.Most
		if c.budget == nil { // that of the process, which has no days
			p.Message = "the budget of the run is used up: " + err.Error()
			break
		}
		p.Message = "the daily budget of the token is used up: " + err.Error()
		now := h.set.Clock.Now() // read once, or the time would be just before midnight
		p.waits(now, tomorrow(now))
	case errors.Is(err, meter.ErrCredential):
		p.Kind, p.Message = "credential", "the proxy has no valid key for this account of "+c.upstream.Name+"; its log has the details"
		h.complain(c, err)
	case errors.As(err, new(*meter.RedirectError)):
		p.Kind, p.Message = "redirect", err.Error()
	case errors.Is(err, quota.ErrBadInput):
		p.Status, p.Kind, p.Message = http.StatusBadRequest, "bad_input", err.Error()
	case errors.Is(err, quota.ErrStaleBook), errors.Is(err, quota.ErrOtherWindows):
		p.Status, p.Kind, p.Message = http.StatusServiceUnavailable, "stale_book", "the price book of the proxy does not match the ledger"
		h.complain(c, err)
	case errors.Is(err, context.DeadlineExceeded):
		p.Status, p.Message, retry = http.StatusGatewayTimeout, "the upstream took too long", true
		h.complain(c, err)
	default:
		p.Message, retry = c.upstream.Name+" could not be reached, or broke off", true
		h.complain(c, err)
	}
	if !retry {
		p.header.Set("X-Should-Retry", "false")
	}
	p.header.Set(meter.RefusedHeader, p.Kind)
	return p
}

// waits says when the program may try again.
func (p *refusal) waits(now time.Time, after time.Duration) {
	p.After, p.RetryAt = after, now.Add(after)
	p.header.Set("Retry-After", strconv.FormatInt(problem.Seconds(after), 10))
}

func closes(h http.Header, r *http.Request) {
	if r.ProtoMajor == 1 {
		h.Set("Connection", "close")
	}
}

// complain logs what the operator should know. The transport has removed keys from its errors.
func (h *Handler) complain(c *call, err error) {
	h.set.Log.LogAttrs(c.request.Context(), slog.LevelWarn, "proxied call failed", slog.String("upstream", c.upstream.Name),
		slog.String("token", c.token.Name()), slog.String("method", calledMethod(c)), slog.String("error", err.Error()))
}

//go:embed shapes.tmpl
var shapesText string

// shapes are the errors of upstreams, by error_format of the price book. They call functions and no methods, so that
// the linker can leave out methods that nothing calls.
var shapes = template.Must(template.New("").Funcs(template.FuncMap{
	"json": asJSON, "by": byStatus, "title": http.StatusText, "upper": strings.ToUpper, "seconds": time.Duration.Seconds,
	"refuses": (*refusal).refuses, "retry": (*refusal).retry,
}).Parse(shapesText))

func asJSON(v any) (string, error) {
	text, err := json.Marshal(v)
	return string(text), err
}

// byStatus returns the word for a status, among words such as "404 notFound". The last one, without
// a status, is that of all others.
func byStatus(status int, words ...string) (string, error) {
	for _, word := range words[:len(words)-1] {
		if code, name, _ := strings.Cut(word, " "); code == strconv.Itoa(status) {
			return asJSON(name)
		}
	}
	return asJSON(words[len(words)-1])
}

// shape returns a problem in the form of an upstream's own errors, and sets the headers that
// belong to it.
func (p *refusal) shape(format string, h http.Header) (contentType string, body []byte) {
	switch format {
	case "openai", "anthropic":
		p.exactly(h)
	case "github", "discord":
		p.counts(h, format, "X-Ratelimit-")
	case "twitch":
		p.counts(h, format, "Ratelimit-")
	}
	contentType = "application/json"
	if format = cmp.Or(format, "problem"); format == "problem" {
		contentType = "application/problem+json"
	}
	var text, compact bytes.Buffer
	if err := errors.Join(shapes.ExecuteTemplate(&text, format, p), json.Compact(&compact, text.Bytes())); err != nil { // it never does: the tests execute each
		return contentType, []byte("{}")
	}
	return contentType, compact.Bytes()
}

// refuses reports whether a later try may succeed, because units come back.
func (p *refusal) refuses() bool { return p.Status == http.StatusTooManyRequests }

// retry returns when the program may try again, or "".
func (p *refusal) retry() string {
	if p.RetryAt.IsZero() {
		return ""
	}
	return p.RetryAt.UTC().Format(time.RFC3339)
}

// exactly sets the header by which the SDKs of OpenAI and Anthropic wait no longer than they
// must: Retry-After is in whole seconds, rounded up.
func (p *refusal) exactly(h http.Header) {
	if p.refuses() && p.After > 0 {
		h.Set("Retry-After-Ms", strconv.FormatInt((p.After+time.Millisecond-1).Milliseconds(), 10))
	}
}

// counts sets the headers by which SDKs know when to retry. Without them, those of Discord and
// Twitch would retry at once.
func (p *refusal) counts(h http.Header, format, prefix string) {
	if !p.refuses() {
		return
	}
	h.Set(prefix+"Remaining", "0")
	if p.limit > 0 {
		h.Set(prefix+"Limit", strconv.FormatInt(p.limit, 10))
	}
	if !p.RetryAt.IsZero() {
		h.Set(prefix+"Reset", strconv.FormatInt((p.RetryAt.UnixMilli()+999)/1000, 10))
	}
	switch format {
	case "github":
		if p.pool != "" { // the pools of the built-in book have GitHub's names
			h.Set("X-Ratelimit-Resource", p.pool)
		}
		if p.limit > 0 {
			h.Set("X-Ratelimit-Used", strconv.FormatInt(p.limit, 10))
		}
	case "discord":
		h.Set("X-Ratelimit-Reset-After", strconv.FormatFloat(p.After.Seconds(), 'f', 3, 64))
		h.Set("X-Ratelimit-Scope", "user")
	}
}
