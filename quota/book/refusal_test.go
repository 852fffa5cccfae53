package book_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/quota/book"
)

func TestBookRefusals(t *testing.T) {
	u := parse(t, `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    api_key: {header: X-Api-Key, query: key}
    resumable: upload_id
    refusals:
      - {status: 401, credential: true}
      - {status: [403, 429], header: {x-ratelimit-remaining: 0}, until: x-ratelimit-reset}
      - {status: [403, 429], header: retry-after, for: 1m}
      - {status: 403, reason: [quotaExceeded, "true"], body: "\"1/d", until: reset}
    pools: {units: {quota: 100, windows: [{per: 24h}]}}
`)
	api := u.Upstreams["api"]
	if want := (book.APIKey{Header: "X-Api-Key", Query: "key"}); api.Key != want || api.Resumable != "upload_id" {
		t.Errorf("key %+v, resumable %q", api.Key, api.Resumable)
	}
	want := []book.Refusal{
		{Condition: book.Condition{Status: []int{401}}, Credential: true},
		{Condition: book.Condition{Status: []int{403, 429}, Header: "x-ratelimit-remaining", Value: "0"}, Until: "x-ratelimit-reset"},
		{Condition: book.Condition{Status: []int{403, 429}, Header: "retry-after"}, For: time.Minute},
		{Condition: book.Condition{Status: []int{403}}, Reason: []string{"quotaExceeded", "true"}, Body: []string{`"1/d`}, Until: book.UntilReset},
	}
	if diff := cmp.Diff(want, api.Refusals); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
	const format = `    api_key: {header: X-Api-Key, query: key}
    resumable: upload_id
    refusals:
      - {status: 401, credential: true}
      - {status: [403, 429], header: {x-ratelimit-remaining: "0"}, until: x-ratelimit-reset}
      - {status: [403, 429], header: retry-after, for: 1m}
      - {status: 403, reason: [quotaExceeded, "true"], body: "\"1/d", until: reset}
`
	if got := string(u.Format()); !strings.Contains(got, format) {
		t.Errorf("format lacks\n%s\nis\n%s", format, got)
	}
	roundTrip(t, u)
}

// A header alone has a dash, so that no other word is taken for one.
func TestUntilTakesHeadersWithADash(t *testing.T) {
	with := func(until string) error {
		_, err := book.Parse("costs.yaml", []byte("{revision: 1, upstreams: {api: {pools: {p: {quota: 1, windows: [{per: 1h}]}}, refusals: [{status: 429, until: "+until+"}]}}}"), nil)
		return err
	}
	for _, until := range []string{"reset", "Retry-After", "retry-after", "X-RateLimit-Reset", "RateLimit-Reset", "x-anything", "{header: Expires, as: http_date}"} {
		if err := with(until); err != nil {
			t.Error(err)
		}
	}
	for _, until := range []string{"backoff", "for", "retry", "never", "window", "day", "x_reset"} {
		if with(until) == nil {
			t.Errorf("until: %s is taken for a header", until)
		}
	}
}
