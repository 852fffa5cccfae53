package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota/open"
)

func CatalogCommand(a *session.Session) *cobra.Command {
	cmd := console.Command("catalog", console.Known, nil)
	cmd.AddCommand(catalogCopyCommand(a))
	return cmd
}

func catalogCopyCommand(a *session.Session) *cobra.Command {
	var from, to string
	cmd := a.Command("copy --from FILE --to URL", console.NoArgs, a.WithSettings(func(cmd *cobra.Command, _ []string, s *settings.Settings) error {
		if settings.IsDatabase(from) {
			return copyCatalog(cmd.Context(), a, from, cmp.Or(to, s.Catalog))
		}
		if to = cmp.Or(to, s.Database); to == "" {
			return console.Usage("--to is missing: the URL of a PostgreSQL database, as postgres://user@host/database")
		}
		return copyCatalog(cmd.Context(), a, cmp.Or(from, s.Catalog), to)
	}))
	cmd.Flags().StringVar(&from, "from", "", "SQLite `file` to copy, or PostgreSQL URL (default the catalog of the settings)")
	cmd.Flags().StringVar(&to, "to", "", "PostgreSQL `URL` to copy to (default the database of the settings), or a new file")
	cmd.Flags().BoolVarP(&a.Quiet, "quiet", "q", false, "show no progress")
	return cmd
}

// copiedView is the result of ingestor catalog copy, in JSON.
type copiedView struct {
	From string           `json:"from"`
	To   string           `json:"to"`
	Rows map[string]int64 `json:"rows"` // by table
}

// copyCatalog copies a file into a database, or back, and shows the progress.
func copyCatalog(ctx context.Context, a *session.Session, from, to string) (err error) {
	back := settings.IsDatabase(from)
	file, in, holds := &from, "", "" // the database knows a broken copy by the whole path of the file
	if back {
		file, in, holds = &to, "in ", "\nTo name a new file: ingestor catalog copy --from URL --to FILE"
	}
	if *file, err = filepath.Abs(*file); err != nil {
		return err
	}
	v := copiedView{From: from, To: open.Shown(to)}
	if back {
		v.From, v.To = open.Shown(from), to
	}
	err = watching(a, func(tell func(ingest.Progress)) error {
		told := func(p catalog.Copied) {
			told := ingest.Progress{Job: "copy", Work: p.Table, Works: len(catalog.Tables), Pages: p.Left}
			if tell(told); p.Left == 1 {
				told.Ended = &ingest.WorkReport{Work: p.Table, State: catalog.Done}
				tell(told)
			}
		}
		if back {
			return pgcatalog.Inspect(ctx, from, func(c *pgcatalog.Catalog) (err error) {
				v.Rows, err = catalog.Copy(ctx, c, to, told)
				return err
			})
		}
		return catalog.Inspect(ctx, from, func(c *catalog.Catalog) (err error) {
			v.Rows, err = pgcatalog.Copy(ctx, c, to, told)
			return err
		})
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return console.Usage("--from: there is no catalog %s%s", in, v.From)
	case errors.Is(err, catalog.ErrHolds):
		return console.Config(fmt.Errorf("%w%s", err, holds))
	case err != nil:
		return session.UnopenedDatabase(err)
	}
	return a.Print(v, func(s *console.Sheet) {
		s.Line("Copied %s: %s videos, %s channels, %s cursors, %s runs.", v.From,
			view.Number(v.Rows["videos"]), view.Number(v.Rows["channels"]), view.Number(v.Rows["cursors"]), view.Number(v.Rows["runs"]))
		if back {
			s.Line("To use it, remove database from ingestor.yaml, and write into it:")
			s.Line("  catalog: %s", to)
			return
		}
		s.Line("To use it, write into ingestor.yaml:")
		s.Line("  database: %s", withoutPassword(to))
		if withoutPassword(to) != to {
			s.Line("and the password into ~/.pgpass, or the whole URL into INGESTOR_DATABASE.")
		}
	})
}

func withoutPassword(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return open.Shown(address)
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	q := u.Query()
	if q.Has("password") {
		q.Del("password")
		u.RawQuery = q.Encode()
	}
	return u.String()
}

func DoctorCommand(a *session.Session) *cobra.Command {
	var repair bool
	cmd := a.Command("doctor", console.NoArgs, a.WithSettings(func(cmd *cobra.Command, _ []string, s *settings.Settings) (err error) {
		var d diagnosis
		asItIs := func(why string) error {
			fmt.Fprintf(a.Stderr, "ingestor: warning: %s\n", why)
			return catalog.Inspect(cmd.Context(), s.Catalog, func(c *catalog.Catalog) error { return d.examine(cmd.Context(), c, false) })
		}
		schema, older, unread := catalog.Older(cmd.Context(), s.Catalog)
		if unread == nil && older && !repair && s.Database == "" {
			err = asItIs(fmt.Sprintf("the catalog %s has the older schema %d, so its search index is not compared with the videos\n"+
				"To bring it up to date, after a copy is kept beside it: ingestor run, or ingestor serve", s.Catalog, schema))
		} else {
			err = a.WithCatalog(cmd, func(ctx context.Context, c session.AnyCatalog) error { return d.examine(ctx, c, repair) })
			if !repair && s.Database == "" && (sqlitefile.Unwritable(err) || sqlitefile.Busy(err) || sqlitefile.Full(err)) {
				err = asItIs(fmt.Sprintf("the catalog cannot be written, so its search index is not compared with the videos: %v", err))
			}
		}
		if err != nil {
			return err
		}
		if err := a.Print(&d, func(s *console.Sheet) {
			if d.Repaired {
				s.Line("The search index was rebuilt.")
			}
			for _, p := range d.Problems {
				s.Line("%s", console.Plain(p))
			}
			if len(d.Problems) == 0 {
				s.Line("%s: no damage was found.", d.Catalog)
			}
		}); err != nil {
			return err
		}
		switch {
		case len(d.Problems) == 0:
			return nil
		case repair:
			return fmt.Errorf("%s is damaged beyond its search index\nStop all runs, then restore a backup, or move the file away and fetch the data again", d.Catalog)
		}
		return fmt.Errorf("%s is damaged\nTo rebuild its search index: ingestor doctor --repair", d.Catalog)
	}))
	cmd.Flags().BoolVar(&repair, "repair", false, "rebuild the search index")
	return cmd
}

// diagnosis is the result of ingestor doctor, in JSON.
type diagnosis struct {
	Catalog  string   `json:"catalog"`
	Repaired bool     `json:"repaired"` // the search index was rebuilt
	Problems []string `json:"problems"`
}

func (d *diagnosis) examine(ctx context.Context, c session.AnyCatalog, repair bool) error {
	*d = diagnosis{Catalog: c.Path(), Problems: []string{}}
	if repair {
		switch err := c.Rebuild(ctx); {
		case err == nil:
			d.Repaired = true
		case sqlitefile.Damaged(err): // the file itself is damaged
			d.Problems = append(d.Problems, err.Error())
		default:
			return err
		}
	}
	problems, err := c.Check(ctx)
	if err != nil {
		return err
	}
	d.Problems = append(d.Problems, problems...)
	return nil
}
