package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// births remembers when the pages in use were born, because Redis may forget them.
// Whether a page that is gone or reborn was lost or has run out is for the scripts
// to judge: by the server's clock.
type births struct {
	kept  quota.Births // beyond the process; may be nil
	mu    sync.Mutex
	known map[string]quota.Birth
}

// expect returns what is known of a page; zero if nothing is.
func (b *births) expect(ctx context.Context, page string, now time.Time) (quota.Birth, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	birth, known := b.known[page]
	if b.kept != nil && (!known || !now.Before(birth.Until)) { // another process may know more
		var err error
		if birth, err = b.kept.Recall(ctx, page); err != nil {
			return quota.Birth{}, err
		}
		b.known[page] = birth
	}
	return birth, nil
}

// remember keeps what a script says of pages: charge, born, expires.
func (b *births) remember(ctx context.Context, a *ask, news []any) error {
	for ; len(news) >= 3; news = news[3:] {
		pool := a.charges[integer(news[0])-1].Pool
		if pool.Key != "" {
			continue
		}
		page := pageKey(a.tag, pool.Name)
		birth := quota.Birth{Born: instant(news[1]), Until: instant(news[2]).Add(-margin)}
		b.mu.Lock()
		if known := b.known[page]; known.Born.Equal(birth.Born) && known.Until.After(birth.Until) {
			birth.Until = known.Until // replies may overtake each other
		}
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

// micros is an instant as scripts have it, 0 for none.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
