package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/ingest/plan"
	"github.com/headroom-quota/headroom/internal/shell"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/open"
)

// UnitsOf returns what calls in the journal cost, by pool.
func UnitsOf(calls []quota.Entry) (all []quota.EntryCharge) {
	for i := range calls {
		for n, c := range calls[i].Charges {
			if calls[i].Settled != nil {
				c.Units = calls[i].Settled[n]
			}
			at := slices.IndexFunc(all, func(e quota.EntryCharge) bool { return e.Pool == c.Pool })
			if at < 0 {
				at, all = len(all), append(all, quota.EntryCharge{Pool: c.Pool})
			}
			all[at].Units += c.Units
		}
	}
	return slices.DeleteFunc(all, func(e quota.EntryCharge) bool { return e.Units == 0 }) // of blocks
}

// OpenLedger opens the ledger that the settings name.
func (a *Session) OpenLedger(ctx context.Context, s *settings.Settings, done *console.Closers) (*quota.Ledger, error) {
	at, err := open.Parse(s.Ledger)
	if err == nil && at.Scheme == "sqlite" {
		if err := Beside(s, at); err != nil {
			return nil, err
		}
		err = s.MakeState(at.File)
	}
	if err != nil {
		return nil, unopened(err, console.ExitDown)
	}
	a.Opened, err = open.Open(ctx, s.LedgerAddress(), &open.Options{
		Book: s.Book, Clock: a.Clock, Observer: a.Observer, State: s.State, Fresh: s.Fresh, Allowance: s.Allowance(), Flag: s.LedgerFlag(), Logger: a.Log,
	})
	if err != nil {
		return nil, unopened(err, console.ExitDown)
	}
	done.Add(a.Opened.Close)
	return a.Opened.Ledger, nil
}

// OpenBoth opens the ledger and the catalog. If a disk lacks room to change an older schema, it changes neither: an older
// program could not use the one that was changed.
func (a *Session) OpenBoth(ctx context.Context, s *settings.Settings, done *console.Closers) (*quota.Ledger, AnyCatalog, error) {
	if err := changeable(ctx, s); err != nil {
		return nil, nil, err
	}
	l, err := a.OpenLedger(ctx, s, done)
	if err != nil {
		return nil, nil, err
	}
	c, err := a.OpenCatalog(ctx, s, done)
	return l, c, err
}

// changeable returns why the files with an older schema cannot be changed, or nil.
func changeable(ctx context.Context, s *settings.Settings) error {
	err := sqlitefile.Fits(olderFiles(ctx, s)...)
	if sqlitefile.ReadOnly(err) {
		return unopened(err, console.ExitDown)
	}
	return unopened(err, console.ExitFailed)
}

// olderFiles returns the files whose schema is older. The ledger is among them with its journal.
func olderFiles(ctx context.Context, s *settings.Settings) (paths []string) {
	if at, err := open.Parse(s.Ledger); err == nil {
		if _, older, err := at.Older(ctx); err == nil && older {
			beside, _ := at.Journal("")
			paths = append(paths, at.File, beside)
		}
	}
	if _, older, err := catalog.Older(ctx, s.Catalog); err == nil && older && s.Database == "" {
		paths = append(paths, s.Catalog)
	}
	return paths
}

// unopened is a file that could not be opened, as the exit code ill says if it or the
// disk is in a bad way; else it is the wrong one, and the configuration's fault.
func unopened(err error, ill int) error {
	if sqlitefile.Ailing(err) || sqlitefile.ReadOnly(err) {
		return &console.Exit{Code: ill, Err: err}
	}
	return console.Config(err)
}

// Instead says that a command which reads a file was given something else in its place.
type Instead struct {
	Why   string // and what changes it
	Fault error  // why the file cannot be used, or nil
}

// warn prints why, unless the file itself is read: then i is nil. An error says more.
func (i *Instead) warn(a *Session, err error) {
	if i != nil && err == nil {
		fmt.Fprintf(a.Stderr, "ingestor: warning: %s\n", i.Why)
	}
}

