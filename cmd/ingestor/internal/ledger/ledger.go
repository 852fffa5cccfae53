package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/open"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

func Command(a *session.Session) *cobra.Command {
	cmd := console.Command("ledger", console.Known, nil)
	cmd.AddCommand(ledgerFreshCommand(a), ledgerBackupCommand(a), ledgerRestoreCommand(a))
	return cmd
}

// afresh is a pool that is taken up as the ledger has it, in JSON.
type afresh struct {
	Pool  string    `json:"pool"`
	Since time.Time `json:"since"`
}

func ledgerFreshCommand(a *session.Session) *cobra.Command {
	var reason string
	cmd := a.Command("fresh --reason TEXT", console.NoArgs, func(cmd *cobra.Command, _ []string) error {
		if err := needReason(reason); err != nil {
			return err
		}
		return a.WithLedger(cmd, func(ctx context.Context, l *quota.Ledger) error { return StartAfresh(ctx, a, l, reason) })
	})
	cmd.Flags().StringVar(&reason, "reason", "", "`text` that says why; it is kept in the spend (required)")
	return cmd
}

// StartAfresh accepts the ledger as it is, and says what that assumes.
func StartAfresh(ctx context.Context, a *session.Session, l *quota.Ledger, reason string) error {
	lost, err := l.View().Forgotten(ctx)
	if err != nil {
		return err
	}
	missing, other, err := overlook(ctx, a, l, reason)
	if err != nil {
		return err
	}
	views := []afresh{}
	for _, pool := range lost {
		if err := l.Admin().Trust(ctx, pool.Pool, reason); err != nil {
			return err
		}
		views = append(views, afresh{pool.Pool.String(), pool.Born.UTC()})
	}
	dropped, err := dropDebts(ctx, a, l)
	if err != nil {
		return err
	}
	return a.Print(views, func(s *console.Sheet) {
		for _, v := range views {
			s.Line("Assumes that nothing was spent of %s since %s, except what the ledger knows.", v.Pool, console.Stamp(v.Since))
		}
		for _, d := range dropped {
			s.Line("Dropped %s units of %s, admitted for the ledger that was here before. To count them here, if what you added did not:", view.Number(d.Units), d.Pool)
			s.Line("  ingestor quota adjust %s %d --reason \"admitted in an outage\"%s", d.Pool, d.Units, a.Loaded.LedgerFlag())
		}
		for _, m := range missing {
			s.Line("Assumes that the %s units which runs have spent since %s, by the catalog, were none.", view.Number(m.Runs-m.Ledger), console.Stamp(m.Since))
		}
		if other {
			s.Line("The fleet now uses the ledger at %s.", open.Shown(a.Loaded.Ledger))
		}
		if len(views)+len(dropped)+len(missing) == 0 && !other {
			s.Line("The ledger has forgotten nothing. Nothing was changed.")
		}
	})
}

// overlook notes that the catalog may know of more spend than the ledger, or of another ledger.
func overlook(ctx context.Context, a *session.Session, l *quota.Ledger, reason string) (all []*session.Shortfall, other bool, err error) {
	if a.Loaded.NoCatalog() != nil {
		return nil, false, nil // there is no history
	}
	var done console.Closers
	defer func() { err = errors.Join(err, done.Close()) }()
	c, err := a.OpenCatalog(ctx, a.Loaded, &done)
	if err != nil {
		return nil, false, err
	}
	if other, err = a.AcceptLedger(ctx, a.Loaded, c); err != nil {
		return nil, false, err
	}
	if all, err = a.Shortfalls(ctx, a.Loaded, l, c); err != nil || len(all) == 0 {
		return nil, other, err
	}
	for _, m := range all {
		for _, name := range slices.Sorted(maps.Keys(l.Book().Upstreams[settings.Metered].Pools)) {
			if err := l.Admin().Trust(ctx, quota.Pool{Upstream: settings.Metered, Account: m.Account, Name: name}, reason); err != nil {
				return nil, other, err
			}
		}
	}
	_, err = a.ChargeTo(ctx, a.Loaded, l, c, true)
	return all, other, err
}

// dropDebts drops the calls that were admitted for another ledger at this address.
func dropDebts(ctx context.Context, a *session.Session, l *quota.Ledger) ([]quota.EntryCharge, error) {
	if a.Opened.Journal == nil {
		return nil, nil
	}
	stray, err := l.View().Strays(ctx)
	for i := range stray {
		if _, err := a.Opened.Journal.Done(ctx, stray[i]); err != nil {
			return nil, err
		}
	}
	return session.UnitsOf(stray), err
}

