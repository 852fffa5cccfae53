package book_test

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
)

// A ring of a leased pool counts units for the life of a block longer, whatever its quota
// is for an account or a key.
func TestLease(t *testing.T) {
	b, err := book.Parse("costs.yaml", []byte(`
revision: 1
upstreams:
  api:
    hosts: [a.example.com]
    accounts: {big: {pools: {units: {quota: 9000}}}}
    pools:
      units: {quota: 1000, windows: [{per: 10s}, {per: 10m, late: 500ms}, {per: day}], lease: {}}
      keyed:
        {quota: 1000, windows: [{per: 10s}], by: {body: model, default: other}, keys: {large: 9, own: {windows: [{per: 1m, quota: 5}]}},
         lease: {life: 300ms, most: 30}}
      plain: {quota: 1000, windows: [{per: 10s}]}
    methods: {a.get: {route: GET /a, charge: {units: 1, keyed: 1, plain: 1}}}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	pools := b.Upstreams["api"].Pools
	units, keyed, plain := pools["units"], pools["keyed"], pools["plain"]
	if units.Lease != (book.Lease{Life: 2 * time.Second, MostPercent: 5}) || keyed.Lease != (book.Lease{Life: 300 * time.Millisecond, Most: 30}) {
		t.Errorf("leases are %+v and %+v", units.Lease, keyed.Lease)
	}
	if plain.Lease != (book.Lease{}) {
		t.Errorf("a pool without a lease has %+v", plain.Lease)
	}
	for name, row := range map[string]struct {
		got, want int64
	}{
		"10s":              {units.Windows[0].Buckets(), 10 + 2},
		"10m":              {units.Windows[1].Buckets(), 600 + 3},
		"10s of big":       {units.Accounts["big"][0].Buckets(), 10 + 2},
		"10s of a key":     {keyed.Windows[0].Buckets(), 10 + 1},
		"10s of large":     {keyed.Keys["large"][0].Buckets(), 10 + 1},
		"1m of its own":    {keyed.Keys["own"][0].Buckets(), 60 + 1},
		"10s without":      {plain.Windows[0].Buckets(), 10},
		"most of 999":      {units.Lease.Units(999), 49},
		"most of much":     {units.Lease.Units(1<<53 - 1), (1<<53-1)/100*5 + (1<<53-1)%100*5/100},
		"most is 30":       {keyed.Lease.Units(1000), 30},
		"most of a little": {keyed.Lease.Units(9), 9},
	} {
		if row.got != row.want {
			t.Errorf("%s: %d, want %d", name, row.got, row.want)
		}
	}
}
