package book_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

func TestBookFeedback(t *testing.T) {
	b := parse(t, `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    refusals:
      - {status: 403, pool: {header: X-Pool, names: {core: core, code_search: search}}, until: {header: X-Reset, as: unix}}
      - {status: [403, 429], pools: search, until: {body: error.0.at, match: "at=(.*)", as: rfc3339}}
      - {status: 429, pool: core, until: x-reset}
    feedback:
      - pool: {header: X-Pool, names: {core: core, code_search: search}}
        limit: {header: X-Limit}
        remaining: {header: X-Left}
        reset: {header: X-Reset, as: unix}
      - {pool: search, per: day, used: {body: used}, counts: estimate}
      - {pool: search, per: 1m, used_percent: {header: X-Usage, json: calls}, refills: true}
    pools:
      core: {quota: 100, limit: learn, windows: [{per: 1h}]}
      search: {quota: 100, windows: [{per: 1m}, {per: day}]}
`)
	api := b.Upstreams["api"]
	from := func(s book.Source) *book.Source {
		s.Per, s.Times, s.Max = 1, 1, window.MaxUnits
		return &s
	}
	names := map[string]string{"core": "core", "code_search": "search"}
	want := []book.Feedback{
		{
			Pool: book.PoolName{From: from(book.Source{Header: "X-Pool"}), Names: names}, Limit: from(book.Source{Header: "X-Limit"}),
			Remaining: from(book.Source{Header: "X-Left"}), Reset: &book.Time{Source: *from(book.Source{Header: "X-Reset"}), As: book.UnixTime},
		},
		{Pool: book.PoolName{Name: "search"}, Per: 24 * time.Hour, Used: from(book.Source{Body: "used"}), Requested: true},
		{Pool: book.PoolName{Name: "search"}, Per: time.Minute, UsedPercent: from(book.Source{Header: "X-Usage", JSON: "calls"}), Refills: true},
	}
	if diff := cmp.Diff(want, api.Feedback); diff != "" {
		t.Errorf("feedback (-want +got):\n%s", diff)
	}
	asText := cmp.Transformer("text", func(r *regexp.Regexp) string {
		if r == nil {
			return ""
		}
		return r.String()
	})
	rules := []book.Refusal{
		{Condition: book.Condition{Status: []int{403}}, Pool: &book.PoolName{From: from(book.Source{Header: "X-Pool"}), Names: names}, At: &book.Time{Source: *from(book.Source{Header: "X-Reset"}), As: book.UnixTime}},
		{Condition: book.Condition{Status: []int{403, 429}}, Pools: []string{"search"}, At: &book.Time{Source: *from(book.Source{Body: "error.0.at", Match: regexp.MustCompile("at=(.*)")}), As: book.RFC3339Time}},
		{Condition: book.Condition{Status: []int{429}}, Pool: &book.PoolName{Name: "core"}, Until: "x-reset"},
	}
	if diff := cmp.Diff(rules, api.Refusals, asText); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
	if !api.Pools["core"].LearnLimit || api.Pools["search"].LearnLimit {
		t.Error("limit: learn is not that of the pool")
	}
	for named, want := range map[string]string{"core": "core", "code_search": "search", "search": "", "graphql": "", "": ""} {
		if got := api.Feedback[0].Pool.Pool(api, named); got != want {
			t.Errorf("%q is pool %q, want %q", named, got, want)
		}
	}
	if got := (&book.PoolName{From: from(book.Source{Header: "X-Pool"})}).Pool(api, "search"); got != "search" {
		t.Errorf("without names search is %q", got)
	}
	roundTrip(t, b)
}
