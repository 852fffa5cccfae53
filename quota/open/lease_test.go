package open_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/open"
	"github.com/headroom-quota/headroom/quota/storekit"
)

// A pool with a lease is spent in blocks by everybody who opens the ledger. Whatever is
// left goes back at the end, and the spend tells every call.
func TestLeasedPool(t *testing.T) {
	zone := "UTC"
	if hour := time.Now().UTC().Hour(); hour == 23 || hour == 0 { // at the end of a day, blocks are small
		zone = "Asia/Tokyo"
	}
	b, err := book.Parse("costs.yaml", fmt.Appendf(nil, `
revision: 1
upstreams:
  api:
    hosts: [a.example.com]
    pools: {units: {quota: 1000000, windows: [{per: 24h}, {per: day, zone: %s}], lease: {life: 2s, most: 5%%}}}
    methods: {a.get: {route: GET /a, pool: units, cost: 2}}
`, zone), nil)
	if err != nil {
		t.Fatal(err)
	}
	o := options(t, t.TempDir())
	o.Book = b
	address := "sqlite:" + filepath.Join(t.TempDir(), "ledger.db")
	const calls = 300
	tokens := make(chan quota.Token, 2*calls)
	var all sync.WaitGroup
	for range 2 { // programs
		all.Go(func() {
			opened, err := open.Open(t.Context(), address, o)
			if err != nil {
				t.Error(err)
				return
			}
			for range calls {
				r, err := opened.Ledger.Reserve(t.Context(), quota.Call{Method: "a.get", Job: "daily"})
				if err != nil {
					t.Error(err)
					break
				}
				tokens <- r.Token()
			}
			if err := opened.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	with(t, address, o, func(opened *open.Opened) {
		usage, err := opened.Ledger.View().Usage(t.Context(), "api", "")
		if err != nil || len(usage) != 1 || usage[0].Windows[0].Used != 2*2*calls {
			t.Errorf("usage is %+v (%v), want %d units", usage, err, 2*2*calls)
		}
		shared := 0
		blocks := map[string]bool{}
		for range 2 * calls {
			token := <-tokens
			if part, ok := partOf(token); ok {
				shared++
				blocks[part] = true
			}
		}
		if shared < calls || len(blocks) > calls/4 {
			t.Errorf("%d calls came from %d blocks, of %d in all", shared, len(blocks), 2*calls)
		}
		spent, err := opened.Ledger.View().Spend(t.Context(), quota.SpendQuery{}, quota.ByJob)
		if err != nil || len(spent) != 1 || spent[0].Units != 2*2*calls || spent[0].Calls != 2*calls || spent[0].Labels.Job != "daily" {
			t.Errorf("spend is %+v (%v), want %d units of %d calls", spent, err, 2*2*calls, 2*calls)
		}
	})
}

// Two programs serve a hot key from blocks. Both obey a limit that is set meanwhile, also while they have blocks, and
// what is left goes back at the end.
func TestLeasedFamily(t *testing.T) {
	b, err := book.Parse("costs.yaml", []byte(`
revision: 1
families: {client: {quota: 1000000, windows: [{per: 1h}, {per: 1m, algorithm: counter}], lease: {}}}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	o := options(t, t.TempDir())
	o.Book = b
	address := "sqlite:" + filepath.Join(t.TempDir(), "ledger.db")
	acme := quota.Call{Family: "client", Key: "acme"}
	const calls = 300
	with(t, address, o, func(one *open.Opened) {
		with(t, address, o, func(two *open.Opened) {
			both := []*quota.Ledger{one.Ledger, two.Ledger}
			granted := int64(0)
			take := func(n int) {
				t.Helper()
				for range n {
					for _, l := range both {
						if _, err := l.Reserve(t.Context(), acme); err != nil {
							t.Fatal(err)
						}
						granted++
					}
				}
			}
			set := func(n int64) {
				t.Helper()
				if _, err := one.Ledger.Admin().SetLimit(t.Context(), quota.KeyLimit{Family: "client", Key: "acme", Quota: n, By: "test"}); err != nil {
					t.Fatal(err)
				}
			}
			take(calls)
			set(granted)
			for i, l := range both { // the one that has set it at once
				for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
					_, err := l.Reserve(t.Context(), acme)
					if errors.Is(err, quota.ErrRefused) {
						break
					}
					if granted++; err != nil || i == 0 || time.Now().After(deadline) {
						t.Fatalf("program %d: %v, want a refusal by the lower limit", i, err)
					}
				}
			}
			set(1_000_000)
			for _, l := range both { // refusals are believed for a while, and changes are read beside calls
				for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
					if _, err = l.Reserve(t.Context(), acme); err == nil {
						granted++
						break
					} else if time.Now().After(deadline) {
						t.Fatal(err)
					}
				}
			}
			take(calls)
			if err := errors.Join(one.Close(), two.Close()); err != nil {
				t.Error(err)
			}
			with(t, address, o, func(last *open.Opened) {
				r, err := last.Ledger.Reserve(t.Context(), acme)
				if err != nil || r.Used != granted+1 {
					t.Errorf("%+v %v, want %d units to be used", r, err, granted+1)
				}
			})
		})
	})
}

// partOf returns the block that the token of a call names.
func partOf(t quota.Token) (string, bool) {
	p, ok := storekit.ReadPart(t.ID)
	return p.Of, ok
}
