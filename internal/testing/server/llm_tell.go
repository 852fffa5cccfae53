package server

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// limitNames has the names of an LLM's limits, in the order in which they are told.
var limitNames = []string{"requests", "tokens", "input_tokens", "output_tokens"}

// refused is why a call is not served.
type refused struct {
	limit      string
	of         Limit
	used, need int64
	wait       time.Duration
}

// tell adds when to come again.
func (no *refused) tell(h http.Header) {
	seconds := int64(math.Ceil(no.wait.Seconds()))
	h.Set("Retry-After", strconv.FormatInt(seconds, 10))
}

// headers returns the headers about the limits, in either form.
func (s *LLM) headers(now time.Time) http.Header {
	h := http.Header{"Date": {now.UTC().Format(http.TimeFormat)}}
	if s.o.Silent {
		return h
	}
	for _, name := range limitNames {
		l := s.limits[name]
		if l == nil {
			continue
		}
		left := max(0, l.left(now))
		if s.o.Rounded && name != "requests" {
			left = (left + 500) / 1000 * 1000
		}
		limit, remaining, reset := strconv.FormatInt(l.most(), 10), strconv.FormatInt(left, 10), l.full(now)
		if s.o.Form == OpenAI {
			h.Set("X-Ratelimit-Limit-"+name, limit)
			h.Set("X-Ratelimit-Remaining-"+name, remaining)
			h.Set("X-Ratelimit-Reset-"+name, reset.Round(time.Millisecond).String())
			continue
		}
		name = map[string]string{"requests": "requests", "tokens": "tokens", "input_tokens": "input-tokens", "output_tokens": "output-tokens"}[name]
		h.Set("Anthropic-Ratelimit-"+name+"-Limit", limit)
		h.Set("Anthropic-Ratelimit-"+name+"-Remaining", remaining)
		h.Set("Anthropic-Ratelimit-"+name+"-Reset", now.Add(reset).UTC().Truncate(time.Second).Add(time.Second).Format(time.RFC3339))
	}
	return h
}

// refuse writes the documented refusals.
func (s *LLM) refuse(w http.ResponseWriter, no *refused) {
	var body any
	if s.o.Form == OpenAI {
		body = map[string]any{"error": map[string]any{
			"message": fmt.Sprintf("Rate limit reached for the model in organization org-test on %s per min: Limit %d, Used %d, Requested %d. Please try again in %s.", no.limit, no.of.most(), no.used, no.need, no.wait.Round(time.Millisecond)),
			"type":    no.limit, "param": nil, "code": "rate_limit_exceeded",
		}}
	} else {
		body = map[string]any{"type": "error", "request_id": "req_test", "error": map[string]any{
			"type":    "rate_limit_error",
			"message": fmt.Sprintf("This request would exceed your organization's rate limit of %d %s per minute.", no.of.most(), no.limit),
		}}
	}
	writeJSON(w, http.StatusTooManyRequests, body)
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client has gone
}
