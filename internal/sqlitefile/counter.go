package sqlitefile

import (
	"context"
	"sync/atomic"
	"time"
)

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
