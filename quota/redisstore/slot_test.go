package redisstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
)

// A slot moves to a master that has never seen the scripts, as after a failover: its
// clients follow, and nothing is forgotten or counted twice. While it is half-way, a
// call is granted within the limit or is an outage.
func TestASlotMoves(t *testing.T) {
	p := prefix()
	s := open(t, dialCluster(t, redis.ClusterOptions{}), p)
	reserve := func(id string) (quota.Verdict, error) {
		return s.Reserve(bg, quota.Request{ID: id, Charges: []quota.Charge{units(3, 12)}})
	}
	if v, err := reserve("first"); err != nil || !v.Allowed {
		t.Fatal(v, err)
	}

	key := p + "{api/default}:page:units"
	slot := run(t, startedCluster(t).Masters[0], "cluster", "keyslot", key)
	var from, to *redistest.Server
	for _, m := range startedCluster(t).Masters {
		if n, _ := run(t, m, "cluster", "countkeysinslot", slot).(int64); n > 0 {
			from = m
		} else {
			to = m
		}
	}
	run(t, to, "script", "flush")
	run(t, to, "cluster", "setslot", slot, "importing", run(t, from, "cluster", "myid"))
	run(t, from, "cluster", "setslot", slot, "migrating", run(t, to, "cluster", "myid"))

	host, port, _ := strings.Cut(to.Addr, ":")
	run(t, from, "migrate", host, port, key, 0, 5000)
	used := int64(3)
	if v, err := reserve("half-way"); err == nil {
		used = 6
		if v.Used != used {
			t.Errorf("half-way: %+v, want %d used", v, used)
		}
	} else {
		t.Log("half-way:", err)
	}
	rest, _ := run(t, from, "cluster", "getkeysinslot", slot, 1000).([]any)
	for _, key := range rest {
		run(t, from, "migrate", host, port, key, 0, 5000)
	}
	for _, m := range []*redistest.Server{to, from} {
		run(t, m, "cluster", "setslot", slot, "node", run(t, to, "cluster", "myid"))
	}

	if v, err := reserve("first"); err != nil || !v.Repeat {
		t.Errorf("the receipt: %+v, %v", v, err)
	}
	for i := 0; used < 12; i++ {
		used += 3
		if v, err := reserve(fmt.Sprint(i)); err != nil || !v.Allowed || v.Used != used {
			t.Fatalf("%+v, %v; want %d used", v, err, used)
		}
	}
	if v, err := reserve("one more"); err != nil || v.Allowed {
		t.Errorf("past the limit: %+v, %v", v, err)
	}
}
