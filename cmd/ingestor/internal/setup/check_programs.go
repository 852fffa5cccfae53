package setup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/internal/shell"
)

// checkPrograms checks that the programs of jobs can be started, and their files be written.
func checkPrograms(f *findings, s *settings.Settings) {
	for _, j := range s.List() {
		if !j.Kind.Runs() {
			continue
		}
		if _, err := lookPath(j); err != nil {
			f.fault("job "+j.Name, console.Config(fmt.Errorf("its program cannot be started: %w", err)))
			continue
		}
		bad := false
		for _, path := range []string{j.State, j.Output} {
			if path == "" {
				continue
			}
			if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
				f.fault("job "+j.Name, console.Config(fmt.Errorf("the folder of %s does not exist\nTo make it: mkdir -p %s", path, shell.Quote(filepath.Dir(path)))))
				bad = true
			}
		}
		if !bad {
			f.ok("job "+j.Name, "runs %s behind a proxy, for %s", shell.Quote(j.Program.Command[0]), strings.Join(s.UpstreamsOf(j), ", "))
		}
	}
}

// lookPath finds the program of a job, as its folder has it.
func lookPath(j *ingest.Job) (string, error) {
	name := j.Program.Command[0]
	if strings.ContainsRune(name, filepath.Separator) && !filepath.IsAbs(name) {
		name = filepath.Join(j.Dir, name)
	}
	return exec.LookPath(name)
}
