package pagestore

import (
	"context"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// births compares pages with what was seen of them before: the data may be new, or an
// older copy. Nil trusts what it finds.
type births struct{ seen *storekit.Births }

// expect returns what was seen of a pool's page. A look must ask before it begins: what
// is written while it looks, it does not see.
func (b births) expect(p quota.Pool, now time.Time) (storekit.Birth, error) {
	if b.seen == nil || p.Name == "" {
		return storekit.Birth{}, nil
	}
	return b.seen.Expect(context.Background(), p, now) // in memory, and seldom a short read
}

// check says whether a page was lost. To restore takes up a page that was set back,
// past all that was seen of it.
func (b births) check(e *Entry, expected storekit.Birth, now time.Time, restore bool) (err error) {
	if b.seen == nil || e.Pool.Name == "" {
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

// remember remembers pages as they are in the store.
func (b births) remember(ctx context.Context, entries []*Entry) error {
	if b.seen == nil {
		return nil
	}
	for _, e := range entries {
		if e.Page == nil || e.Pool.Name == "" {
			continue
		}
		if err := b.seen.Remember(ctx, e.Pool, birthOf(e.Page)); err != nil {
			return err
		}
	}
	return nil
}

// birthOf is what there is to remember of a page.
func birthOf(p *window.Page) storekit.Birth {
	if p == nil {
		return storekit.Birth{}
	}
	return storekit.Birth{
		Born: p.Born.Time(), Until: p.Expires(p.Latest).Time(), Generation: p.Generation, Latest: p.Latest.Time(),
	}
}
