package meter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// RefusedHeader marks an answer that was made here: the request was not sent. Its value
// is refused, blocked, impossible, unpriced, body or outage.
const RefusedHeader = "Headroom-Refused"

// PlaceHeader has the place of a refused call among those that wait for the same units, if others
// come first.
const PlaceHeader = "Headroom-Place"

// longestRetry is the longest Retry-After that common SDKs wait for. The SDKs of OpenAI and
// Anthropic obey less than a minute. If it is longer, they retry within seconds by their own
// backoff, and would be refused again.
const longestRetry = time.Minute

type refusedKey struct{}

// refusedBy is the error behind one answer. A request that is made of the answer's own
// has the same context, but another answer.
type refusedBy struct {
	resp *http.Response
	err  error
}

func markRefused(resp *http.Response, err error) {
	resp.Request = resp.Request.WithContext(context.WithValue(resp.Request.Context(), refusedKey{}, refusedBy{resp, err}))
}

// RefusalOf returns the ledger's error behind an answer that [As429] made, or nil. It
// also finds it in the response that an SDK keeps in its own error.
func RefusalOf(resp *http.Response) error {
	if resp == nil || resp.Request == nil {
		return nil
	}
	if by, _ := resp.Request.Context().Value(refusedKey{}).(refusedBy); by.resp == resp {
		return by.err
	}
	return nil
}

// As429 answers a request that was not sent, for SDKs that retry every error but respect a
// status. Give it to [Options].Refused. A refusal is answered with 429 and
// Retry-After in whole seconds, rounded up. Calls that are impossible or have no price are
// answered with 400, a [BodyError] with 400 or 413, and an outage of the ledger with 503. Other errors stay errors: As429
// returns nil.
//
// The answer has [RefusedHeader], [PlaceHeader] if others come first, and a JSON body with the error's message.
// x-should-retry: false tells an SDK not to retry if waiting does not help, or takes a
// minute or longer, which SDKs do not wait. [RefusalOf] returns the error.
func As429(req *http.Request, err error) *http.Response {
	h := http.Header{"Content-Type": {"application/json"}}
	status, kind, retry := 0, "", false
	var refused *quota.RefusedError
	var body *BodyError
	switch {
	case errors.As(err, &refused):
		status, kind = http.StatusTooManyRequests, "refused"
		if refused.Blocked {
			kind = "blocked"
		}
		seconds := max((refused.RetryAfter+time.Second-1)/time.Second, 1)
		retry = seconds*time.Second < longestRetry
		h.Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
		if refused.Place > 0 {
			h.Set(PlaceHeader, strconv.Itoa(refused.Place))
		}
	case errors.Is(err, quota.ErrImpossible):
		status, kind = http.StatusBadRequest, "impossible"
	case errors.Is(err, quota.ErrUnpriced):
		status, kind = http.StatusBadRequest, "unpriced"
	case errors.As(err, &body):
		status, kind = http.StatusBadRequest, "body"
		if body.TooLong {
			status = http.StatusRequestEntityTooLarge
		}
	case errors.Is(err, quota.ErrOutage):
		status, kind, retry = http.StatusServiceUnavailable, "outage", true
	default:
		return nil
	}
	h.Set(RefusedHeader, kind)
	if !retry {
		h.Set("X-Should-Retry", "false")
	}
	text, _ := json.Marshal(map[string]any{"error": map[string]string{"message": err.Error(), "type": "headroom_" + kind, "code": "headroom_" + kind}})
	h.Set("Content-Length", strconv.Itoa(len(text)))
	resp := &http.Response{
		Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text)),
		Request: req,
	}
	markRefused(resp, err)
	return resp
}
