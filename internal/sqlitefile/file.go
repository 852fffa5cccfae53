package sqlitefile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// File is an open file, with a session that writes and a few that read.
type File struct {
	Path     string
	Writer   *Session // used by one caller at a time: of [File.Hold], or otherwise
	Identity Identity
	Kept     string // the copy that Open made before it changed the schema, or ""

	kind    *Kind
	wait    time.Duration
	readers chan *Session // nil: not connected yet
	spare   chan *Session // of Probe
	turn    chan struct{} // taken by the caller of Hold
	counter *counter
}

// Readers is the number of sessions that read.
const Readers = 4

// ErrClosed says that the file was closed, or is only inspected.
var ErrClosed = errors.New("it is not open")

// Open opens the file at path. It creates a missing file, and brings the
// schema up to date, after it has made a copy of the file. It calls ready, which may be nil, in the same transaction.
// Wait is the longest time to wait for a busy file.
func (k *Kind) Open(ctx context.Context, path string, wait time.Duration, ready func(*Session) error) (*File, error) {
	path, err := k.Path(path)
	if err != nil {
		return nil, err
	}
	f := &File{Path: path, kind: k, wait: wait, readers: make(chan *Session, Readers), spare: make(chan *Session, 1), turn: make(chan struct{}, 1), counter: newCounter()}
	f.spare <- nil
	for range Readers {
		f.readers <- nil
	}
	before, missing := FileAt(path)
	if err := f.open(ctx, ready); err != nil {
		return nil, errors.Join(f.Fault("open", err), f.Close())
	}
	if f.Identity, err = Identify(path); err == nil && missing == nil {
		err = f.Identity.Was(before)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *File) open(ctx context.Context, ready func(*Session) error) error {
	if err := f.kind.look(ctx, f.Path); err != nil {
		return err
	}
	if err := Create(f.Path); err != nil {
		return err
	}
	p := NewPatience(ctx, f.Path, f.wait)
	defer p.End()
	err := p.Retry(func() (err error) { // a new file is locked while it becomes a WAL file
		f.Writer, err = f.kind.Connect(ctx, f.Path, Write)
		return err
	})
	if err != nil {
		return err
	}
	if err := p.Retry(f.Writer.Begin); err != nil {
		return err
	}
	f.Writer.Within(ctx)
	f.Kept, err = f.kind.keep(ctx, f.Path, f.Writer)
	if err == nil {
		err = f.kind.migrate(f.Writer)
	}
	if err == nil && ready != nil {
		err = ready(f.Writer)
	}
	err = f.Writer.End(err)
	if err == nil {
		forget(f.Path, f.Kept)
	} else if f.Kept != "" { // the file is as it was; the next try makes a copy of its own
		err = errors.Join(err, os.Remove(f.Kept))
	}
	return err
}

// Inspect calls read with the file at path, which it does not change: see [Untouched].
func (k *Kind) Inspect(ctx context.Context, path string, wait time.Duration, read func(*File) error) error {
	path, err := k.Path(path)
	if err != nil {
		return err
	}
	return Untouched(ctx, path, func(s *Session) error {
		f := &File{Path: path, kind: k, wait: wait, readers: make(chan *Session, 1), turn: make(chan struct{}, 1)}
		f.spare = f.readers
		if err := k.LookAt(s); err != nil {
			return f.Fault("open", err)
		}
		s.statements = k.Statements
		f.readers <- s
		return read(f)
	})
}

// Hold calls do with the writer when no other caller of Hold uses it.
func (f *File) Hold(ctx context.Context, do func(*Session) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if f.Writer == nil {
		return ErrClosed
	}
	return do(f.Writer)
}

// Write runs a transaction in [File.Hold]: all of it or nothing. Wait is the longest time to wait
// for a busy file.
func (f *File) Write(ctx context.Context, wait time.Duration, do func(*Session) error) error {
	return f.Hold(ctx, func(s *Session) error {
		if err := f.Identity.Check(); err != nil {
			return err
		}
		if err := f.Begin(ctx, wait); err != nil {
			return err
		}
		s.Within(ctx)
		return f.End(do(s))
	})
}

// Begin starts a transaction of the writer. It waits for a busy file.
func (f *File) Begin(ctx context.Context, wait time.Duration) error {
	p := NewPatience(ctx, f.Path, wait)
	defer p.End()
	return p.Retry(f.Writer.Begin)
}

// End commits the transaction of the writer. It rolls back if err is not nil, or if the
// file is not the one that was opened: data in that one would be lost.
func (f *File) End(err error) error { return f.Writer.End(cmp.Or(err, f.Identity.Check())) }

// View starts a transaction that only reads, in a session that Release takes back.
func (f *File) View(ctx context.Context) (*Session, error) { return f.view(ctx, f.readers) }

// Read calls read in a transaction that only reads: all of it sees the same state of the file.
func (f *File) Read(ctx context.Context, read func(*Session) error) error {
	return f.reading(ctx, f.readers, read)
}

// Probe is [File.Read] in a session of its own: those that search do not keep it waiting.
func (f *File) Probe(ctx context.Context, read func(*Session) error) error {
	return f.reading(ctx, f.spare, read)
}

func (f *File) reading(ctx context.Context, from chan *Session, read func(*Session) error) error {
	s, err := f.view(ctx, from)
	if err != nil {
		return err
	}
	s.Within(ctx)
	err = read(s)
	s.Rollback()
	from <- s
	return f.Fault("read", cmp.Or(f.Identity.Check(), err))
}

func (f *File) view(ctx context.Context, from chan *Session) (s *Session, err error) {
	p := NewPatience(ctx, f.Path, f.wait)
	defer p.End()
	open := true
	select {
	case s, open = <-from:
	case <-p.Wait():
		return nil, f.Fault("read", p.Over(nil))
	}
	if !open {
		return nil, f.Fault("read", ErrClosed)
	}
	err = p.Retry(func() (err error) {
		if s == nil {
			if err := f.Identity.Check(); err != nil {
				return err // to connect would make the files again
			}
			if s, err = f.kind.Connect(ctx, f.Path, Read); err != nil {
				return err
			}
		}
		return s.View()
	})
	if err != nil {
		from <- s
		return nil, f.Fault("read", cmp.Or(f.Identity.Check(), err))
	}
	return s, nil
}

// Release ends a transaction that reads. It returns an error if the file is not the one
// that was opened.
func (f *File) Release(s *Session) error {
	s.Rollback()
	f.readers <- s
	return f.Identity.Check()
}

// Fault is [Kind.Fault] for this file.
func (f *File) Fault(doing string, err error) error { return f.kind.Fault(doing, f.Path, err) }

// Close closes the file, after the transactions that read, and the caller of Hold. Otherwise its
// writer must be idle.
func (f *File) Close() error {
	f.turn <- struct{}{} // two that each took some readers would wait for ever
	defer func() { <-f.turn }()
	var failed error
	if f.Writer != nil {
		failed = f.Writer.Close()
		f.Writer = nil
	}
	for _, sessions := range []chan *Session{f.readers, f.spare, f.counter.session} {
		for range cap(sessions) {
			s, open := <-sessions
			if !open {
				return failed // it was closed before
			}
			if s != nil {
				failed = errors.Join(failed, s.Close())
			}
		}
		close(sessions)
	}
	if failed != nil {
		return fmt.Errorf("close %s: %w", f.Path, failed)
	}
	return nil
}

// counter reads the change counter of a file, in a session that does nothing else: SQLite
// counts the commits of other sessions only.
type counter struct {
	session chan *Session // taken by the one who reads; it holds nil until the first read
	reads   atomic.Int64  // that began

	// of the one who reads
	read   int64       // which of them was the last that succeeded
	last   int64       // what it returned
	looked atomic.Bool // whether the file was found to be the one that was opened, a moment ago
}

func newCounter() *counter {
	c := &counter{session: make(chan *Session, 1)}
	c.session <- nil
	return c
}

// Version returns a number that is another one after each commit to the file, by any process.
// Only numbers of the same File can be compared. Version does not wait for a busy file. It
// notices within a second that the file was replaced: to look takes longer than to count.
func (f *File) Version(ctx context.Context) (int64, error) {
	c := f.counter
	if c == nil {
		return 0, f.Fault("read", ErrClosed)
	}
	began := c.reads.Load()
	var s *Session
	open := true
	select {
	case s, open = <-c.session:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if !open {
		return 0, f.Fault("read", ErrClosed)
	}
	defer func() { c.session <- s }()
	if c.read > began {
		return c.last, nil // it was read after this caller came
	}
	this := c.reads.Add(1)
	if !c.looked.Load() {
		if err := f.Identity.Check(); err != nil {
			return 0, f.Fault("read", err)
		}
		c.looked.Store(true)
		time.AfterFunc(time.Second, func() { c.looked.Store(false) })
	}
	if s == nil {
		var err error
		if s, err = f.kind.Connect(ctx, f.Path, Read); err != nil {
			return 0, f.Fault("read", err)
		}
	}
	row, err := s.One("PRAGMA data_version")
	if err != nil {
		return 0, f.Fault("read", err)
	}
	c.read, c.last = this, row.Int(0)
	return c.last, nil
}

// Held returns an error that is [Busy] if other processes keep the file at path from being written all that time. It writes
// nothing.
func Held(ctx context.Context, path string, all time.Duration) error {
	s, err := Raw(ctx, path, url.Values{"mode": {"rw"}})
	if err != nil {
		return nil //nolint:nilerr // to open it says more
	}
	p := NewPatience(ctx, path, all)
	defer p.End()
	if err = p.Retry(s.Begin); err == nil {
		s.Rollback()
	}
	if _ = s.Close(); Busy(err) { // nothing was written
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// errFull says that the disk has no room for a transaction.
var errFull = errors.New("no room for a transaction")

// oneTransaction is room for a small one.
const oneTransaction = 64 << 10

// TryWrite tries to write, in a transaction of the writer, and changes nothing. A page may fit where a
// transaction does not, so the disk must have room for that, too; if not, full says so, and what is in the
// transaction may still fit.
func (f *File) TryWrite() (broken, full error) {
	schema, err := f.Writer.Number("PRAGMA user_version")
	if err == nil {
		err = f.Writer.Script(fmt.Sprintf("PRAGMA user_version = %d", schema))
	}
	if left, known := Room(filepath.Dir(f.Path)); err == nil && known && left < oneTransaction {
		full = f.Fault("write to", errFull)
	}
	return f.Fault("write to", err), full
}
