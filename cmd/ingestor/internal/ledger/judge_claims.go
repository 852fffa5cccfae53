package ledger

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/internal/boundary"
	"github.com/headroom-quota/headroom/internal/pattern"
)

// The headers that limiters send, by what they say. The standard's drafts come first.
var (
	limitHeaders     = []string{"RateLimit-Policy", "RateLimit", "RateLimit-Limit", "X-RateLimit-Limit", "X-Rate-Limit-Limit"}
	remainingHeaders = []string{"RateLimit", "RateLimit-Remaining", "X-RateLimit-Remaining", "X-Rate-Limit-Remaining"}
	resetHeaders     = []string{"Retry-After", "RateLimit", "RateLimit-Reset", "X-RateLimit-Reset", "X-Rate-Limit-Reset"}
)

// claims are what the headers of one answer say.
type claims struct {
	rates       []claimedRate
	remaining   int // -1: unknown
	remainingBy string
	named       time.Time // when a refused call may come again; zero: unknown
	namedBy     string
}

// claimedRate is a limit. Its window is 0 if the header does not name it.
type claimedRate struct {
	header string
	boundary.Rate
}

// readClaims reads the headers of an answer that came at a time. It leaves out what it does
// not understand.
func readClaims(h http.Header, now time.Time) claims {
	c := claims{remaining: -1}
	for _, name := range limitHeaders {
		for _, item := range items(h, name) {
			if q, ok := item.number("q", "limit", ""); ok && q >= 1 {
				w, _ := item.number("w", "window")
				c.rates = append(c.rates, claimedRate{name, boundary.Rate{Limit: int(q), Per: time.Duration(w * float64(time.Second))}})
			}
		}
	}
	for _, name := range remainingHeaders {
		for _, item := range items(h, name) {
			if r, ok := item.number("r", "remaining", ""); ok && r >= 0 && (c.remaining < 0 || int(r) < c.remaining) {
				c.remaining, c.remainingBy = int(r), name
			}
		}
	}
	for _, name := range resetHeaders {
		for _, at := range resets(h, name, now) {
			if c.namedBy == "" || c.namedBy == name && at.After(c.named) {
				c.named, c.namedBy = at, name
			}
		}
	}
	return c
}

// resets returns the times that a header names for what has run out.
func resets(h http.Header, name string, now time.Time) (all []time.Time) {
	for _, form := range []string{http.TimeFormat, time.RFC3339} {
		if at, err := time.Parse(form, h.Get(name)); err == nil {
			return []time.Time{at}
		}
	}
	const year2001 = 1_000_000_000 // in seconds: longer than any wait, and earlier than any reset
	for _, item := range items(h, name) {
		t, ok := item.number("t", "reset", "")
		if left, said := item.number("r"); !ok || t < 0 || said && left > 0 {
			continue
		}
		switch {
		case t >= 1000*year2001:
			all = append(all, time.UnixMilli(int64(t)))
		case t >= year2001:
			all = append(all, time.Unix(int64(t), 0))
		default:
			all = append(all, now.Add(time.Duration(t*float64(time.Second))))
		}
	}
	return all
}

// item is a member of a list, with its parameters. Its own value has the name "".
type item map[string]string

var tokens = pattern.Of(`[,;]|(?:"[^"]*"|[^",;])+`)

// items reads a header in any of its forms: 100, 100;w=60, "default";q=100;w=60, or
// limit=100, remaining=3.
func items(h http.Header, name string) []item {
	all := []item{{}}
	for _, token := range tokens().FindAllString(strings.Join(h.Values(name), ","), -1) {
		switch token {
		case ",":
			all = append(all, item{})
		case ";":
		default:
			key, value, named := strings.Cut(strings.TrimSpace(token), "=")
			if !named || strings.HasPrefix(key, `"`) {
				key, value = "", token
			}
			all[len(all)-1][strings.ToLower(key)] = strings.TrimSpace(value)
		}
	}
	return all
}

// number returns the first of the named values that is a number.
func (i item) number(names ...string) (float64, bool) {
	for _, name := range names {
		if n, err := strconv.ParseFloat(i[name], 64); err == nil && math.Abs(n) < 1<<53 {
			return n, true
		}
	}
	return 0, false
}

// learned returns the rate to judge: of those with a window the shortest, then the lowest.
func (c *claims) learned() (claimedRate, bool) {
	var best claimedRate
	for _, r := range c.rates {
		if r.Per > 0 && (best.Per == 0 || r.Per < best.Per || r.Per == best.Per && r.Limit < best.Limit) {
			best = r
		}
	}
	return best, best.Per > 0
}

// distinct returns all rates that answers claimed, in the order of their first answers. It
// leaves out a limit without a window if another header names it with one.
func distinct(answers []answer) (all []claimedRate) {
	for i := range answers {
		for _, r := range answers[i].rates {
			named := func(other claimedRate) bool { return r.Per == 0 && other.Per > 0 && other.Limit == r.Limit }
			if !slices.Contains(all, r) && !slices.ContainsFunc(answers[i].rates, named) {
				all = append(all, r)
			}
		}
	}
	return all
}
