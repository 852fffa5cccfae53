package book_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/quota/book"
)

func TestFollows(t *testing.T) {
	const before = `
revision: 5
upstreams: {maps: {pools: {units: {quota: 100, windows: [{per: 24h}]}}, methods: {route: 1}}}
families: {client: {windows: [{per: 1m, quota: 60}], keys: {friend: {windows: [{per: 1m, quota: 600}]}}}}
`
	for _, tt := range []struct {
		name, from, to, want string
	}{
		{"the same", "", "", ""},
		{"another quota", "quota: 100,", "quota: 50,", ""},
		{"another price", "route: 1", "route: 2", ""},
		{"a higher revision may change all", "revision: 5\nupstreams: {maps: {pools: {units: {quota: 100, windows: [{per: 24h}]", "revision: 6\nupstreams: {maps: {pools: {units: {quota: 100, windows: [{per: 1h}]", ""},
		{"one more pool", "pools: {", "pools: {more: {quota: 1, windows: [{per: 1h}]}, ", "charge"},
		{"a lower revision", "revision: 5", "revision: 4", "the price book has revision 4, and 5 is in use: raise its revision"},
		{"another window of a pool", "per: 24h", "per: 12h", "maps/units has other windows under the same revision 5"},
		{"one more window of a pool", "{per: 24h}", "{per: 24h}, {per: 1h}", "maps/units has other windows"},
		{"another window of a family", "client: {windows: [{per: 1m", "client: {windows: [{per: 2m", "family client has other windows"},
		{"another window of a key", "friend: {windows: [{per: 1m", "friend: {windows: [{per: 2m", "family client, key friend has other windows"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(before, tt.from, tt.to, 1)
			if tt.want == "charge" { // of several pools a method names the one it charges
				text, tt.want = strings.Replace(text, "route: 1", "route: {pool: units, cost: 1}", 1), ""
			}
			err := parse(t, text).Follows(parse(t, before))
			if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, book.ErrBadInput) || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestFollowsNamesTheAccount(t *testing.T) {
	const before = `
revision: 5
upstreams: {maps: {accounts: {a: {}, b: {}}, pools: {units: {quota: 100, windows: [{per: 24h}]}}, methods: {route: 1}}}
`
	err := parse(t, strings.Replace(before, "24h", "12h", 1)).Follows(parse(t, before))
	if want := "maps@a/units has other windows"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
