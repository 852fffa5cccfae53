package session

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"reflect"
	"syscall"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
)

// Fingerprint returns a short hash, for people to compare.
func Fingerprint(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:12]
}

// Mark joins the name of an input and its fingerprint, if it has one.
func Mark(what, print string) string {
	if print == "" {
		return what
	}
	return what + " " + print
}

// Hangups receives SIGHUP, which asks to reload the settings. Signals that arrive during a
// reload count as one.
type Hangups chan os.Signal

// ListenForHangups starts to receive SIGHUP. Call it before anything is opened: until then
// the signal ends the process.
func ListenForHangups() Hangups {
	h := make(Hangups, 1)
	signal.Notify(h, syscall.SIGHUP)
	return h
}

// Raise asks for a reload, as a signal does.
func (h Hangups) Raise() {
	select {
	case h <- syscall.SIGHUP:
	default: // one is asked for already
	}
}

// Stop ends receiving the signal.
func (h Hangups) Stop() { signal.Stop(h) }

// Reload loads the settings at each signal and hands them to take, until done is closed. If
// server is true, the settings of the server need a restart, too.
func (h Hangups) Reload(ctx context.Context, a *Session, s *settings.Settings, server bool, done *console.Closers, take func(context.Context, *settings.Settings) error) {
	done.Go(ctx, func(ctx context.Context) {
		for {
			select {
			case <-ctx.Done():
				return
			case <-h:
			}
			next, err := a.Reread(s, server)
			if err == nil {
				err = take(ctx, next)
			}
			if ctx.Err() != nil {
				return // the program was told to stop meanwhile
			}
			if err != nil {
				a.Log.Error("not reloaded: the old settings stay in force", "error", err)
				continue
			}
			s = next
			a.Log.Info("reloaded", "config", Mark(s.File, Fingerprint(s.Text)), "costs", Mark(cmp.Or(s.Costs, "built in"), Fingerprint(s.Book.Format())))
		}
	})
}

// Reread loads the settings again. It returns an error if they cannot replace the old
// ones.
func (a *Session) Reread(old *settings.Settings, server bool) (*settings.Settings, error) {
	next, err := settings.Load(a.ConfigPath, old.Flags)
	if err != nil {
		return nil, err
	}
	if next.File != old.File {
		return nil, fmt.Errorf("the configuration was %s and would be %s\nTo use the new one, restart the program", cmp.Or(old.File, "none"), cmp.Or(next.File, "none"))
	}
	var changed []error
	for _, set := range settings.AllSettings {
		if set.Restart && (server || set.Group != settings.ForServers) && !reflect.DeepEqual(set.Value(next), set.Value(old)) {
			changed = append(changed, fmt.Errorf("%s has changed\nTo use the new value, restart the program, or restore the old one", set.Key))
		}
	}
	if err := next.Book.Follows(old.Book); err != nil {
		changed = append(changed, fmt.Errorf("%s: %w", cmp.Or(next.Costs, "the built-in price book"), err))
	}
	return next, errors.Join(changed...)
}
