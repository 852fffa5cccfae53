package redisstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/quota"
)

// A replica is no ledger: what is asked of it is an outage. Promoted, it has what it
// had heard of: these grants stand, and are told again to who asks again.
func TestReplicaPromoted(t *testing.T) {
	master, replica := start(t), start(t)
	l := lineTo(master)
	s := open(t, l.client(t), prefix())
	mustReserve(t, s, "id-1", 3)
	follow(t, replica, master)
	mustReserve(t, s, "id-2", 4)
	if err := replica.CatchUp(patient(t), master); err != nil {
		t.Fatal(err)
	}

	master.Kill()
	l.to(replica)
	mustStayAway := func(who string, err error) {
		t.Helper()
		if err == nil || errors.Is(err, quota.ErrBadInput) || errors.Is(err, quota.ErrRefused) {
			t.Errorf("%s: got %v, want that the replica takes nothing", who, err)
		}
	}
	for range 3 {
		_, err := reserve(s, "id-3", 5)
		mustStayAway("a call", err)
	}
	_, err := ledger(t, s, 100).Reserve(bg, quota.Call{Method: "get"})
	if mustStayAway("a call of a ledger", err); !errors.Is(err, quota.ErrOutage) {
		t.Errorf("got %v, want an outage", err)
	}

	lead(t, replica)
	v := until(t, func() (quota.Verdict, error) { return reserve(s, "id-2", 4) })
	if !v.Repeat {
		t.Errorf("id-2 again: %+v; it was granted before", v)
	}
	if n := mustReserve(t, s, "id-3", 5); n != 12 {
		t.Errorf("%d used, want 12", n)
	}
}

// A master that is told to (min-replicas-to-write) takes nothing while no replica
// hears it: that is an outage which costs nothing, and no grant is lost when the
// replica is promoted.
func TestMasterWithoutReplicas(t *testing.T) {
	master, replica := start(t, "--save", "", "--appendonly", "no", "--min-replicas-to-write", "1"), start(t)
	follow(t, replica, master)
	l := lineTo(master)
	s := open(t, l.client(t), prefix())
	until(t, func() (quota.Verdict, error) { return reserve(s, "id-1", 3) }) // it notices its replica in a second
	if err := replica.CatchUp(patient(t), master); err != nil {
		t.Fatal(err)
	}
	deafen(t, master)
	for range 3 {
		_, err := ledger(t, s, 100).Reserve(bg, quota.Call{Method: "get", ID: "id-2"})
		if !errors.Is(err, quota.ErrOutage) || errors.Is(err, quota.ErrRefused) || !strings.Contains(err.Error(), "NOREPLICAS") {
			t.Fatalf("nobody hears the master: got %v, want an outage that says so", err)
		}
	}
	if err := ledger(t, s, 100).Ready(bg); !errors.Is(err, quota.ErrOutage) || !strings.Contains(err.Error(), "NOREPLICAS") {
		t.Errorf("nobody hears the master, and the ledger says that it takes writes: %v", err)
	}
	if n := used(t, s); n != 3 {
		t.Errorf("%d used, want 3", n)
	}
	master.Kill()
	lead(t, replica)
	l.to(replica)
	if v := until(t, func() (quota.Verdict, error) { return reserve(s, "id-1", 3) }); !v.Repeat || v.Used != 3 {
		t.Errorf("id-1 again: %+v; it was granted before, and is all that was", v)
	}
}
