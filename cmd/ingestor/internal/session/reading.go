package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/open"
)

// Instead says that a command which reads a file was given something else in its place.
type Instead struct {
	Why   string // and what changes it
	Fault error  // why the file cannot be used, or nil
}

// warn prints why, unless the file itself is read: then i is nil.
func (i *Instead) warn(a *Session) {
	if i != nil {
		fmt.Fprintf(a.Stderr, "ingestor: warning: %s\n", i.Why)
	}
}

// WithLedgerToRead is [Session.WithLedger] for a command that only reads: see
// [Session.ReadLedger].
func (a *Session) WithLedgerToRead(cmd *cobra.Command, f func(context.Context, *quota.Ledger) error) (err error) {
	s, err := a.Settings(cmd.Flags())
	if err != nil {
		return err
	}
	var done console.Closers
	defer func() { err = errors.Join(err, done.Close()) }()
	l, instead, err := a.ReadLedger(cmd.Context(), s, &done)
	if err != nil {
		return err
	}
	instead.warn(a)
	return f(cmd.Context(), l)
}

// ReadLedger opens the ledger for a command that only reads. It makes no ledger, and changes no
// schema. If there is no file, an empty ledger in memory is read. If the file has an older schema, or
// cannot be written, a copy of it is.
func (a *Session) ReadLedger(ctx context.Context, s *settings.Settings, done *console.Closers) (*quota.Ledger, *Instead, error) {
	at, err := open.Parse(s.Ledger)
	if err != nil || at.Scheme != "sqlite" || lost(at) {
		l, err := a.OpenLedger(ctx, s, done)
		return l, nil, err
	}
	instead, err := a.instead("ledger", at.File, func() (int64, bool, error) { return at.Older(ctx) }, func() error {
		_, err := a.OpenLedger(ctx, s, done)
		return err
	})
	if instead == nil {
		if err != nil {
			return nil, nil, err
		}
		return a.Opened.Ledger, nil, nil
	}
	var store quota.Store
	if errors.Is(instead.Fault, fs.ErrNotExist) {
		instead.Fault = nil
		instead.Why += ", and assumes that nothing was spent today\nIf that is wrong: ingestor quota adjust POOL UNITS --reason TEXT" + s.LedgerFlag()
		store, _, err = open.Store(ctx, "memory:", a.Clock)
	} else {
		store, err = CopyOfLedger(ctx, at.File, a.Clock, done)
	}
	if err != nil {
		return nil, nil, cmp.Or(instead.Fault, err)
	}
	l, err := quota.New(s.Book, store, &quota.Options{Clock: a.Clock})
	return l, instead, err
}

// lost reports whether the file of a ledger is missing, and its journal is not. The journal then
// knows which pools have lost their counts.
func lost(at *open.Address) bool {
	beside, err := at.Journal("")
	return err == nil && empty(at.File) && exists(beside)
}

// empty reports whether a file is missing, or one that nothing was written to: the first run makes
// one of it.
func empty(path string) bool {
	info, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0
}

// CopyOfLedger opens a copy of the ledger in a file, which it does not change. If there is no
// ledger, the error is fs.ErrNotExist.
func CopyOfLedger(ctx context.Context, path string, clock quota.Clock, done *console.Closers) (quota.Store, error) {
	to, err := copied(ctx, "ledger", path, done)
	if err != nil {
		return nil, err
	}
	store, closer, err := open.Store(ctx, "sqlite:"+to, clock)
	if err == nil {
		done.Add(closer)
	}
	return store, err
}

// WithCatalogToRead is [Session.WithCatalog] for a command that only reads.
func (a *Session) WithCatalogToRead(cmd *cobra.Command, f func(context.Context, AnyCatalog) error) (err error) {
	s, err := a.Settings(cmd.Flags())
	if err == nil {
		err = s.NoCatalog()
	}
	if err != nil {
		return err
	}
	var done console.Closers
	defer func() { err = errors.Join(err, done.Close()) }()
	c, instead, err := a.ReadCatalog(cmd.Context(), s, &done)
	if err != nil {
		return err
	}
	instead.warn(a)
	return f(cmd.Context(), c)
}

// ReadCatalog opens the catalog for a command that only reads. It changes no schema of a file. If
// the file has an older one, or cannot be written, it opens a copy.
func (a *Session) ReadCatalog(ctx context.Context, s *settings.Settings, done *console.Closers) (c AnyCatalog, _ *Instead, err error) {
	if s.Database != "" {
		c, err := a.OpenCatalog(ctx, s, done)
		return c, nil, err
	}
	instead, err := a.instead("catalog", s.Catalog, func() (int64, bool, error) { return catalog.Older(ctx, s.Catalog) }, func() (err error) {
		c, err = a.OpenCatalog(ctx, s, done)
		return err
	})
	if instead == nil {
		return c, nil, err
	}
	if errors.Is(instead.Fault, fs.ErrNotExist) {
		instead.Fault = nil
	}
	to, err := copied(ctx, "catalog", s.Catalog, done)
	if err != nil {
		return nil, nil, cmp.Or(instead.Fault, err)
	}
	file, err := catalog.Open(ctx, to, &catalog.Options{Clock: a.Clock})
	if err != nil {
		return nil, nil, err
	}
	done.Add(file.Close)
	return file, instead, nil
}

// instead opens a file, unless it is missing, or has an older schema. It returns why another one
// has to be read in its place, or nil. The fault of a missing file is fs.ErrNotExist.
func (a *Session) instead(what, path string, older func() (int64, bool, error), opening func() error) (*Instead, error) {
	if empty(path) {
		return &Instead{Why: fmt.Sprintf("there is no %s at %s yet; the first run makes it", what, path), Fault: fs.ErrNotExist}, nil
	}
	schema, is, err := older()
	switch {
	case sqlitefile.Busy(err):
		return nil, unopened(fmt.Errorf("read %s: %w", path, err), console.ExitDown)
	case err == nil && is: // other errors say more when it is opened
		return &Instead{Why: fmt.Sprintf("the %s %s has the older schema %d, which reading does not change; this is read from a copy\nTo bring it up to date, after a copy is kept beside it: ingestor run, or ingestor serve", what, path, schema)}, nil
	}
	err = opening()
	if !sqlitefile.Unwritable(err) {
		return nil, err
	}
	return &Instead{Why: fmt.Sprintf("the %s cannot be written here, so this is read from a copy: %v", what, err), Fault: err}, nil
}

// copied copies a file of SQLite to where it costs no disk, if there is such a place.
func copied(ctx context.Context, what, path string, done *console.Closers) (string, error) {
	const memory = "/dev/shm"
	in := ""
	if info, err := os.Stat(path); err == nil {
		if room, known := sqlitefile.Room(memory); known && room > 4*info.Size() {
			in = memory
		}
	}
	dir, err := os.MkdirTemp(in, "ingestor-")
	if err != nil {
		return "", err
	}
	done.Add(func() error { return os.RemoveAll(dir) })
	signal.Ignore(syscall.SIGPIPE)                     // or the copy would stay if a pager ends first
	to := filepath.Join(dir, what+".db.schema-0.part") // no copy is kept of a file with such a name
	if err := sqlitefile.Snapshot(ctx, path, to); err != nil {
		return "", fmt.Errorf("copy the %s %s: %w", what, path, err)
	}
	return to, nil
}
