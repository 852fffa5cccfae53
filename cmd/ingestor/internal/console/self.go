package console

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/headroom-quota/headroom/internal/pattern"
	"github.com/headroom-quota/headroom/internal/shell"
)

// FromSource is the command that starts the program from a clone.
const FromSource = "go run ./cmd/ingestor"

// Self returns the command that starts this program again: its name if it is on the PATH,
// `go run` if that started it, or else its path.
func Self() string {
	program, err := os.Executable()
	if err != nil {
		return "ingestor"
	}
	if ByGoRun(program) {
		return FromSource
	}
	if found, err := exec.LookPath("ingestor"); err == nil && sameFile(found, program) {
		return "ingestor"
	}
	return shell.Quote(program)
}

// ByGoRun reports whether go run built a program: in a temporary folder, or in the build
// cache. Go deletes such programs sooner or later.
func ByGoRun(program string) bool {
	dir := filepath.Base(filepath.Dir(program))
	return cached().MatchString(dir) || dir == "exe" && strings.Contains(program, string(filepath.Separator)+"go-build")
}

// cached matches the name of a folder of the build cache that holds a program.
var cached = pattern.Of(`^[0-9a-f]{64}-d$`)

func sameFile(one, other string) bool {
	a, err := os.Stat(one)
	if err != nil {
		return false
	}
	b, err := os.Stat(other)
	return err == nil && os.SameFile(a, b)
}

// WriteWhole writes a file in one step, so that no reader sees half of it. If it may not
// replace another file, the error is [os.ErrExist].
func WriteWhole(path string, text []byte, mode os.FileMode, replace bool) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".ingestor-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil && replace {
		if err = os.Rename(f.Name(), path); err == nil {
			return nil
		}
	} else if err == nil {
		err = os.Link(f.Name(), path)
	}
	return errors.Join(err, os.Remove(f.Name()))
}

// Installed returns the path at which `go install` writes the program.
func Installed() string {
	if dir := os.Getenv("GOBIN"); dir != "" {
		return filepath.Join(dir, "ingestor")
	}
	if dir, _, _ := strings.Cut(os.Getenv("GOPATH"), string(filepath.ListSeparator)); dir != "" {
		return filepath.Join(dir, "bin", "ingestor")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "ingestor"
	}
	return filepath.Join(home, "go", "bin", "ingestor")
}
