package redisstore

import (
	"context"
	"time"

	"github.com/headroom-quota/headroom/quota/storekit"
)

// remember keeps what a script says of pages: charge, born, expires, generation,
// latest. Whether a page was lost, has run out or is behind is for the scripts to
// judge, by the server's clock.
func (s *Store) remember(ctx context.Context, a *ask, found []any) error {
	for ; len(found) >= 5; found = found[5:] {
		pool := a.charges[integer(found[0])-1].Pool
		if pool.Key != "" {
			continue
		}
		err := s.births.Remember(ctx, pool, storekit.Birth{
			Born: instant(found[1]), Until: instant(found[2]).Add(-margin),
			Generation: integer(found[3]), Latest: instant(found[4]),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// margin is how much longer than it counts a page is kept: MARGIN in the prelude.
const margin = time.Hour

// micros is an instant as scripts have it, 0 for none.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
