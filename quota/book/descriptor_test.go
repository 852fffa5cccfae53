package book_test

import (
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/quota/book"
)

const described = `
revision: 1
upstreams:
  shop: {pools: {units: {quota: 10, windows: [{per: 1m}]}}}
families:
  client: {quota: 60, windows: [{per: 1m}]}
descriptors:
  - {domain: envoy, entries: [authenticated=false, path=/foo/bar], pool: shop/units}
  - {domain: envoy, entries: [authenticated=false, remote_address], family: client}
  - {domain: envoy, entries: [authenticated=false, path, remote_address], family: client}
  - {domain: envoy, entries: client_id, pool: shop@staging/units}
`

func TestDescribes(t *testing.T) {
	b, err := book.Parse("costs.yaml", []byte(described), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ domain, entries, want string }{
		{"envoy", "authenticated=false path=/foo/bar", "shop default units , key "},
		{"envoy", "authenticated=false remote_address=10.0.0.1", " client, key 10.0.0.1"},
		{"envoy", "authenticated=false remote_address=a,b", " client, key a,b"},
		{"envoy", "authenticated=false path=/a,b remote_address=::1", ` client, key /a\,b,::1`},
		{"envoy", "authenticated=false remote_address=", " client, key (empty)"},
		{"envoy", "authenticated=false path= remote_address=", " client, key ,"},
		{"envoy", "client_id=foo=bar", "shop staging units , key foo=bar"},
		{"envoy", "authenticated=false path=/foo", "none"},
		{"envoy", "authenticated=true remote_address=10.0.0.1", "none"},
		{"envoy", "remote_address=10.0.0.1 authenticated=false", "none"},
		{"edge", "client_id=foo", "none"},
	} {
		var entries []book.Entry
		for e := range strings.FieldsSeq(c.entries) {
			key, value, _ := strings.Cut(e, "=")
			entries = append(entries, book.Entry{Key: key, Value: value})
		}
		got := "none"
		if d, key := b.Describes(c.domain, entries); d != nil {
			got = strings.TrimSpace(strings.Join([]string{d.Upstream, d.Account, d.Pool}, " ")+" "+d.Family) + ", key " + key
			if d.Family == "" {
				got = d.Upstream + " " + d.Account + " " + d.Pool + " , key " + key
			}
		}
		if strings.TrimSpace(got) != strings.TrimSpace(c.want) {
			t.Errorf("%s %s: %s, want %s", c.domain, c.entries, got, c.want)
		}
	}
	again, err := book.Parse("again", b.Format(), nil)
	if err != nil || len(again.Descriptors) != 4 {
		t.Errorf("printed and read again: %v\n%s", err, b.Format())
	}
}

func TestBrokenDescriptors(t *testing.T) {
	for line, why := range map[string]string{
		`{domain: envoy, entries: [a], family: clint}`:                    `7:43: family "clint" does not exist; did you mean "client"?`,
		`{domain: envoy, entries: [a=1], family: client}`:                 `7:30: a family needs a key`,
		`{domain: envoy, entries: [a], pool: units}`:                      `7:41: pool "units" has no upstream; write it as youtube/units`,
		`{domain: envoy, entries: [a], pool: shop/orders}`:                `7:41: pool "shop/orders": upstream "shop" has no pool "orders"`,
		`{domain: envoy, entries: [a], pool: shop/units, family: client}`: `has family and pool`,
		`{domain: envoy, entries: [=a], pool: shop/units}`:                `entry "=a" has no key`,
		`{entries: [a], pool: shop/units}`:                                `has no domain`,
		"{domain: e, entries: [a], family: client}\n  - {domain: e, entries: [a=1, b], family: client}\n  - {domain: e, entries: [a=1], pool: shop/units}": `9:5: this descriptor is never reached: the one at costs.yaml:7:5`,
	} {
		head, _, _ := strings.Cut(strings.TrimPrefix(described, "\n"), "  - ")
		_, err := book.Parse("costs.yaml", []byte(head+"  - "+line+"\n"), nil)
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %s", line, err, why)
		}
	}
}
