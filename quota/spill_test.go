package quota_test

import (
	"testing"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// Usage says where calls go of a pool that has few units left, if calls that charge it may go there.
func TestUsageSaysWhereCallsSpill(t *testing.T) {
	const other = "pools: {calls: {quota: 16, windows: [{per: 1h}]}, bytes: {quota: 100, windows: [{per: 1h}]}, own: {quota: 2, windows: [{per: 1h}]}},\n" +
		"methods: {ask: {route: POST /ask, charge: {calls: 1, bytes: {estimate: {bytes: body}}}}, dear: {route: POST /dear, pool: calls, cost: 8}, own: {route: GET /own, pool: own, cost: 1}}}"
	b, err := book.Parse("costs.yaml", []byte("revision: 1\nupstreams: {west: {hosts: [west.test], spill: [east], spill_methods: [ask, dear], "+other+", east: {hosts: [east.test], "+other+"}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := quota.New(b, memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		take quota.Units
		want string
	}{
		{nil, ""},
		{quota.Units{"calls": 14, "bytes": 80, "own": 2}, ""}, // as many are left as a call may need, or an eighth; the calls of own do not spill
		{quota.Units{"calls": 1}, "calls"},                    // 1 left, and the dearest call takes 8, but an eighth is 2
		{quota.Units{"bytes": 15}, "bytes calls"},
	} {
		if step.take != nil {
			if _, err := l.Reserve(t.Context(), quota.Call{Upstream: "west", Charges: step.take}); err != nil {
				t.Fatal(err)
			}
		}
		all, err := l.View().Usage(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, u := range all {
			switch u.SpillsTo {
			case "":
			case "east (ask and dear alone)":
				got += " " + u.Pool.Name
			default:
				t.Errorf("%s spills to %q", u.Pool, u.SpillsTo)
			}
		}
		if got != "" && got[1:] != step.want || got == "" && step.want != "" {
			t.Errorf("after %v calls spill of%s, want %s", step.take, got, step.want)
		}
	}
}
