package redisstore

import (
	"context"
	"time"

	"github.com/headroom-quota/headroom/quota/storekit"
)

// remember saves the births that a script returned: charge, born, expires, generation
// and latest of each page. The scripts decide by the server's clock whether a page was
// lost, has expired or was set back.
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

// margin is the time for which a page is kept after it stops counting: MARGIN in the prelude.
const margin = time.Hour

// micros returns a time as scripts have it. The zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
