package main

import (
	"context"
	"sync"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/refusals"
)

// keepRefusals counts the refused calls of callers until stop, for the history. A server
// saves them in its catalog.
func (a *app) keepRefusals(ctx context.Context, save refusals.Save) (tally *refusals.Tally, stop func()) {
	tally = refusals.New(a.clock)
	ctx, cancel := context.WithCancel(ctx)
	var kept sync.WaitGroup
	kept.Go(func() { tally.Keep(ctx, save, a.log) })
	return tally, func() {
		cancel()
		kept.Wait()
	}
}

// savedIn returns how a proxy, which has no catalog open, saves refusals: in the catalog of
// the settings, if there is one.
func (a *app) savedIn(s *settings) refusals.Save {
	return func(ctx context.Context, all []catalog.Refusal) (err error) {
		if s.noCatalog() != nil {
			return nil
		}
		var done closers
		defer func() {
			if failed := done.close(); err == nil {
				err = failed
			}
		}()
		c, err := a.openCatalog(ctx, s, &done)
		if err != nil {
			return err
		}
		return c.AddRefusals(ctx, all)
	}
}
