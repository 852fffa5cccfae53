package storekit

import (
	"context"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// Birth is what [Births] remembers of a pool's page.
type Birth struct {
	Identity   string    // of the ledger that had it; empty if that is not known
	Born       time.Time // tells the page from any other one
	Until      time.Time // until then the page must be there: something may still count
	Generation int64     // of the page when it was last seen
	Latest     time.Time // the page was written then; it may have been written later
}

// BirthKeeper remembers the pages of the ledger at one address, beyond the life of a
// process and outside the ledger's own data.
type BirthKeeper interface {
	// Recall returns what is remembered of a pool's page; zero if that is nothing.
	Recall(ctx context.Context, pool quota.Pool) (Birth, error)
	// Remember keeps what was seen of a pool's page. Processes overtake each other: of
	// one page, a higher generation stands, and within a generation what is later.
	Remember(ctx context.Context, pool quota.Pool, b Birth) error
}

// Births remembers the pages that a process has seen, so that it notices if a store loses
// them or returns to an older copy. A store calls it three times:
//
//	expected, err := births.Expect(ctx, pool, now)     // before it decides
//	if storekit.Lost(expected, found, now) { ... }     // unless Request.Restore is set
//	err = births.Remember(ctx, pool, found)            // after it has committed
//
// A store that finds a page lost calls [Births.Reconsider] before it says so, because
// another process may know better. If Request.Restore is set, a person says what was
// spent: the store takes the page as it is, moves it to [Birth.Latest] at least,
// and remembers it like any other one.
//
// Pages are also kept in a [BirthKeeper], which outlives the process. To write there
// costs an fsync, so it is done only for a new page or generation, once a minute for a
// page that is in use, and at the end ([Births.Keep]). A process that
// crashes therefore leaves up to a minute of spend that a restored copy can lack
// without being noticed by the next process.
type Births struct {
	store quota.Identified
	kept  BirthKeeper // nil: nothing outlives the process

	mu    sync.Mutex
	known map[quota.Pool]known
}

// known is a page as this process knows it, and as it is kept.
type known struct{ is, kept Birth }

// keepEvery is how often a page that is in use is kept.
const keepEvery = time.Minute

// NewBirths returns an empty memory of the pages in a store. It saves to kept what must
// outlive the process; nil saves nothing.
func NewBirths(store quota.Identified, kept BirthKeeper) *Births {
	return &Births{store: store, kept: kept, known: make(map[quota.Pool]known)}
}

// Expect returns what is known of a pool's page; zero if that is nothing. The clock
// only decides whether other processes may know more.
func (b *Births) Expect(ctx context.Context, pool quota.Pool, now time.Time) (Birth, error) {
	b.mu.Lock()
	k, there := b.known[pool]
	b.mu.Unlock()
	if b.kept == nil || there && now.Before(k.is.Until) {
		return k.is, nil
	}
	kept, err := b.kept.Recall(ctx, pool)
	if err != nil {
		return Birth{}, err
	}
	return b.recalled(pool, kept), nil
}

// Reconsider returns what is expected of a page that does not meet what was expected
// of it, and whether that is something else now: another process of this machine has
// met a later generation of the page, or a person has put back what was lost.
func (b *Births) Reconsider(ctx context.Context, pool quota.Pool, expected Birth) (Birth, bool, error) {
	if b.kept == nil {
		return expected, false, nil
	}
	kept, err := b.kept.Recall(ctx, pool)
	if err != nil {
		return Birth{}, false, err
	}
	if kept.Born.Equal(expected.Born) && kept.Generation <= expected.Generation {
		return expected, false, nil // this process knows as much, or more
	}
	b.mu.Lock()
	delete(b.known, pool)
	b.mu.Unlock()
	return b.recalled(pool, kept), true, nil
}

// recalled takes in what is kept of a page.
func (b *Births) recalled(pool quota.Pool, kept Birth) Birth {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := known{merge(b.known[pool].is, kept), kept}
	b.known[pool] = k
	return k.is
}

// Remember takes in a page as it was found or written. Calls may overtake each other.
func (b *Births) Remember(ctx context.Context, pool quota.Pool, is Birth) error {
	b.mu.Lock()
	was := b.known[pool]
	b.mu.Unlock()
	switch is.Identity = was.is.Identity; {
	case b.kept == nil:
	case !was.is.Born.Equal(is.Born) || is.Identity == "":
		// Only a ledger that lost its data can be another one, and it has other pages.
		id, err := b.store.Identity(ctx, pool.Upstream, pool.Account)
		if err != nil {
			return err
		}
		is.Identity = id
	}
	b.mu.Lock()
	k := b.known[pool]
	k.is = merge(k.is, is)
	due := b.kept != nil && due(k)
	if due {
		k.kept = k.is
	}
	b.known[pool] = k
	b.mu.Unlock()
	if !due {
		return nil
	}
	err := b.kept.Remember(ctx, pool, k.is)
	if err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		k = b.known[pool]
		k.kept = Birth{} // so that the next call tries again
		b.known[pool] = k
	}
	return err
}

// Grew notes that a page was written at an instant, without keeping it.
func (b *Births) Grew(pool quota.Pool, generation int64, latest time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k := b.known[pool]; k.is.Generation == generation && k.is.Latest.Before(latest) {
		k.is.Latest = latest
		b.known[pool] = k
	}
}

// Keep keeps all that is known. A store calls it when it is closed.
func (b *Births) Keep(ctx context.Context) error {
	if b.kept == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for pool, k := range b.known {
		if k.is == k.kept || k.is.Born.IsZero() {
			continue
		}
		err := b.kept.Remember(ctx, pool, k.is)
		for tries := 1; err != nil && tries < keepTries; tries++ { // processes that end together write together
			err = b.kept.Remember(ctx, pool, k.is)
		}
		if err != nil {
			return err
		}
		k.kept = k.is
		b.known[pool] = k
	}
	return nil
}

// keepTries is how often Keep tries to write a page. A journal waits for a second each time while others write.
const keepTries = 5

// due reports whether a page must be kept anew.
func due(k known) bool {
	return !k.is.Born.Equal(k.kept.Born) || k.is.Generation != k.kept.Generation ||
		k.is.Until.Sub(k.kept.Until) >= keepEvery || k.is.Latest.Sub(k.kept.Latest) >= keepEvery
}

// merge returns what stands of two views of a page. A later generation may end
// earlier, because its windows are others.
func merge(was, is Birth) Birth {
	switch {
	case !was.Born.Equal(is.Born), was.Generation < is.Generation:
		return is
	case was.Generation > is.Generation:
		return was
	}
	if is.Until.Before(was.Until) {
		is.Until = was.Until
	}
	if is.Latest.Before(was.Latest) {
		is.Latest = was.Latest
	}
	return is
}

// Lost reports whether a page is not the one that must be there, or is behind what it
// was. A page that is not set back only moves on: its latest instant, or its
// generation where a clock that had been ahead takes that back. A missing page is
// found as zero.
func Lost(expected, found Birth, now time.Time) bool {
	behind := found.Generation <= expected.Generation && found.Latest.Before(expected.Latest)
	return now.Before(expected.Until) && (behind || !found.Born.Equal(expected.Born))
}
