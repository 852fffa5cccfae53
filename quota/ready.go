package quota

import (
	"context"
	"errors"
)

// ReadyID is the id of the token that [Ledger.Ready] asks a store to settle. A store whose
// disk may be full tries a write for it.
const ReadyID = "ready"

// Ready returns nil if the ledger can take reservations. It is for health checks. The store is asked to settle a
// reservation that nobody made, which counts nothing. For that a store waits for its lock as for a reservation, so
// Ready notices a file that another process has locked, and a disk that is full.
//
// Then Ready charges what was admitted in an outage, also by other processes that share the journal, so that what is
// left is what the next call finds. If the journal cannot be used, or takes too long, that is an error only if the next
// call has to wait for it, too.
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
	if !errors.Is(err, ErrNoReceipt) {
		return l.storeError(ctx, op, err)
	}
	if l.journal == nil || l.pending.Load() {
		return l.replayMost(ctx)
	}
	err = l.replayEntries(ctx)
	var outage *OutageError
	if stays(err) || ctx.Err() != nil || errors.As(err, &outage) && outage.journal {
		return nil
	}
	return err
}
