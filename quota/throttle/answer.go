package throttle

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// The headers, as net/http writes their names.
const (
	headerPolicy = "Ratelimit-Policy"
	headerLimit  = "Ratelimit"

	headerXLimit     = "X-Ratelimit-Limit"
	headerXRemaining = "X-Ratelimit-Remaining"
	headerXReset     = "X-Ratelimit-Reset"
)

// answer collects the rate limit headers for a client.
type answer struct {
	header http.Header
	limit  string        // the value of RateLimit so far
	x      bool          // X-RateLimit-* too
	least  int64         // that any of the limits has left
	wait   time.Duration // until the limits that this request used up have room again
}

// add adds one limit to the headers. v is nil if what is left is unknown. p is nil if the
// price book was changed meanwhile.
func (a *answer) add(p *policy, v *quota.Verdict) {
	if p == nil {
		return
	}
	a.header[headerPolicy] = joined(a.header[headerPolicy], p.header)
	if v == nil {
		return
	}
	if w := p.window(v); w != nil {
		if a.limit != "" {
			a.limit += ", "
		}
		a.limit += w.left(v)
		if a.x && (a.header[headerXLimit] == nil || v.Remaining < a.least) {
			a.least = v.Remaining
			a.header[headerXLimit] = []string{strconv.FormatInt(v.Limit, 10)}
			a.header[headerXRemaining] = []string{strconv.FormatInt(v.Remaining, 10)}
			a.header[headerXReset] = []string{strconv.FormatInt(reset(v), 10)}
		}
	}
	if v.Allowed && v.Remaining < v.Units {
		a.wait = max(a.wait, v.ResetAt.Sub(v.At))
	}
}

// left returns what is left of a window, such as "client";r=12;t=34.
func (w *windowTold) left(v *quota.Verdict) string {
	var room [64]byte
	b := append(room[:0], w.item...)
	b = append(b, ";r="...)
	b = strconv.AppendInt(b, v.Remaining, 10)
	b = append(b, ";t="...)
	b = strconv.AppendInt(b, reset(v), 10)
	return string(b)
}

// reset returns the seconds until a window has more.
func reset(v *quota.Verdict) int64 {
	t := v.ResetAt.Sub(v.At)
	if !v.Allowed {
		t = v.RetryAfter
	}
	return max(seconds(t), 0)
}

// window returns the window that a verdict names, or nil if the price book was changed
// meanwhile.
func (p *policy) window(v *quota.Verdict) *windowTold {
	for i := range p.windows {
		if p.windows[i].window == v.Window {
			return &p.windows[i]
		}
	}
	return nil
}

func (a *answer) write() {
	if a.limit != "" {
		a.header[headerLimit] = joined(a.header[headerLimit], []string{a.limit})
	}
}

// joined appends a list to the header of another limit, or of a throttle around this one.
// It returns a single line, because some clients read only the first.
func joined(had, more []string) []string {
	if len(had) == 0 {
		return more
	}
	return []string{strings.Join(had, ", ") + ", " + more[0]}
}

func (a *answer) refuse(w http.ResponseWriter, p *policy, v *quota.Verdict) {
	body := quotaExceeded
	if p != nil {
		if told := p.window(v); told != nil {
			body = told.body
		}
	}
	a.problem(w, http.StatusTooManyRequests, strconv.FormatInt(max(seconds(max(v.RetryAfter, a.wait)), 1), 10), body)
}

func (a *answer) unavailable(w http.ResponseWriter) {
	a.problem(w, http.StatusServiceUnavailable, "5", unavailable)
}

func (a *answer) problem(w http.ResponseWriter, status int, retryAfter string, body []byte) {
	a.write()
	a.header["Retry-After"] = []string{retryAfter}
	a.header["Content-Type"] = problemJSON
	a.header["Cache-Control"] = noStore
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the client has gone away
}
