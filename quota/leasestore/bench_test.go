package leasestore_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/leasestore"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/window"
)

// BenchmarkReserve is a call that is served from a block.
func BenchmarkReserve(b *testing.B) {
	s := leasestore.New(memstore.New(nil), nil)
	spec, err := window.Spec{Per: 24 * time.Hour, Late: 2 * time.Second}.Normal()
	if err != nil {
		b.Fatal(err)
	}
	if spec, err = spec.For(1 << 50); err != nil {
		b.Fatal(err)
	}
	r := quota.Request{Fresh: true, Labels: quota.Labels{Method: "videos.list", Job: "trending"}, Charges: []quota.Charge{{
		Pool:  quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: "units"},
		Units: 1, Revision: 1, Windows: []window.Limit{window.NewLimit(spec, 1<<50)},
		Lease: quota.Lease{Life: 2 * time.Second, Most: 1 << 45},
	}}}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		r.ID = "call" + strconv.Itoa(n)
		if v, err := s.Reserve(b.Context(), r); err != nil || !v.Allowed {
			b.Fatalf("%+v %v", v, err)
		}
	}
}