// ReadLedger opens the ledger for a command that only reads. It makes no ledger, and changes no
// schema. If there is no file, an empty ledger in memory is read. If the file has an older schema, is
// busy, or cannot be written, a copy of it is.
func (a *Session) ReadLedger(ctx context.Context, s *settings.Settings, done *console.Closers) (*quota.Ledger, *Instead, error) {
	at, err := open.Parse(s.Ledger)
	if err != nil || at.Scheme != "sqlite" || lost(at) {
		l, err := a.OpenLedger(ctx, s, done)
		return l, nil, err
	}
	instead, err := a.instead(ctx, s, "ledger", at.File, func() (int64, bool, error) { return at.Older(ctx) }, func() error {
		_, err := a.OpenLedger(ctx, s, done)
		return err
	})
	if instead == nil {
		if err != nil {
			return nil, nil, err
		}
		return a.Opened.Ledger, nil, nil
	}
	var store quota.Store
	if errors.Is(instead.Fault, fs.ErrNotExist) {
		instead.Fault = nil
		if service := Service(s); service != "" {
			instead.Why = "there is no ledger at " + at.File + ", so an empty one is shown\n" + service
		} else {
			instead.Why += ", and assumes that nothing was spent today\nIf that is wrong: ingestor quota adjust POOL UNITS --reason TEXT" + s.LedgerFlag()
		}
		store, _, err = open.Store(ctx, "memory:", a.Clock)
	} else {
		store, err = CopyOfLedger(ctx, at.File, a.Clock, done)
	}
	if err != nil {
		return nil, nil, cmp.Or(instead.Fault, err)
	}
	l, err := quota.New(s.Book, store, &quota.Options{Clock: a.Clock})
	return l, instead, err
}

// lost reports whether the file of a ledger is missing, and its journal is not. The journal then
// knows which pools have lost their counts.
func lost(at *open.Address) bool {
	beside, err := at.Journal("")
	return err == nil && empty(at.File) && exists(beside)
}

// empty reports whether a file is missing, or one that nothing was written to: the first run makes
// one of it.
func empty(path string) bool {
	info, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0
}

// CopyOfLedger opens a copy of the ledger in a file, which it does not change. If there is no
// ledger, the error is fs.ErrNotExist.
func CopyOfLedger(ctx context.Context, path string, clock quota.Clock, done *console.Closers) (quota.Store, error) {
	to, err := copied(ctx, "ledger", path, done)
	if err != nil {
		return nil, err
	}
	store, closer, err := open.Store(ctx, "sqlite:"+to, clock)
	if err == nil {
		done.Add(closer)
	}
	return store, err
}

// ReadCatalog opens the catalog for a command that only reads. It changes no schema of a file. If
// the file has an older one, is busy, or cannot be written, it opens a copy.
func (a *Session) ReadCatalog(ctx context.Context, s *settings.Settings, done *console.Closers) (c AnyCatalog, _ *Instead, err error) {
	if s.Database != "" {
		c, err := a.OpenCatalog(ctx, s, done)
		return c, nil, err
	}
	instead, err := a.instead(ctx, s, "catalog", s.Catalog, func() (int64, bool, error) { return catalog.Older(ctx, s.Catalog) }, func() (err error) {
		c, err = a.OpenCatalog(ctx, s, done)
		return err
	})
	if instead == nil {
		return c, nil, err
	}
	if errors.Is(instead.Fault, fs.ErrNotExist) {
		instead.Fault = nil
	}
	to, err := copied(ctx, "catalog", s.Catalog, done)
	if err != nil {
		return nil, nil, cmp.Or(instead.Fault, err)
	}
	file, err := catalog.Open(ctx, to, &catalog.Options{Clock: a.Clock})
	if err != nil {
		return nil, nil, err
	}
	done.Add(file.Close)
	return file, instead, nil
}

// heldFor is how long a command that only reads waits for those who write.
const heldFor = 300 * time.Millisecond

