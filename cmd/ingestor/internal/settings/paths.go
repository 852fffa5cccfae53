package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/notify"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/internal/shell"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/open"
)

// NoCatalog returns an error if there is no catalog yet. A database makes its tables when it
// is opened.
func (s *Settings) NoCatalog() error {
	if s.Database != "" {
		return nil
	}
	if _, err := os.Stat(s.Catalog); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no catalog at %s yet\nTo fetch data into it: ingestor run --once%s", s.Catalog, s.Typed())
	}
	return nil
}

// LedgerFile is the file of the ledger, or "" if it is in none.
func (s *Settings) LedgerFile() string {
	at, err := open.Parse(s.Ledger)
	if err != nil {
		return ""
	}
	return at.File
}

// IsDatabase reports whether a text is the URL of a database.
func IsDatabase(s string) bool {
	return strings.HasPrefix(s, "postgres://") || strings.HasPrefix(s, "postgresql://")
}

// Allowance returns how many units of a pool this machine may spend in an outage. If the
// server that is down has the catalog, too, nothing could be saved.
func (s *Settings) Allowance() int64 {
	if at, err := open.Parse(s.Ledger); s.Database != "" && err == nil && at.Beside(s.Database) {
		return -1
	}
	if part := quota.DefaultAllowance / int64(max(s.FleetSize, 1)); part > 0 {
		return part
	}
	return -1
}

// Folders are those whose disks hold what this machine keeps, each once.
func (s *Settings) Folders() (all []string) {
	for _, file := range []string{filepath.Join(s.State, "any"), s.LedgerFile(), s.Catalog} {
		folder := filepath.Dir(file)
		if file != "" && (file != s.Catalog || s.Database == "") && !slices.Contains(all, folder) {
			all = append(all, folder)
		}
	}
	return all
}

// LedgerAddress returns the address of the ledger. Behind PgBouncer in transaction mode, a ledger in
// PostgreSQL must not keep statements between transactions.
func (s *Settings) LedgerAddress() string {
	const mode = "default_query_exec_mode="
	if at, err := open.Parse(s.Ledger); err != nil || at.Scheme != "postgres" || !s.PollOnly || strings.Contains(s.Ledger, mode) {
		return s.Ledger
	}
	if strings.Contains(s.Ledger, "?") {
		return s.Ledger + "&" + mode + "exec"
	}
	return s.Ledger + "?" + mode + "exec"
}

// LedgerFlag names the ledger in commands that a message tells a person to type: by the configuration, if that
// does.
func (s *Settings) LedgerFlag() string {
	at, err := open.Parse(s.Ledger)
	if err != nil || at.Flag() == "" || s.File != "" && s.Source("ledger") == FromFile {
		return s.configFlag()
	}
	return at.Flag() + s.configFlag()
}

// Typed are the flags of any command that a message tells a person to type, so that it reads the same files.
func (s *Settings) Typed() string {
	flags := s.configFlag()
	// A variable is mostly there for the next command, too, and a flag without its password would be in its way.
	given := func(key, address string) bool {
		return strings.HasPrefix(s.Source(key), "--") && open.Shown(address) == address
	}
	if at, err := open.Parse(s.Ledger); err == nil && given("ledger", s.Ledger) {
		flags += at.Flag()
	}
	if s.Database == "" && given("catalog", s.Catalog) {
		flags += " --catalog " + shell.Quote(s.Catalog)
	}
	if s.Database != "" && given("database", s.Database) {
		flags += " --database " + shell.Quote(s.Database)
	}
	return flags
}

// configFlag names the configuration, unless it is that of the user, which is read without a flag.
func (s *Settings) configFlag() string {
	if dir, err := os.UserConfigDir(); s.File == "" || err == nil && s.File == filepath.Join(dir, "ingestor", "ingestor.yaml") {
		return ""
	}
	return " --config " + shell.Quote(s.File)
}

// Facts returns what reads the facts that a verdict judges. Each command and each server says it by the same.
func (s *Settings) Facts(clock quota.Clock) *verdict.Reader {
	return verdict.NewReader(&verdict.Options{Clock: clock, MaxAge: s.MaxAge, Writes: true, Folders: s.Folders(), Typed: s.Typed()})
}

// MakeState makes our own folder for a file that is to be in it, and no other one.
func (s *Settings) MakeState(file string) error {
	if filepath.Dir(file) != s.State {
		return nil
	}
	if err := os.MkdirAll(s.State, 0o700); err != nil {
		return fmt.Errorf("make the folder of the state: %w", err)
	}
	return nil
}

// absolute makes the paths of settings absolute, so that they mean the same wherever
// the program is started: those in the file begin where the file is, those of flags
// and variables where the program is.
func (s *Settings) absolute() error {
	for key, path := range map[string]*string{"catalog": &s.Catalog, "costs": &s.Costs, "key_file": &s.KeyFile, "token_file": &s.TokenFile, "socket": &s.Socket, "google_credentials": &s.GoogleCredentials} {
		if err := s.anchor(path, s.Source(key)); err != nil {
			return err
		}
	}
	if err := errors.Join(
		anchorAll(s, s.Accounts, func(a *account) *string { return &a.KeyFile }),
		anchorAll(s, s.Tokens, func(c *caller) *string { return &c.File }),
		anchorAll(s, s.Keys, func(k *keyFile) *string { return &k.File }),
		anchorAll(s, s.Notify, func(t *notify.Target) *string { return &t.Secret }),
	); err != nil {
		return err
	}
	for name, j := range s.Jobs {
		if !j.Kind.Runs() {
			continue
		}
		j.Dir = filepath.Dir(s.File)
		for _, path := range []*string{&j.State, &j.Output} {
			if err := s.anchor(path, FromFile); err != nil {
				return err
			}
		}
		s.Jobs[name] = j
	}
	at, err := open.Parse(s.Ledger)
	if err != nil {
		return nil // check says where it stands
	}
	if err := s.anchor(&at.File, s.Source("ledger")); err != nil {
		return err
	}
	s.Ledger, s.Fresh = at.String(), at.Fresh
	return nil
}

// anchorAll makes a path of each entry of the file absolute.
func anchorAll[V any](s *Settings, all map[string]V, path func(*V) *string) (err error) {
	for name, v := range all {
		err = errors.Join(err, s.anchor(path(&v), FromFile))
		all[name] = v
	}
	return err
}

// anchor makes a path absolute. It leaves an empty path empty, and the name of a built-in
// price book as it is.
func (s *Settings) anchor(path *string, from string) (err error) {
	switch {
	case *path == "" || filepath.IsAbs(*path) || path == &s.Costs && headroom.IsBuiltin(*path):
		return nil
	case from == FromFile:
		*path = filepath.Join(filepath.Dir(s.File), *path)
		return nil
	}
	*path, err = filepath.Abs(*path)
	return err
}
