package session

import (
	"context"
	"errors"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/quota"
)

// Verdict returns what the first page of a server would say, for a command that only reads.
func (a *Session) Verdict(ctx context.Context, s *settings.Settings, l *quota.Ledger, c AnyCatalog) (*verdict.Said, error) {
	src := view.Sources{Ledger: l, Catalog: c, Jobs: s.List(), Runner: ingest.NewRunner(&s.Config, l, c, nil, nil, &ingest.Options{Clock: a.Clock})}
	if s.Database != "" {
		board, err := OpenBoard(ctx, c)
		if err != nil {
			return nil, err
		}
		src.Fleet = board
	}
	facts := verdict.NewReader(&verdict.Options{Clock: a.Clock, MaxAge: s.MaxAge, Folders: s.Folders()})
	return facts.Read(ctx, &src).Verdict().Said(), nil
}

// VerdictToRead is [Session.Verdict] for a command that has opened no catalog. It is nil without
// jobs, and before the first run.
func (a *Session) VerdictToRead(ctx context.Context, s *settings.Settings, l *quota.Ledger) (v *verdict.Said, err error) {
	if len(s.List()) == 0 || s.NoCatalog() != nil {
		return nil, nil
	}
	var done console.Closers
	defer func() { err = errors.Join(err, done.Close()) }()
	c, instead, err := a.ReadCatalog(ctx, s, &done)
	if instead.warn(a, err); err != nil {
		return nil, err
	}
	return a.Verdict(ctx, s, l, c)
}