// instead opens a file, unless it is missing, has an older schema, or is busy. It returns why another one
// has to be read in its place, or nil. The fault of a missing file is fs.ErrNotExist.
func (a *Session) instead(ctx context.Context, s *settings.Settings, what, path string, older func() (int64, bool, error), opening func() error) (*Instead, error) {
	if a.denied == nil {
		a.denied = map[string]error{}
	}
	delete(a.denied, what)
	if empty(path) {
		return &Instead{Why: fmt.Sprintf("there is no %s at %s yet; the first run makes it", what, path), Fault: fs.ErrNotExist}, nil
	}
	schema, is, err := older()
	switch {
	case sqlitefile.Busy(err):
		return nil, unopened(fmt.Errorf("read %s: %w", path, err), console.ExitDown)
	case err == nil && is: // other errors say more when it is opened
		i := &Instead{Why: OlderSchema(what, path, schema), Fault: changeable(ctx, s)}
		if a.denied[what] = i.Fault; i.Fault != nil {
			i.Why += "\nThat is refused now: " + i.Fault.Error()
		}
		return i, nil
	}
	if !a.Tests {
		if held := sqlitefile.Held(ctx, path, heldFor); held != nil {
			return &Instead{Why: fmt.Sprintf("the %s cannot be written now, so this is read from a copy: %v", what, held)}, nil
		}
	}
	err = opening()
	if !sqlitefile.Unwritable(err) {
		return nil, err
	}
	a.denied[what] = err
	return &Instead{Why: fmt.Sprintf("the %s cannot be written here, so this is read from a copy: %v", what, err), Fault: err}, nil
}

// OlderSchema says that a copy of a file with an older schema is read.
func OlderSchema(what, path string, schema int64) string {
	return fmt.Sprintf("the %s %s has the older schema %d, which reading does not change; this is read from a copy\nTo bring it up to date, after a copy is kept beside it: ingestor run, or ingestor serve", what, path, schema)
}

// copied copies a file of SQLite to where it costs no disk, if there is such a place.
func copied(ctx context.Context, what, path string, done *console.Closers) (string, error) {
	const memory = "/dev/shm"
	in := ""
	if info, err := os.Stat(path); err == nil {
		if room, known := sqlitefile.Room(memory); known && room > 4*info.Size() {
			in = memory
		}
	}
	dir, err := os.MkdirTemp(in, "ingestor-")
	if err != nil {
		return "", err
	}
	done.Add(func() error { return os.RemoveAll(dir) })
	signal.Ignore(syscall.SIGPIPE)                     // or the copy would stay if a pager ends first
	to := filepath.Join(dir, what+".db.schema-0.part") // no copy is kept of a file with such a name
	if err := sqlitefile.Snapshot(ctx, path, to); err != nil {
		return "", fmt.Errorf("copy the %s %s: %w", what, path, err)
	}
	return to, nil
}

// noCatalog is [settings.Settings.NoCatalog] for a user who may look for that of the service.
func noCatalog(s *settings.Settings) error {
	err := s.NoCatalog()
	if service := Service(s); err != nil && service != "" {
		return fmt.Errorf("there is no catalog at %s\n%s", s.Catalog, service)
	}
	return err
}

// AnyCatalog is a catalog: a file, or tables of PostgreSQL.
type AnyCatalog interface {
	ingest.Catalog
	view.Catalog
	Path() string

	// ChargeTo notes which ledger runs are charged to.
	ChargeTo(ctx context.Context, address string, forget bool) (since time.Time, err error)

	// Damage.
	Check(ctx context.Context) (problems []string, err error)
	Rebuild(ctx context.Context) error
}

var (
	_ AnyCatalog = (*catalog.Catalog)(nil)
	_ AnyCatalog = (*pgcatalog.Catalog)(nil)
)

