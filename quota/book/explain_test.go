package book_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/quota/book"
)

func TestPricesInWords(t *testing.T) {
	for text, want := range map[string]string{
		"{estimate: [{bytes: body, per: 4}, {body: max_tokens, default: 4096}], actual: {body: usage.total}, counted: end}": "reserves the bytes of the body / 4 + (max_tokens, or 4096 if it is missing); settles to usage.total, counted when the answer ends",
		"{estimate: {body: max_tokens, learn: p95, first: 2000}, actual: [{body: a}, {header: X-B, json: c.d}]}":            "reserves what 95% of the recent calls stayed within, at most max_tokens, and 2000 at first; settles to a + c.d in header X-B",
		"{estimate: {learn: p50, first: 7}, actual: {header: X-B, match: 'n=(\\d+)', times: 3}}":                            "reserves what 50% of the recent calls stayed within, and 7 at first; settles to what n=(\\d+) finds in header X-B x 3",
		"{estimate: {query: size, per: 50, min: 1, max: 20, default: 1}}":                                                   "reserves parameter size / 50, at least 1, at most 20, or 1 if it is missing",
		"{estimate: {query: part, split: ',', cases: {id: 0, all: 2}, default: 3}}":                                         "reserves for each part of parameter part (all is 2, id is 0), or 3 if it is missing",
		"{estimate: {path: id, cases: {a: 1}, default: 3}, actual: {count: data}}":                                          "reserves by {id} of the path (a is 1), or 3 if it is missing; settles to the length of data",
	} {
		b := parse(t, replaced(priced, text))
		if got := b.Upstreams["llm"].Methods["ask"].Prices["tokens"].String(); got != want {
			t.Errorf("%s\nsays  %s\nwants %s", text, got, want)
		}
	}
}

func TestFeedbackInWords(t *testing.T) {
	left, limit := &book.Source{Header: "X-Left", Per: 1, Times: 1}, &book.Source{Header: "X-Limit", Per: 1, Times: 1}
	name := book.PoolName{From: &book.Source{Header: "X-Resource", Match: regexp.MustCompile("[a-z]+")}, Names: map[string]string{"core": "core", "search": "searches"}}
	for want, f := range map[string]book.Feedback{
		"learns what is left of core from header X-Left, and the limit from header X-Limit, until header X-Reset": {
			Pool: book.PoolName{Name: "core"}, Remaining: left, Limit: limit, Reset: &book.Time{Source: book.Source{Header: "X-Reset"}, As: book.UnixTime},
		},
		"learns what is used of the pool that what [a-z]+ finds in header X-Resource names (core, search is searches) from header X-Left; it refills steadily": {
			Pool: name, Used: left, Refills: true,
		},
		"learns the percentage used of core from header X-Left; the upstream counts what was requested": {
			Pool: book.PoolName{Name: "core"}, UsedPercent: left, Requested: true,
		},
	} {
		if got := f.String(); got != want {
			t.Errorf("says  %s\nwants %s", got, want)
		}
	}
}

// A refusal of which a learned limit is told says so, and what else it blocks.
func TestRefusalsOfLearnedLimitsInWords(t *testing.T) {
	const costs = `
revision: 1
upstreams:
  shop:
    hosts: [shop.example]
    pools:
      calls: {quota: {learn: {from: 5}}}
      day: {quota: 100, windows: [{per: day}]}
      slots: {windows: [{in_flight: 3}]}
    methods: {sell: {charge: {calls: 1, day: 1, slots: 1}}, METHOD}
    refusals: [RULE]
`
	const list = "list: {charge: {day: 1}}"
	for _, c := range []struct{ rule, method, want string }{
		{"{status: 429, for: 30s}", "", "status 429 is told to the learned limit of calls, and asks to wait for 30s, or as Retry-After says"},
		{"{status: 429, until: retry-after}", "", "status 429 is told to the learned limit of calls, and asks to wait until header Retry-After"},
		{"{status: 429, for: 30s}", list, "status 429 is told to the learned limit of calls, or else blocks the pools of the call but its slots, for 30s, or as Retry-After says"},
		{"{status: 429, pools: calls, until: reset}", list, "status 429 is told to the learned limit of calls"},
		{"{status: 429, pools: [calls, day], for: 1m}", "", "status 429 is told to the learned limit of calls, and blocks day, for 1m, or as Retry-After says"},
		{"{status: 429, pools: slots, for: 1m}", "", "status 429 blocks slots for 1m, or as Retry-After says"},
		{"{status: 429, pool: {header: X-Pool}, for: 1m}", "", "status 429 is told to the learned limit of calls, or else blocks the pool that header X-Pool names, for 1m, or as Retry-After says"},
		{"{status: 401, credential: true}", "", "status 401: the API key is not accepted"},
	} {
		u := parse(t, strings.NewReplacer("METHOD", c.method, "RULE", c.rule).Replace(costs)).Upstreams["shop"]
		if got := u.Refusals[0].In(u); got != c.want {
			t.Errorf("%s\nsays  %s\nwants %s", c.rule, got, c.want)
		}
	}
}
