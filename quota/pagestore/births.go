package pagestore

import (
	"context"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// births compares pages with their births seen before, because the data may be new or an
// older copy. With a nil seen, it trusts the data.
type births struct{ seen *storekit.Births }

// expect returns the birth last seen of a pool's page. Look must call it before it reads,
// because it does not see pages written meanwhile.
func (b births) expect(p quota.Pool, now time.Time) (storekit.Birth, error) {
	if b.seen == nil || p.Key != "" {
		return storekit.Birth{}, nil
	}
	return b.seen.Expect(context.Background(), p, now) // in memory, and seldom a short read
}

// check returns a [quota.ForgottenError] if a page was lost or set back. With restore, it
// moves a page that was set back past the state seen before.
func (b births) check(e *Entry, expected storekit.Birth, now time.Time, restore bool) (err error) {
	if b.seen == nil || e.Family != nil {
		return nil
	}
	ctx := context.Background()
	found := birthOf(e.Page)
	lost := storekit.Lost(expected, found, now)
	if lost && !restore {
		if expected, _, err = b.seen.Reconsider(ctx, e.Pool, expected); err != nil {
			return err
		}
		lost = storekit.Lost(expected, found, now)
	}
	set := e.Page != nil && found.Born.Equal(expected.Born)
	switch {
	case !lost:
	case restore && set:
		e.Page.Latest = max(e.Page.Latest, window.At(expected.Latest))
		e.Page.Generation = max(e.Page.Generation, expected.Generation) + 1
	case restore:
	case set:
		return &quota.ForgottenError{Pool: e.Pool, Born: found.Latest}
	default:
		return &quota.ForgottenError{Pool: e.Pool, Born: expected.Born}
	}
	return nil
}

// remember saves the births of pages as they are in the store.
func (b births) remember(ctx context.Context, entries []*Entry) error {
	if b.seen == nil {
		return nil
	}
	for _, e := range entries {
		if e.Page == nil || e.Family != nil {
			continue
		}
		if err := b.seen.Remember(ctx, e.Pool, birthOf(e.Page)); err != nil {
			return err
		}
	}
	return nil
}

func birthOf(p *window.Page) storekit.Birth {
	if p == nil {
		return storekit.Birth{}
	}
	return storekit.Birth{
		Born: p.Born.Time(), Until: p.Expires(p.Latest).Time(), Generation: p.Generation, Latest: p.Latest.Time(),
	}
}
