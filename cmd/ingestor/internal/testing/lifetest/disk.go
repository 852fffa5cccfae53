package lifetest

import (
	"context"
	"errors"
	"sync"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// Fault is what is wrong with a disk.
type Fault string

// The faults. What they do cannot be had otherwise in a moment, and without the rights of root.
const (
	Well     Fault = ""
	Full     Fault = "full"
	ReadOnly Fault = "read-only"
	Lost     Fault = "lost"  // it can neither be read nor written
	Hangs    Fault = "hangs" // no answer comes while the caller waits
	Deaf     Fault = "deaf"  // no answer comes, whatever becomes of the caller
)

// Hung reports whether no answer comes.
func (f Fault) Hung() bool { return f == Hangs || f == Deaf }

// Disk is a disk that a test can spoil. It is safe for concurrent use.
type Disk struct {
	mu    sync.Mutex
	fault Fault
	over  chan struct{} // closed when a disk that hangs answers
}

// Is returns what is wrong.
func (d *Disk) Is() Fault {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fault
}

// Set spoils the disk, or makes it well. Who waits for an answer gets one.
func (d *Disk) Set(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over != nil {
		close(d.over)
	}
	d.fault, d.over = f, nil
	if f.Hung() {
		d.over = make(chan struct{})
	}
}

func (d *Disk) read(ctx context.Context) error {
	d.mu.Lock()
	fault, over := d.fault, d.over
	d.mu.Unlock()
	switch fault {
	case Lost:
		return errors.New("the disk is gone")
	case Hangs:
		select {
		case <-over:
		case <-ctx.Done():
			return ctx.Err()
		}
	case Deaf:
		<-over
	}
	return nil
}

func (d *Disk) write(ctx context.Context) error {
	switch d.Is() {
	case Full:
		return errors.New("the disk is full")
	case ReadOnly:
		return errors.New("the disk is read-only")
	}
	return d.read(ctx)
}

// Store is a ledger's file on a disk.
type Store struct {
	*sqlitestore.Store
	Disk
}

// Reserve implements [quota.Store].
func (s *Store) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	if err := s.write(ctx); err != nil {
		return quota.Verdict{}, err
	}
	return s.Store.Reserve(ctx, r)
}

// Settle implements [quota.Store].
func (s *Store) Settle(ctx context.Context, t quota.Token, u quota.Units) (quota.Settlement, error) {
	if err := s.write(ctx); err != nil {
		return quota.Settlement{}, err
	}
	return s.Store.Settle(ctx, t, u)
}

// Look implements [quota.Store].
func (s *Store) Look(ctx context.Context, charges []quota.Charge) ([]quota.PageState, error) {
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	return s.Store.Look(ctx, charges)
}

// Shelf is a catalog's file on a disk.
type Shelf struct {
	*catalog.Catalog
	Disk
}

// Feeds is that of the catalog.
func (s *Shelf) Feeds(ctx context.Context) ([]catalog.Feed, error) {
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	return s.Catalog.Feeds(ctx)
}

// Runs is that of the catalog.
func (s *Shelf) Runs(ctx context.Context, q catalog.RunsQuery) ([]catalog.RunRecord, error) {
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	return s.Catalog.Runs(ctx, q)
}

// Begin is that of the catalog.
func (s *Shelf) Begin(ctx context.Context, of catalog.Start) (catalog.Run, error) {
	if err := s.write(ctx); err != nil {
		return nil, err
	}
	return s.Catalog.Begin(ctx, of)
}

// Slate is that of the catalog.
func (s *Shelf) Slate(ctx context.Context, name string) (string, int64, error) {
	if err := s.read(ctx); err != nil {
		return "", 0, err
	}
	return s.Catalog.Slate(ctx, name)
}

// SetSlate is that of the catalog.
func (s *Shelf) SetSlate(ctx context.Context, name, text string, version int64) (bool, error) {
	if err := s.write(ctx); err != nil {
		return false, err
	}
	return s.Catalog.SetSlate(ctx, name, text, version)
}