// OpenCatalog opens the catalog.
func (a *Session) OpenCatalog(ctx context.Context, s *settings.Settings, done *console.Closers) (AnyCatalog, error) {
	if s.Database != "" {
		c, err := pgcatalog.Open(ctx, s.Database, &pgcatalog.Options{Clock: a.Clock, Conns: s.Workers + spareConns})
		if err != nil {
			return nil, UnopenedDatabase(err)
		}
		done.Add(c.Close)
		return c, nil
	}
	if err := s.MakeState(s.Catalog); err != nil {
		return nil, unopened(err, console.ExitFailed)
	}
	c, err := catalog.Open(ctx, s.Catalog, &catalog.Options{Clock: a.Clock})
	if err != nil {
		return nil, unopened(err, console.ExitFailed)
	}
	done.Add(c.Close)
	if kept := c.Kept(); kept != "" {
		a.Log.Info("the catalog has a newer schema now; a copy from before is kept until its oldest data has to go", "copy", kept)
	}
	return c, nil
}

// spareConns are connections for everything but the work itself: the queue, the clock, and
// signs of life.
const spareConns = 6

// UnopenedDatabase is a database that could not be opened. It is down, or the server refused
// us, which is the configuration's fault.
func UnopenedDatabase(err error) error {
	if pgcatalog.Refused(err) {
		return console.Config(err)
	}
	return &console.Exit{Code: console.ExitDown, Err: Unanswered{err}}
}

// unread is an error of the catalog, which may be in a database.
func unread(s *settings.Settings, err error) error {
	if _, coded := errors.AsType[*console.Exit](err); coded || s.Database == "" {
		return err
	}
	return UnopenedDatabase(err)
}

// Rights returns an error if the database denies us a right that the catalog needs.
func Rights(ctx context.Context, s *settings.Settings) error {
	if s.Database == "" {
		return nil
	}
	missing, err := pgcatalog.Missing(ctx, s.Database, pgcatalog.Schema, fleet.Schema)
	return Granted(s, missing, err)
}

// Granted returns an error if rights are missing.
func Granted(s *settings.Settings, missing []string, err error) error {
	if err != nil {
		return UnopenedDatabase(err)
	}
	if len(missing) == 0 {
		return nil
	}
	where := "the database"
	if at, err := url.Parse(s.Database); err == nil { // not with several hosts
		where = at.Scheme + "://" + at.Host + at.Path
	}
	return console.Config(fmt.Errorf("the user of %s lacks rights\nAs the owner of the database, type in psql:\n  %s", where, strings.Join(missing, "\n  ")))
}

// Inspect calls read with the catalog, which it does not change. If the file has an older schema, it calls read with a
// copy, and older says so. If no catalog exists, the error is fs.ErrNotExist.
func (a *Session) Inspect(ctx context.Context, s *settings.Settings, read func(plan.Source) error) (older *Instead, err error) {
	if s.Database != "" {
		return nil, pgcatalog.Inspect(ctx, s.Database, func(c *pgcatalog.Catalog) error { return read(c) })
	}
	if _, is, err := catalog.Older(ctx, s.Catalog); err != nil || !is { // if it cannot be read, Inspect says why
		return nil, catalog.Inspect(ctx, s.Catalog, func(c *catalog.Catalog) error { return read(c) })
	}
	var done console.Closers
	defer func() { err = errors.Join(err, done.Close()) }()
	c, older, err := a.ReadCatalog(ctx, s, &done)
	if err != nil {
		return nil, err
	}
	return older, read(c)
}

// Unanswered is the error of a database that may answer later.
type Unanswered struct{ error }

func (u Unanswered) Unwrap() error { return u.error }

// OpenBoard returns the board of the fleet, or nil if the catalog is a file.
func OpenBoard(ctx context.Context, c AnyCatalog) (*fleet.Board, error) {
	shared, ok := c.(*pgcatalog.Catalog)
	if !ok {
		return nil, nil //nolint:nilnil // there is none
	}
	board, err := fleet.NewBoard(shared)
	if err != nil {
		return nil, err
	}
	if err := board.Migrate(ctx); err != nil {
		return nil, UnopenedDatabase(err)
	}
	return board, nil
}

