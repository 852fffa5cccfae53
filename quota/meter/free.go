package meter

import (
	"net/http"
	"slices"

	"github.com/headroom-quota/headroom/quota/book"
)

// free returns the pools in which the upstream does not charge for an answer, or true if
// it does in none.
func (c *call) free(resp *http.Response) (pools []string, all bool) {
	if c.upstream.FailedFree && resp.StatusCode >= 500 {
		return nil, true
	}
	for i := range c.upstream.Free {
		if f := &c.upstream.Free[i]; meets(&f.Condition, resp) {
			if f.Pools == nil {
				return nil, true
			}
			pools = append(pools, f.Pools...)
		}
	}
	return pools, false
}

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
