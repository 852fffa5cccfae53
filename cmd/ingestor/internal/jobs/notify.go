package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/notify"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
)

// How long a process that ends waits for pings, and one that ends its runs for its ledger and for targets.
const (
	lastWords = 5 * time.Second
	lastLook  = 30 * time.Second
)

// watcher returns what tells people of the ledger and the jobs, by the settings in force.
func watcher(a *session.Session, once bool, inForce func() *works) *notify.Watcher {
	first := inForce()
	facts := first.settings.Facts(first.clock)
	return notify.New(first.catalog, func() notify.Inputs {
		w := inForce()
		src := w.sources()
		return notify.Inputs{Targets: w.settings.Notify, Sources: &src, Facts: facts}
	}, &notify.Options{Clock: first.clock, Log: a.Log, Once: once})
}

// lookOnce tells people what needs them after runs. A program that has been told to stop does so, too.
func lookOnce(ctx context.Context, a *session.Session, w *works) {
	if len(w.settings.Notify) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	watcher(a, true, func() *works { return w }).Look(ctx)
}

func NotifyCommand(a *session.Session) *cobra.Command {
	cmd := a.Command("notify", console.Known, a.WithSettings(func(cmd *cobra.Command, _ []string, s *settings.Settings) error {
		if len(s.Notify) == 0 {
			none := notify.Shown{Events: []notify.Item{}, Waiting: []string{}}
			return a.Print(none, func(s *console.Sheet) {
				s.Line("Nobody is notified, because the setting notify is empty. docs/operations.md has an example.")
			})
		}
		return a.WithCatalogToRead(cmd, func(ctx context.Context, c session.AnyCatalog) error {
			shown, err := notify.Show(ctx, c)
			if err != nil {
				return err
			}
			return a.Print(shown, func(s *console.Sheet) {
				s.Line("Targets: %s.", strings.Join(slices.Sorted(maps.Keys(a.Loaded.Notify)), ", "))
				if len(shown.Events) == 0 {
					s.Line("No event is noted as under way.")
				}
				for _, e := range shown.Events {
					s.Line("\n%s  %s\n%s", e.Began.UTC().Format("2006-01-02 15:04 MST"), e.Kind, e.Text)
				}
				for _, w := range shown.Waiting {
					s.Line("\nNot arrived yet at %s", w)
				}
			})
		})
	}))
	cmd.AddCommand(console.Command("test [TARGET]", console.Takes(0, 1, "a target"), a.WithSettings(func(cmd *cobra.Command, args []string, s *settings.Settings) error {
		names := slices.Sorted(maps.Keys(s.Notify))
		if len(names) == 0 {
			return console.Config(errors.New("the setting notify is empty\nName a target in ingestor.yaml, as notify: {ops: {webhook: https://alerts.example.com/hook}}"))
		}
		if len(args) > 0 {
			if !slices.Contains(names, args[0]) {
				return console.Usage("there is no target %q; there are %s", args[0], strings.Join(names, ", "))
			}
			names = args
		}
		var failed error
		for _, name := range names {
			t := s.Notify[name]
			if err := notify.Test(cmd.Context(), &t, a.Now()); err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", name, err))
				continue
			}
			fmt.Fprintf(a.Stdout, "%s: the test has arrived\n", name)
		}
		return failed
	})))
	return cmd
}
