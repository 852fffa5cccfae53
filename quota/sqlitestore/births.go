package sqlitestore

import (
	"context"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// check compares a page, nil if there is none, with what was seen of it outside the
// file: the file may be a new one, or an older copy. To restore takes up a page that
// was set back, past all that was seen of it.
func (s *Store) check(name quota.Pool, page *window.Page, now time.Time, restore bool) error {
	if s.births == nil {
		return nil
	}
	ctx := context.Background() // it is a look at memory, and seldom a short read
	expected, err := s.births.Expect(ctx, name, now)
	if err != nil {
		return err
	}
	found := seen(page)
	lost := storekit.Lost(expected, found, now)
	if lost && !restore {
		if expected, _, err = s.births.Reconsider(ctx, name, expected); err != nil {
			return err
		}
		lost = storekit.Lost(expected, found, now)
	}
	set := page != nil && found.Born.Equal(expected.Born)
	switch {
	case !lost:
	case restore && set:
		page.Latest = max(page.Latest, window.At(expected.Latest))
		page.Generation = max(page.Generation, expected.Generation) + 1
	case restore:
	case set:
		return &quota.ForgottenError{Pool: name, Born: found.Latest}
	default:
		return &quota.ForgottenError{Pool: name, Born: expected.Born}
	}
	return nil
}

// seen is what there is to remember of a page.
func seen(page *window.Page) quota.Birth {
	if page == nil {
		return quota.Birth{}
	}
	return quota.Birth{
		Born: page.Born.Time(), Until: page.Expires(page.Latest).Time(), Generation: page.Generation, Latest: page.Latest.Time(),
	}
}

// rememberOutside remembers the pages of pools as they are in the file.
func (s *Store) rememberOutside(ctx context.Context, pools []*pool) error {
	if s.births == nil {
		return nil
	}
	for _, p := range pools {
		if p.page == nil || p.pool.Key != "" {
			continue
		}
		if err := s.births.Remember(ctx, p.pool, seen(p.page)); err != nil {
			return err
		}
	}
	return nil
}
