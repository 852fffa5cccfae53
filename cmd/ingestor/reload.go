package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"reflect"
	"sync"
	"syscall"
)

// onHangup is the help text about SIGHUP, for commands that keep running.
const onHangup = `SIGHUP reloads the price book and the configuration, with the same flags and
environment. An invalid file is rejected and logged with its place, and the old settings
stay in force. The same happens to changes that need a restart: the addresses of ledger,
catalog and endpoint, the log, where a server listens, and which keys a proxy has. Calls
and runs are not interrupted. A run that has started keeps its settings and uses the new
prices.`

// hangups receives SIGHUP, which asks to reload the settings. Signals that arrive during a
// reload count as one.
type hangups chan os.Signal

// listenForHangups starts to receive SIGHUP. Call it before anything is opened: until then
// the signal ends the process.
func listenForHangups() hangups {
	h := make(hangups, 1)
	signal.Notify(h, syscall.SIGHUP)
	return h
}

// raise asks for a reload, as a signal does.
func (h hangups) raise() {
	select {
	case h <- syscall.SIGHUP:
	default: // one is asked for already
	}
}

func (h hangups) stop() { signal.Stop(h) }

// reload loads the settings at each signal and hands them to take, until the returned
// function is called. If server is true, the settings of the server need a restart, too.
func (h hangups) reload(ctx context.Context, a *app, s *settings, server bool, take func(context.Context, *settings) error) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-h:
			}
			next, err := a.reread(s, server)
			if err == nil {
				err = take(ctx, next)
			}
			if ctx.Err() != nil {
				return // the program was told to stop meanwhile
			}
			if err != nil {
				a.log.Error("not reloaded: the old settings stay in force", "error", err)
				continue
			}
			s = next
			a.log.Info("reloaded", "config", mark(s.file, fingerprint(s.text)), "costs", mark(cmp.Or(s.Costs, "built in"), fingerprint(s.book.Format())))
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

// reread loads the settings again. It returns an error if they cannot replace the old
// ones.
func (a *app) reread(old *settings, server bool) (*settings, error) {
	next, err := load(a.configPath, old.flags)
	if err != nil {
		return nil, err
	}
	if next.file != old.file {
		return nil, fmt.Errorf("the configuration was %s and would be %s\nTo use the new one, restart the program", cmp.Or(old.file, "none"), cmp.Or(next.file, "none"))
	}
	var changed []error
	for _, set := range allSettings {
		if set.restart && (server || set.group != forServers) && !reflect.DeepEqual(set.value(next), set.value(old)) {
			changed = append(changed, fmt.Errorf("%s has changed\nTo use the new value, restart the program, or restore the old one", set.key))
		}
	}
	if err := next.book.Follows(old.book); err != nil {
		changed = append(changed, fmt.Errorf("%s: %w", cmp.Or(next.Costs, "the built-in price book"), err))
	}
	return next, errors.Join(changed...)
}
