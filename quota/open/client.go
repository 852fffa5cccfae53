package open

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// flushing bounds how long closing waits for calls whose answers have ended to be settled.
const flushing = 5 * time.Second

// Client is [headroom.Client] with its count in the ledger at an address, such as
// "sqlite:ledger.db" or "redis://host:6379/0", so that all programs that name it share the
// quota. Call Close of the ledger at the end: it settles the last calls.
func Client(ctx context.Context, address string, p headroom.Prices, o *meter.Options) (*http.Client, *Opened, error) {
	if p == nil {
		return nil, nil, quota.BadInput("open.Client needs limits or a price book, as in headroom.File(\"costs.yaml\")")
	}
	book, err := p.Book()
	if err != nil {
		return nil, nil, err
	}
	opened, err := Open(ctx, address, &Options{Book: book})
	if err != nil {
		return nil, nil, err
	}
	transport, err := meter.New(opened.Ledger, o)
	if err != nil {
		return nil, nil, errors.Join(err, opened.Close())
	}
	opened.closers = append(opened.closers, func() error {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushing)
		defer cancel()
		return transport.Flush(within)
	})
	return &http.Client{Transport: transport}, opened, nil
}
