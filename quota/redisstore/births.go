package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// births remembers the pages in use, because Redis may forget them or be set back to
// what they were. Whether one that is gone or reborn was lost or has run out, and
// whether one is behind, is for the scripts to judge: by the server's clock.
type births struct {
	kept  quota.Births // beyond the process; may be nil
	mu    sync.Mutex
	known map[string]known
}

// known is what is known of a page; zero if nothing is.
type known struct {
	quota.Birth
	seen // within the process only: to write that down would cost as much as a call
}

// seen is how far a page had come. One that is not set back only moves on: its latest
// instant, or its generation where a clock that had been ahead takes that back.
type seen struct{ generation, latest int64 }

func (s seen) behind(other seen) bool {
	return s.generation <= other.generation && s.latest < other.latest
}

// expect returns what is known of a page.
func (b *births) expect(ctx context.Context, page string, now time.Time) (known, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k, there := b.known[page]
	if b.kept != nil && (!there || !now.Before(k.Until)) { // another process may know more
		birth, err := b.kept.Recall(ctx, page)
		if err != nil {
			return known{}, err
		}
		if !k.Born.Equal(birth.Born) {
			k.seen = seen{}
		}
		k.Birth = birth
		b.known[page] = k
	}
	return k, nil
}

// remember keeps what a script says of pages: charge, born, expires, generation,
// latest. Replies may overtake each other.
func (b *births) remember(ctx context.Context, a *ask, news []any) error {
	for ; len(news) >= 5; news = news[5:] {
		pool := a.charges[integer(news[0])-1].Pool
		if pool.Key != "" {
			continue
		}
		page := pageKey(a.tag, pool.Name)
		is := known{
			quota.Birth{Born: instant(news[1]), Until: instant(news[2]).Add(-margin)},
			seen{integer(news[3]), integer(news[4])},
		}
		b.mu.Lock()
		was := b.known[page]
		same := was.Born.Equal(is.Born)
		longer := !same || is.Until.After(was.Until)
		if !longer {
			is.Until = was.Until
		}
		if same && is.behind(was.seen) {
			is.seen = was.seen
		}
		b.known[page] = is
		b.mu.Unlock()
		if b.kept != nil && longer {
			if err := b.kept.Remember(ctx, page, is.Birth); err != nil {
				return err
			}
		}
	}
	return nil
}

// grew notes that a page of a generation was written at an instant.
func (b *births) grew(page string, generation, latest int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k := b.known[page]; k.generation == generation && k.latest < latest {
		k.latest = latest
		b.known[page] = k
	}
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
