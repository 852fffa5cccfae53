package pgtest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
)

var initial = []string{"--username", superuser, "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync"}

// prepare makes the folder of the server's data. Tests start dozens of servers, and initdb takes
// longer than most of them: so it runs once on a machine, and its folder is kept and copied.
func (s *Server) prepare() error {
	kept := s.kept()
	if kept != "" && s.adopt(kept) == nil {
		return nil
	}
	if err := os.RemoveAll(s.data()); err != nil {
		return err
	}
	initdb := s.command("initdb", append([]string{"--pgdata", s.data()}, initial...)...)
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if kept != "" {
		keep(s.data(), kept)
	}
	return nil
}

// kept names the copy that this initdb made with these arguments, or is "" if this user has no
// folder for what may be lost.
func (s *Server) kept() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	path := filepath.Join(s.programs, "postgres")
	program, err := os.Stat(path)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(fmt.Append(nil, path, program.Size(), program.ModTime().UnixNano(), initial))
	return filepath.Join(cache, "headroom-tests", fmt.Sprintf("initdb-%x", sum[:8]))
}

// keep copies the data for later servers. Without the copy, they call initdb.
func keep(data, kept string) {
	if err := os.MkdirAll(filepath.Dir(kept), 0o700); err != nil {
		return
	}
	half, err := os.MkdirTemp(filepath.Dir(kept), "half")
	if err != nil {
		return
	}
	defer func() { _ = os.RemoveAll(half) }()
	if os.CopyFS(half, os.DirFS(data)) == nil {
		_ = os.Rename(half, kept) // another process may have been faster
	}
}

// adopt copies what was kept, for the user that runs PostgreSQL.
func (s *Server) adopt(kept string) error {
	if err := os.CopyFS(s.data(), os.DirFS(kept)); err != nil {
		return err
	}
	return filepath.WalkDir(s.data(), func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			err = os.Chmod(path, 0o700)
		}
		if err == nil {
			err = own(path)
		}
		return err
	})
}
