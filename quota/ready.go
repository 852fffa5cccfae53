package quota

import (
	"context"
	"errors"
)

// ReadyID is the id of the token that [Ledger.Ready] asks a store to settle. A store whose
// disk may be full tries a write for it.
const ReadyID = "ready"

// Ready returns nil if the ledger can take reservations. It is for health checks, and
// changes no count: the store is asked to settle a reservation that nobody made. For that
// a store waits for its lock as for a reservation, so Ready notices a file that another
// process has locked, and a disk that is full. As a reservation does, it first charges what was
// admitted in an outage. So what is left then is what the next call finds.
func (l *Ledger) Ready(ctx context.Context) error {
	const op = "ask whether the ledger can be written"
	p, err := l.open(ctx, op)
	if err != nil {
		return err
	}
	keys := p.accountKeys("", "")
	if len(keys) == 0 {
		return nil // the price book has no upstream
	}
	_, err = l.store.Settle(ctx, Token{Upstream: keys[0].upstream, Account: keys[0].account, ID: ReadyID}, nil)
	if errors.Is(err, ErrNoReceipt) {
		return l.replayAll(ctx)
	}
	return l.storeError(ctx, op, err)
}
