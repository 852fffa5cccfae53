package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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
		return fmt.Errorf("there is no catalog at %s yet\nTo fetch data into it: ingestor run --once", s.Catalog)
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

// checkDatabase checks the setting. Its error does not repeat it, because it may hold a
// password.
func (s *Settings) checkDatabase() error {
	if s.Database == "" || IsDatabase(s.Database) {
		return nil
	}
	return errors.New("it is not the URL of a PostgreSQL database, as postgres://user@host/database")
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

// Folders are those whose disks hold what this machine keeps.
func (s *Settings) Folders() []string {
	all := []string{s.State}
	if file := s.LedgerFile(); file != "" {
		all = append(all, filepath.Dir(file))
	}
	if s.Database == "" {
		all = append(all, filepath.Dir(s.Catalog))
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

// LedgerFlag names the ledger in commands that a message tells a person to type.
func (s *Settings) LedgerFlag() string {
	at, err := open.Parse(s.Ledger)
	if err != nil {
		return ""
	}
	return at.Flag()
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
