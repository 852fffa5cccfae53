package book_test

import "testing"

// A tail keeps the escapes of its slashes when a call goes to another upstream, whose route has another form.
func TestPathAtKeepsEscapes(t *testing.T) {
	b := parse(t, `
revision: 1
upstreams:
  west:
    hosts: [west.test]
    spill: [east]
    pools: {calls: {quota: 1, windows: [{per: 1m}]}}
    methods: {get: {route: "GET /v1/files/{rest...}", cost: 1}, one: {route: "GET /v1/one/{id}", cost: 1}}
  east:
    hosts: [east.test]
    pools: {calls: {quota: 1, windows: [{per: 1m}]}}
    methods: {get: {route: "GET /v2/all/{rest...}", cost: 1}, one: {route: "GET /v2/one/{id}/whole", cost: 1}}
`)
	for path, want := range map[string]string{
		"/v1/files/a%2Fb/c%20d": "/v2/all/a%2Fb/c%20d",
		"/v1/files/a/b":         "/v2/all/a/b",
		"/v1/one/a%20b+c":       "/v2/one/a%20b+c/whole",
	} {
		m := b.Match("GET", "west.test", path)
		if got := m.PathAt(b.Upstreams["east"]); got != want {
			t.Errorf("%s is %q at the other upstream, want %q", path, got, want)
		}
	}
}
