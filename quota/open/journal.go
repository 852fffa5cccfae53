package open

import (
	"context"
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/quota/journal"
)

// openJournal opens the journal of a ledger. A fresh ledger is to be trusted as it is
// found, so the journal then forgets what it remembers of it.
func (o *Opened) openJournal(ctx context.Context, path, ledger string, fresh bool) (err error) {
	if o.Journal, err = journal.Open(ctx, path, ledger); err != nil {
		return err
	}
	o.closers = append(o.closers, o.Journal.Close)
	o.tellKept("journal", o.Journal.Kept())
	if fresh {
		return o.Journal.Forget(ctx)
	}
	o.Remembered, err = o.Journal.Remembers(ctx)
	return err
}

// settleIn has the ledger adopt what an older journal holds, and looks for copies of
// it. If the ledger does not answer, that waits for the next process.
func (o *Opened) settleIn(ctx context.Context, now time.Time) error {
	orphans, err := o.Journal.Orphans(ctx)
	if err != nil {
		return err
	}
	if orphans {
		if pages, err := o.Ledger.View().Usage(ctx, "", ""); err == nil {
			adopted, err := o.Journal.Adopt(ctx, now, pages)
			if err != nil {
				return err
			}
			if adopted {
				o.log.Info("the journal of an older version now belongs to this ledger", "journal", o.Journal.Path(), "ledger", o.Journal.Ledger())
			}
		}
	}
	copies, err := o.Journal.Copies(ctx, now)
	if err != nil {
		return err
	}
	for _, other := range copies {
		o.warn("this ledger and the one at %s have one identity: one is a copy of the other, and neither counts what is spent of the other", other)
	}
	return nil
}

// warn notes something about the ledger that a person should know.
func (o *Opened) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	o.Warnings = append(o.Warnings, text)
	o.log.Warn(text)
}

// tellKept says that the schema of a file was changed, and where the copy of before is.
func (o *Opened) tellKept(what, kept string) {
	if kept != "" {
		o.log.Info("the "+what+" has a newer schema now; a copy from before is kept", "copy", kept)
	}
}