// ledgerFile is the path of the ledger, which must be in a file.
func ledgerFile(a *session.Session, cmd *cobra.Command, doing, instead string) (*settings.Settings, string, error) {
	s, err := a.Settings(cmd.Flags())
	if err != nil {
		return nil, "", err
	}
	at, err := open.Parse(s.Ledger)
	if err != nil {
		return nil, "", console.Config(err)
	}
	switch at.Scheme {
	case "sqlite":
		return s, at.File, session.Beside(s, at)
	case "memory":
		return nil, "", console.Usage("%s: a ledger in memory ends with its process", doing)
	}
	return nil, "", console.Usage("%s is for a ledger in SQLite; %s", doing, instead)
}

func ledgerBackupCommand(a *session.Session) *cobra.Command {
	return a.Command("backup FILE", oneFile, func(cmd *cobra.Command, args []string) error {
		_, path, err := ledgerFile(a, cmd, "backup", "servers have their own means: redis-cli --rdb FILE, pg_dump")
		if err != nil {
			return err
		}
		if err := sqlitestore.Backup(cmd.Context(), path, args[0]); err != nil {
			return err
		}
		return a.Print(map[string]string{"ledger": path, "backup": args[0]}, func(s *console.Sheet) {
			s.Line("Backed up %s to %s.", path, args[0])
		})
	})
}

func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return console.Usage("%s takes one file; see %s --help", cmd.CommandPath(), cmd.CommandPath())
	}
	return nil
}

// restored is what a ledger that was restored lacks, in JSON.
type restored struct {
	Pool  string    `json:"pool"`
	Since time.Time `json:"since"`           // the backup knows what was spent until then
	Units *int64    `json:"units,omitempty"` // spent since, by the count of the replaced ledger; missing if unknown
}

func ledgerRestoreCommand(a *session.Session) *cobra.Command {
	return a.Command("restore FILE", oneFile, func(cmd *cobra.Command, args []string) error {
		s, path, err := ledgerFile(a, cmd, "restore", "servers have their own means: put the RDB file in the folder of Redis, or use pg_restore")
		if err != nil {
			return err
		}
		ctx := cmd.Context()
		if err := s.MakeState(path); err != nil {
			return console.Config(err)
		}
		seeLedger(ctx, a, s, path)
		lack, err := sqlitestore.Restore(ctx, args[0], path)
		if err != nil {
			return err
		}
		known := map[quota.Pool]int64{}
		for _, l := range lack {
			known[l.Pool] = l.Units
		}
		return a.WithLedger(cmd, func(ctx context.Context, l *quota.Ledger) error {
			lost, err := l.View().Forgotten(ctx)
			if err != nil {
				return err
			}
			views := []restored{}
			for _, pool := range lost {
				v := restored{Pool: pool.Pool.String(), Since: pool.Born.UTC()}
				if units, ok := known[pool.Pool]; ok {
					v.Units = &units
				}
				views = append(views, v)
			}
			return a.Print(views, func(sh *console.Sheet) {
				sh.Line("Restored %s from %s.", path, filepath.Base(args[0]))
				if len(views) == 0 {
					sh.Line("Nothing that may still count is missing.")
					return
				}
				sh.Line("The backup does not know what was spent since then. These pools are refused until you add it:")
				for _, v := range views {
					units := "UNITS"
					if v.Units != nil {
						units = fmt.Sprint(*v.Units)
						sh.Line("  %s: %s units since %s", v.Pool, view.Number(*v.Units), console.Stamp(v.Since))
					} else {
						sh.Line("  %s: units since %s are unknown; see the upstream's console", v.Pool, console.Stamp(v.Since))
					}
					sh.Line("    ingestor quota adjust %s %s --reason \"spent after the backup\"%s", v.Pool, units, s.LedgerFlag())
				}
			})
		})
	})
}

// seeLedger has the journal remember how far the ledger has come before it is replaced.
// One that cannot be read is remembered as far as it was seen before.
func seeLedger(ctx context.Context, a *session.Session, s *settings.Settings, path string) {
	if _, err := os.Stat(path); err != nil {
		return
	}
	var done console.Closers
	l, err := a.OpenLedger(ctx, s, &done)
	if err == nil {
		_, err = l.View().Forgotten(ctx) // it looks at every pool
	}
	if err = errors.Join(err, done.Close()); err != nil {
		fmt.Fprintf(a.Stderr, "ingestor: the ledger that is replaced cannot be read: %s\n", err)
	}
}
