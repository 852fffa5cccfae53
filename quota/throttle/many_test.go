package throttle_test

import (
	"encoding/binary"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/throttle"
)

// heap is what is in use after everything else was collected.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools held
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A million distinct clients stay below 300 bytes each, and are forgotten when idle.
func TestManyClients(t *testing.T) {
	clients := 100_000
	if os.Getenv("HEADROOM_SOAK") == "1" {
		clients = 1_000_000
	}
	clock := quota.NewSimClock(start)
	text := "revision: 1\nfamilies: {client: {quota: 60, windows: [{per: 1m, algorithm: counter}], max_keys: 2000000}}"
	ledger, err := quota.New(parse(t, text), memstore.New(&memstore.Options{Clock: clock}), nil)
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := throttle.New(ledger, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := limiter.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r := request("GET /", "")
	ask := func(i int) {
		r.RemoteAddr = netip.AddrPortFrom(clientAddress(i), 4711).String()
		w := unwritten{header: make(http.Header)}
		h.ServeHTTP(&w, r)
		if got := w.header.Get("RateLimit"); got != `"client";r=59;t=120` && got != `"client";r=59;t=119` {
			t.Fatalf("client %d: RateLimit: %s", i, got)
		}
	}
	before := heap()
	for i := range clients {
		ask(i)
	}
	each := (heap() - before) / int64(clients)
	t.Logf("%d clients take %d bytes each", clients, each)
	if each >= 300 || each < 100 {
		t.Errorf("%d clients take %d bytes each, want less than 300", clients, each)
	}
	pass := func() { // not at once: nothing is forgotten after a leap of the clock
		for range 4 {
			clock.Advance(30 * time.Second)
			h.ServeHTTP(&unwritten{header: make(http.Header)}, r)
		}
	}
	pass()                       // when all are idle
	for i := range clients / 2 { // two are forgotten for each that comes
		ask(clients + i)
	}
	others := heap() - before
	t.Logf("%d others, when those are idle, take %d together", clients/2, others)
	if others > each*int64(clients)*2/3 {
		t.Errorf("%d others, when the first %d are idle, take %d bytes, those %d", clients/2, clients, others, each*int64(clients))
	}
	for range clients/256 + 1 { // with few calls as well
		pass()
	}
	left := heap() - before
	t.Logf("one alone, when those are idle, takes %d", left)
	if left > 100_000 {
		t.Errorf("%d bytes are left when all but one are idle", left)
	}
	runtime.KeepAlive(h)
}

// clientAddress is of IPv6 for every other client: their keys are the longest.
func clientAddress(i int) netip.Addr {
	if i%2 == 0 {
		return netip.AddrFrom4([4]byte{198, byte(i >> 17), byte(i >> 9), byte(i >> 1)})
	}
	var network [16]byte
	binary.BigEndian.PutUint64(network[:], 0x20010db8_00000000+uint64(i)*0x1357)
	return netip.AddrFrom16(network)
}