// The socket of the service of the system's package, and its ledger.
const (
	serviceSocket = "/run/ingestor/quota.sock"
	serviceLedger = "/var/lib/ingestor/ledger.db"
	serviceConfig = "/etc/ingestor/ingestor.yaml" // found by who edits it there, and names no ledger of theirs
)

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// named reports whether a user has named a ledger or a catalog, or has a configuration.
func named(s *settings.Settings) bool {
	given := func(key string) bool {
		return !slices.Contains([]string{settings.FromDefault, settings.FromFile}, s.Source(key))
	}
	return s.File != "" && s.File != serviceConfig || s.Source("ledger") != settings.FromDefault || given("catalog") || given("database")
}

// Service says how to use the files of the service on this machine, if it answers, to a user who has named none. Otherwise
// it is empty. A service makes its files before it answers, so a file that is missing after this call is not one of them.
func Service(s *settings.Settings) string {
	at := cmp.Or(s.Socket, serviceSocket)
	if named(s) || s.State == filepath.Dir(serviceLedger) {
		return ""
	}
	c, err := net.DialTimeout("unix", at, time.Second)
	if err != nil {
		return ""
	}
	_ = c.Close() // nothing was asked
	if at != serviceSocket {
		return "A service answers at " + at + ". To use its files, name them: --ledger, --catalog or --config"
	}
	words := []string{"runuser", "-u", "ingestor", "--", "env", "XDG_STATE_HOME=" + filepath.Dir(filepath.Dir(serviceLedger)), "INGESTOR_CONFIG=" + serviceConfig, "ingestor"}
	if os.Geteuid() != 0 {
		words = append([]string{"sudo"}, words...)
	}
	for _, arg := range os.Args[1:] {
		words = append(words, shell.Quote(arg))
	}
	return "A service answers at " + at + ". To use its files: " + strings.Join(words, " ")
}

// Beside refuses to make a ledger for a user who has none and has named none, where the service answers: from then on it
// would be shown instead of the service's.
func Beside(s *settings.Settings, at *open.Address) error {
	if service := Service(s); service != "" && !exists(at.File) && !lost(at) {
		return console.Usage("there is no ledger at %s\n%s\nTo make your own, add:%s", at.File, service, s.LedgerFlag())
	}
	return nil
}

// AskService asks the service on this machine for its pools and its verdict, for a user who has no ledger and has
// named none. If there is nobody to ask, the error is fs.ErrNotExist.
func (a *Session) AskService(ctx context.Context, s *settings.Settings) (is *verdict.Standing, at string, err error) {
	at = cmp.Or(s.Socket, serviceSocket)
	if named(s) {
		return nil, at, fs.ErrNotExist
	}
	if _, err := os.Stat(s.LedgerFile()); !errors.Is(err, fs.ErrNotExist) {
		return nil, at, fs.ErrNotExist
	}
	switch _, err := os.Lstat(at); {
	case !errors.Is(err, fs.ErrNotExist):
	case s.Socket == "" && exists(serviceLedger):
		return nil, at, &console.Exit{Code: console.ExitDown, Err: errors.New("you have no ledger, and the service does not run\nTo start it: systemctl start ingestor-serve")}
	default:
		return nil, at, fs.ErrNotExist
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", at)
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/api/v1/quota", nil)
	if err != nil {
		return nil, at, err
	}
	resp, err := client.Do(req)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, at, &console.Exit{Code: console.ExitConfig, Err: fmt.Errorf("you have no ledger, and the service's is for root and its group: %s\nTo read it: sudo ingestor quota\nOr, once: sudo usermod -aG ingestor $USER, and log in again", at)}
	case err != nil:
		return nil, at, &console.Exit{Code: console.ExitDown, Err: fmt.Errorf("the service does not answer: %w\nTo start it: systemctl start ingestor-serve", err)}
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	is = &verdict.Standing{}
	if err = json.NewDecoder(resp.Body).Decode(is); err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	if err != nil {
		return nil, at, &console.Exit{Code: console.ExitDown, Err: fmt.Errorf("the service at %s cannot say what is left: %w\nTo see why: journalctl -u ingestor-serve", at, err)}
	}
	return is, at, nil
}
