package pgstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
	"github.com/headroom-quota/headroom/quota/window"
)

// A page that is damaged fails those who ask for it, and nobody else in the transaction.
func TestADamagedPageFailsItsOwnCallersOnly(t *testing.T) {
	url := pgtest.Shared(t)
	s := openAt(t, url, nil)
	spec, err := window.Spec{Algorithm: window.InFlight, Per: time.Minute}.Normal()
	if err != nil {
		t.Fatal(err)
	}
	var tokens []quota.Token
	var whole quota.Charge
	for _, name := range []string{"damaged", "whole"} {
		whole = quota.Charge{
			Pool:  quota.Pool{Upstream: "api", Account: "a", Name: name},
			Units: 1, Windows: []window.Limit{window.NewLimit(spec, 10)}, Revision: 1,
		}
		v, err := s.Reserve(t.Context(), quota.Request{ID: name, Charges: []quota.Charge{whole}})
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, v.Token())
	}
	other := session(t, url)
	if _, err := other.Exec(t.Context(), `UPDATE headroom_ledger.pools SET page = 'xx' WHERE pool = 'damaged'`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Slots(t.Context(), tokens, true); err == nil || !strings.Contains(err.Error(), "api@a/damaged") || strings.Contains(err.Error(), "a/whole") {
		t.Errorf("the slots are given back: %v; want what is wrong with api@a/damaged only", err)
	}
	pages, err := s.Look(t.Context(), []quota.Charge{whole})
	if err != nil || pages[0].Windows[0].Used != 0 {
		t.Errorf("of the other pool %+v is used, %v; want its slot back", pages, err)
	}
}
