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

// onHangup is what the help of those who stay says of it.
const onHangup = `SIGHUP reloads the price book and the configuration, with the same flags and
environment. An invalid file is rejected and logged with its place, and the old settings
stay in force. The same happens to changes that need a restart: the addresses of ledger,
catalog and endpoint, the log, and where a server listens. Calls and runs are not
interrupted. A run that has started keeps its settings and uses the new prices.`

// hangups are the signals that ask to read the settings again. Those that come while
// that is done are one.
type hangups chan os.Signal

// listenForHangups is to be asked before anything is opened: until then the signal ends
// the process.
func listenForHangups() hangups {
	h := make(hangups, 1)
	signal.Notify(h, syscall.SIGHUP)
	return h
}

func (h hangups) stop() { signal.Stop(h) }

// reload has new settings taken at each signal, until the function that it returns is
// called. Server says that the settings of the server cannot change either.
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
				return // told to leave meanwhile
			}
			if err != nil {
				a.log.Error("not reloaded: what was in force stays", "error", err)
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

// reread reads the settings again and refuses those that cannot take the place of the
// old ones.
func (a *app) reread(old *settings, server bool) (*settings, error) {
	next, err := load(a.configPath, old.flags)
	if err != nil {
		return nil, err
	}
	if next.file != old.file {
		return nil, fmt.Errorf("the configuration was %s and would be %s: restart for that", cmp.Or(old.file, "none"), cmp.Or(next.file, "none"))
	}
	var changed []error
	for _, set := range allSettings {
		if set.restart && (server || !set.server) && !reflect.DeepEqual(set.value(next), set.value(old)) {
			changed = append(changed, fmt.Errorf("%s has changed: restart for that, or set it back", set.key))
		}
	}
	if err := next.book.Follows(old.book); err != nil {
		changed = append(changed, fmt.Errorf("%s: %w", cmp.Or(next.Costs, "the built-in price book"), err))
	}
	return next, errors.Join(changed...)
}
