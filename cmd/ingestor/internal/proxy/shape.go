package proxy

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

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
