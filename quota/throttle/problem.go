package throttle

import (
	"encoding/json"
	"net/http"
)

// problemTypes is the URL at which the draft registers its problem types.
const problemTypes = "https://iana.org/assignments/http-problem-types#"

// problem is a body of application/problem+json (RFC 9457).
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail"`
	Violated []string `json:"violated-policies"`
}

func (p problem) encode() []byte {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings always marshal
	}
	return append(b, '\n')
}

var (
	problemJSON = []string{"application/problem+json"}
	noStore     = []string{"no-store"}
	unavailable = problem{
		Type:     problemTypes + "temporary-reduced-capacity",
		Title:    "Request cannot be satisfied due to temporary server capacity constraints",
		Status:   http.StatusServiceUnavailable,
		Detail:   "limits per client cannot be looked up; come again after the seconds in Retry-After",
		Violated: []string{},
	}.encode()
	quotaExceeded = exceeded("come again after the seconds in Retry-After")
)

// exceeded is the body of a refusal.
func exceeded(detail string, policies ...string) []byte {
	return problem{
		Type:     problemTypes + "quota-exceeded",
		Title:    "Request cannot be satisfied as assigned quota has been exceeded",
		Status:   http.StatusTooManyRequests,
		Detail:   detail,
		Violated: append([]string{}, policies...),
	}.encode()
}
