package pagestore_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pagestore"
)

// scopes is a backend that only notes what it is asked to load.
type scopes struct {
	pagestore.Backend
	pagestore.Tx
	last *pagestore.Scope
}

var errLoad = errors.New("it cannot be loaded")

func (s *scopes) Begin(context.Context, time.Duration) (pagestore.Tx, error) { return s, nil }
func (s *scopes) View(context.Context) (pagestore.Tx, error)                 { return s, nil }
func (s *scopes) End(err error) error                                        { return err }

func (s *scopes) Load(scope *pagestore.Scope) error {
	copied := &pagestore.Scope{ // it is used again
		Charges: append([]quota.Charge(nil), scope.Charges...), Receipts: append([]pagestore.ReceiptID(nil), scope.Receipts...),
	}
	s.last = copied
	return errLoad
}

// A backend over a network locks accounts before it reads. Each call tells it which,
// also a settlement, which names no pool.
func TestScopeNamesAllThatIsAskedFor(t *testing.T) {
	b := &scopes{}
	s := pagestore.New(b, &pagestore.Options{Combine: time.Second})
	r := request("a", 3)
	id := pagestore.ReceiptID{Upstream: "api", Account: quota.DefaultAccount, ID: "a"}
	for name, row := range map[string]struct {
		call func() error
		want pagestore.Scope
	}{
		"reserve": {func() error { _, err := s.Reserve(t.Context(), r); return err }, pagestore.Scope{Charges: r.Charges, Receipts: []pagestore.ReceiptID{id}}},
		"record":  {func() error { _, err := s.Record(t.Context(), r); return err }, pagestore.Scope{Charges: r.Charges, Receipts: []pagestore.ReceiptID{id}}},
		"settle": {func() error {
			_, err := s.Settle(t.Context(), quota.Token{Upstream: "api", Account: quota.DefaultAccount, ID: "a"}, nil)
			return err
		}, pagestore.Scope{Receipts: []pagestore.ReceiptID{id}}},
		"block": {func() error {
			return s.Block(t.Context(), quota.BlockRequest{Charges: r.Charges, For: time.Hour, Reason: "because"})
		}, pagestore.Scope{Charges: r.Charges}},
		"look": {func() error { _, err := s.Look(t.Context(), r.Charges); return err }, pagestore.Scope{Charges: r.Charges}},
	} {
		b.last = nil
		if err := row.call(); !errors.Is(err, errLoad) {
			t.Errorf("%s: %v, want the error of Load", name, err)
		}
		if b.last == nil || !reflect.DeepEqual(*b.last, row.want) {
			t.Errorf("%s: asks for %+v, want %+v", name, b.last, row.want)
		}
	}
}
