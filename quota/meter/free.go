package meter

import (
	"net/http"
	"slices"

	"github.com/headroom-quota/headroom/quota/book"
)

// isFree reports whether the upstream does not charge for an answer.
func (c *call) isFree(resp *http.Response) bool {
	if c.upstream.FailedFree && resp.StatusCode >= 500 {
		return true
	}
	for i := range c.upstream.Free {
		if meets(&c.upstream.Free[i], resp) {
			return true
		}
	}
	return false
}

// meets reports whether an answer meets a condition.
func meets(when *book.Condition, resp *http.Response) bool {
	if len(when.Status) > 0 && !slices.Contains(when.Status, resp.StatusCode) {
		return false
	}
	if when.Header == "" {
		return true
	}
	value, there := header(resp.Header, when.Header)
	return there && (when.Value == "" || value == when.Value)
}
