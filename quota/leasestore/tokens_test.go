package leasestore_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/headroom-quota/headroom/quota"
)

// A token settles its call through any process, once.
func TestTokens(t *testing.T) {
	r := newRig(t)
	r.charge.Units = 5
	var tokens []quota.Token
	r.grant(r.one)
	for range 4 {
		v := r.grant(r.one)
		tokens = append(tokens, v.Token())
	}
	if r.ledger.asked.Load() != 2 {
		t.Fatalf("5 calls asked the ledger %d times, want 2", r.ledger.asked.Load())
	}
	settle := func(s quota.Store, n int, units quota.Units, want string) {
		t.Helper()
		done, err := s.Settle(t.Context(), tokens[n], units)
		if got := fmt.Sprintf("back %d charged %d repeat %t", done.Back, done.Charged, done.Repeat); err != nil || got != want {
			t.Errorf("call %d: %s %v, want %s", n, got, err, want)
		}
	}
	settle(r.one, 0, quota.Units{"units": 2}, "back 3 charged 0 repeat false")
	settle(r.two, 0, quota.Units{"units": 0}, "back 3 charged 0 repeat true")
	settle(r.two, 1, nil, "back 5 charged 0 repeat false")
	settle(r.one, 1, nil, "back 5 charged 0 repeat true")
	if err := r.one.Close(); err != nil {
		t.Fatal(err)
	}
	settle(r.two, 2, quota.Units{"units": 9}, "back 0 charged 4 repeat false") // its process has ended
	settle(r.ledger, 3, quota.Units{"units": 1}, "back 4 charged 0 repeat false")
	if used := r.used(); used != 5+2+0+9+1 {
		t.Errorf("%d units count, want 17", used)
	}
	other := tokens[0]
	other.Nonce = tokens[1].Nonce
	if _, err := r.two.Settle(t.Context(), other, nil); !errors.Is(err, quota.ErrNoReceipt) {
		t.Errorf("a token with another nonce: %v", err)
	}
	spent, err := r.two.Spend(t.Context(), quota.SpendQuery{Upstream: "api", Account: quota.DefaultAccount})
	if err != nil || len(spent) != 1 || spent[0].Units != 17 || spent[0].Calls != 4 || spent[0].Labels.Method != "list" {
		t.Errorf("spend is %+v (%v), want 17 units of 4 calls", spent, err)
	}
}
