package quota_test

import (
	"errors"
	"testing"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
)

func TestBrokenBookIsBadInput(t *testing.T) {
	_, err := book.Parse("costs.yaml", []byte("revision: none"), nil)
	if !errors.Is(err, quota.ErrBadInput) {
		t.Errorf("%v does not match quota.ErrBadInput", err)
	}
}

// The fields of a book are exported. One that was changed in Go may name a pool that it lacks: its calls are refused, and
// the others go on.
func TestABookMadeInGoMayNameAPoolThatItLacks(t *testing.T) {
	const text = "revision: 1\nupstreams: {api: {pools: {units: {quota: 10, windows: [{per: 1h}]}}, methods: {get: {pool: units, cost: 1}, list: {pool: units, cost: 1}}}}\n"
	b := mustParse(t, text)
	u := b.Upstreams["api"]
	u.Feedback = append(u.Feedback, book.Feedback{Pool: book.PoolName{Name: "gone"}})
	u.Methods["list"].Charges = map[string]int64{"gone": 1}
	l, err := quota.New(b, memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Reserve(t.Context(), quota.Call{Upstream: "api", Method: "list"}); !errors.Is(err, quota.ErrBadInput) {
		t.Errorf("a call of a pool that is not there: %v, want bad input", err)
	}
	if _, err := l.Reserve(t.Context(), quota.Call{Upstream: "api", Method: "get"}); err != nil {
		t.Error(err)
	}
	if err := l.SetBook(b); err != nil {
		t.Error(err)
	}
}
