package catalog

import (
	"os/exec"
	"testing"

	"github.com/headroom-quota/headroom/internal/testing/childtest"
)

// children are the tasks of a child process on the catalog at a path.
var children = map[string]childtest.Task{}

func TestMain(m *testing.M) { childtest.Main(m, children) }

// lookShell returns Debian's sqlite3 if it is installed.
func lookShell(t *testing.T) func(path, text string) (string, error) {
	name, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Skip("there is no sqlite3 here")
	}
	return func(path, text string) (string, error) {
		out, err := exec.Command(name, path, text).CombinedOutput()
		return string(out), err
	}
}
