package quota

import (
	"context"
	"time"
)

// Birth is what is remembered of a page, so that a store that lost it is found
// out.
type Birth struct {
	Born  time.Time
	Until time.Time // until then the page must be there: something may still count
}

// Births remembers the births of pages beyond the life of a process, for stores
// that may forget them.
type Births interface {
	// Recall returns the birth of a page; zero if it is not known.
	Recall(ctx context.Context, page string) (Birth, error)
	// Remember keeps the birth of a page.
	Remember(ctx context.Context, page string, b Birth) error
}
