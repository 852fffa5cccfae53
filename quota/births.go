package quota

import (
	"context"
	"time"
)

// Identified is a store that can say which ledger it holds. Debts of an outage are
// paid to that ledger only, and two addresses with one identity are a copy.
type Identified interface {
	// Identity returns the identity of the ledger that holds an account's pools. The
	// store makes it at first use and keeps it with the data, so that it is lost when
	// they are.
	Identity(ctx context.Context, upstream, account string) (string, error)
}

// Birth is what is remembered of a pool's page, so that a store that lost the page,
// or was set back to an older copy of it, is found out.
type Birth struct {
	Identity   string    // of the ledger that had it; empty if that is not known
	Born       time.Time // tells the page from any other one
	Until      time.Time // until then the page must be there: something may still count
	Generation int64     // of the page when it was last seen
	Latest     time.Time // the page was written then; it may have been written later
}

// Births remembers pages of one ledger, which stands at one address, beyond the life
// of a process and outside the ledger's own data.
type Births interface {
	// Recall returns what is remembered of a pool's page; zero if that is nothing.
	Recall(ctx context.Context, pool Pool) (Birth, error)
	// Remember keeps what was seen of a pool's page. Processes overtake each other: of
	// one page, a higher generation stands, and within a generation what is later.
	Remember(ctx context.Context, pool Pool, b Birth) error
}
