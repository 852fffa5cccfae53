package boundary

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// Ledger returns our own limiter: a pool with one window, in a store. It makes complete
// reservations, with price, receipt and spend.
func Ledger(store quota.Store, clock quota.Clock, name string, r Rate, by window.Algorithm) (Limiter, error) {
	costs, err := book.Parse(name, fmt.Appendf(nil, `revision: 1
upstreams:
  boundary:
    pools: {%[1]s: {quota: %[2]d, windows: [{per: %[3]s, algorithm: %[4]s}]}}
    methods: {request: 1}
`, name, r.Limit, r.Per, by), nil)
	if err != nil {
		return nil, err
	}
	l, err := quota.New(costs, store, &quota.Options{Clock: clock})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (time.Time, bool, error) {
		granted, err := l.Reserve(ctx, quota.Call{Method: "request"})
		switch {
		case err == nil:
			return granted.At, true, nil
		case errors.Is(err, quota.ErrRefused):
			return time.Time{}, false, nil
		}
		return time.Time{}, false, err
	}, nil
}
