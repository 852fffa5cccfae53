package notify

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/headroom-quota/headroom/quota/lease"
)

// alone tells what no slate can hold: that the slate cannot be written. Of the processes of a machine, the one that
// holds a lock does so. It takes the lock while all is well, because a full disk may have no room for it.
type alone struct {
	lock lease.Lock
	told map[string]*message // by target, while it lasts
	sent map[string]bool     // those that have arrived
}

// join takes the lock, if no other process has it, and reports whether another one has.
func (a *alone) join(folders []string) (other bool) {
	if a.lock != nil || len(folders) == 0 {
		return false
	}
	lock, err := lease.Files(filepath.Join(folders[0], "locks")).Lock(context.Background(), "notices")
	if err != nil { // one that says twice is better than one that says nothing
		return errors.Is(err, lease.ErrHeld)
	}
	a.lock = lock
	return false
}

func (a *alone) leave() {
	if a.lock != nil {
		_ = a.lock.Unlock() // the end of the process does it, too
		a.lock = nil
	}
}

// tellAlone tells all targets that the slate cannot be written, and those again that have not taken it.
func (w *Watcher) tellAlone(ctx context.Context, in *Inputs, now time.Time, fault error) {
	a := &w.alone
	if ctx.Err() != nil || a.told == nil && a.join(in.Facts.Folders) {
		return
	}
	if a.told == nil {
		a.told, a.sent = map[string]*message{}, map[string]bool{}
	}
	is := event{ID: rand.Text(), Kind: Disk, Text: cut(fmt.Sprintf("On %s, the catalog cannot be written, so no run can do its work: %v", here(), fault))}
	for name, t := range in.Targets {
		m := a.told[name]
		if m == nil && t.wants(&is) {
			m = &message{ID: "msg_" + rand.Text(), Target: name, Made: now, Items: []Item{{ID: is.ID, Kind: is.Kind, State: began, Text: is.Text, Began: now}}}
			a.told[name] = m
		}
		if m == nil || a.sent[name] {
			continue
		}
		if err := send(ctx, w.client, &t, m, now); err != nil {
			w.o.Log.Error("cannot notify; trying again while the catalog cannot be written", "target", name, "error", err)
			continue
		}
		a.sent[name] = true
		w.o.Log.Info("notified", "target", name, "events", 1)
	}
}

// ended notes in a slate that can be written again that this is to be told, and reports whether it is.
func (a *alone) ended(s *slate, now time.Time) (changed bool) {
	for name, m := range a.told {
		if a.sent[name] {
			is := m.Items[0]
			is.State, is.Ended = over, now
			s.Messages, changed = append(s.Messages, &message{ID: m.ID + "_over", Target: name, Made: now, Items: []Item{is}}), true
		}
	}
	return changed
}
