package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// births remembers when the pages in use were born, because Redis may forget them.
type births struct {
	kept  quota.Births // beyond the process; may be nil
	mu    sync.Mutex
	known map[string]quota.Birth
}

// expect returns the birth of a page that must be there, in microseconds, or 0 if
// it need not be: nobody here knows it, or all that it counted has run out.
func (b *births) expect(ctx context.Context, page string, now time.Time) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	birth, known := b.known[page]
	if b.kept != nil && (!known || !now.Before(birth.Until)) {
		var err error
		if birth, err = b.kept.Recall(ctx, page); err != nil {
			return 0, err
		}
		b.known[page] = birth
	}
	if !now.Before(birth.Until) {
		return 0, nil
	}
	return birth.Born.UnixMicro(), nil
}

// remember keeps what a script says of the pages it wrote: charge, born, expires.
func (b *births) remember(ctx context.Context, a *ask, news []any) error {
	for ; len(news) >= 3; news = news[3:] {
		pool := a.charges[integer(news[0])-1].Pool
		if pool.Key != "" {
			continue
		}
		page := pageKey(a.tag, pool.Name)
		birth := quota.Birth{Born: instant(news[1]), Until: instant(news[2]).Add(-margin)}
		b.mu.Lock()
		b.known[page] = birth
		b.mu.Unlock()
		if b.kept != nil {
			if err := b.kept.Remember(ctx, page, birth); err != nil {
				return err
			}
		}
	}
	return nil
}

// margin is how much longer than it counts a page is kept: MARGIN in the prelude.
const margin = time.Hour
