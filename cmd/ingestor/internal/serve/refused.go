package serve

import (
	"context"
	"sync"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/refusals"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// keepRefusals counts the refused calls of callers until stop, for the history. A server
// saves them in its catalog.
func keepRefusals(ctx context.Context, a *session.Session, save refusals.Save) (tally *refusals.Tally, stop func()) {
	tally = refusals.New(a.Clock)
	ctx, cancel := context.WithCancel(ctx)
	var kept sync.WaitGroup
	kept.Go(func() { tally.Keep(ctx, save, a.Log) })
	return tally, func() {
		cancel()
		kept.Wait()
	}
}

// savedIn returns how a proxy, which has no catalog open, saves refusals: in the catalog of
// the settings, if there is one.
func savedIn(a *session.Session, s *settings.Settings) refusals.Save {
	return func(ctx context.Context, all []catalog.Refusal) (err error) {
		if s.NoCatalog() != nil {
			return nil
		}
		var done console.Closers
		defer func() {
			if failed := done.Close(); err == nil {
				err = failed
			}
		}()
		c, err := a.OpenCatalog(ctx, s, &done)
		if err != nil {
			return err
		}
		return c.AddRefusals(ctx, all)
	}
}
