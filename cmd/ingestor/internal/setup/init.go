package setup

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/internal/shell"
)

// Initial is the configuration that init writes.
//
//go:embed ingestor.yaml
var Initial []byte

func InitCommand(a *session.Session) *cobra.Command {
	var dir string
	var force bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write ingestor.yaml, and show lines for cron and systemd",
		Long: `Write a commented ingestor.yaml, and beside it ingestor.schema.json, with which editors
complete and check it. Its schedule fits the quota of a new project. An existing
ingestor.yaml is overwritten only with --force. Lines for cron and systemd go to
standard output.`,
		Example: `  ingestor init
  ingestor init --dir /etc/ingestor`,
		Args: console.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return initialise(a, dir, force)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", ".", "`folder` to write into; init creates it if it is missing")
	cmd.Flags().BoolVar(&force, "force", false, "overwrite an existing ingestor.yaml")
	return cmd
}

func initialise(a *session.Session, dir string, force bool) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	schema, err := SettingsSchema()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create the folder: %w", err)
	}
	path := filepath.Join(dir, "ingestor.yaml")
	if _, err := os.Lstat(path); err == nil && !force {
		return fmt.Errorf("%s already exists\nTo overwrite it: ingestor init --force", path)
	}
	schemaPath := filepath.Join(dir, "ingestor.schema.json")
	if err := WriteWhole(schemaPath, schema, true); err != nil {
		return err
	}
	if err := WriteWhole(path, Initial, force); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		program = "ingestor"
	}
	if console.ByGoRun(program) { // that file is deleted later
		program = console.Installed()
	}
	line := shell.Quote(program) + " run --once --due --quiet --config " + shell.Quote(path)
	fmt.Fprintf(a.Stdout, starting, path, console.Self(), shell.Quote(path), strings.ReplaceAll(line, "%", `\%`), inUnit(program), inUnit(path), schemaPath)
	if console.Self() == console.FromSource {
		fmt.Fprintf(a.Stdout, installFirst, program)
	}
	return nil
}

// WriteWhole writes a file in one step. No reader sees half of it.
func WriteWhole(path string, text []byte, force bool) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".ingestor-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if gone := os.Remove(f.Name()); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}()
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Chmod(f.Name(), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if force {
		err = os.Rename(f.Name(), path)
	} else {
		err = os.Link(f.Name(), path) // fails if the file exists
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s already exists\nTo overwrite it: ingestor init --force", path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// inUnit quotes a path for a unit of systemd.
func inUnit(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$").Replace(path) + `"`
}

// installFirst is the hint for a program that was started with go run.
const installFirst = `
cron and systemd need the program itself. This installs it as %s:

  go install ./cmd/ingestor
`

// starting is the output of init. Its arguments are the path of the configuration, the
// program and that path for a shell, the line for cron, the program and that path for
// systemd, and the path of the schema.
const starting = `Wrote %[1]s
Wrote %[7]s

Try it:
  export YOUTUBE_API_KEY=...   (or set key_file in the configuration)
  %[2]s check --config %[3]s
  %[2]s run --once --config %[3]s

Then choose one of these. With cron (crontab -e), which mails only problems:

  # cron does not have YOUTUBE_API_KEY in its environment: use key_file
  */15 * * * * %[4]s

Or with systemd, as a daemon that resumes at the time the ledger named. It takes the key
from key_file. To keep it running after you log out, run loginctl enable-linger:

  # ~/.config/systemd/user/ingestor.service
  [Unit]
  Description=Fetch from the YouTube Data API inside its quota

  [Service]
  ExecStart=%[5]s run --config %[6]s
  Restart=on-failure
  RestartSec=30s
  RestartPreventExitStatus=64 77 78
  # it finishes the page under way
  TimeoutStopSec=90s

  [Install]
  WantedBy=default.target

Or with systemd, as a timer:

  # ~/.config/systemd/user/ingestor.service
  [Unit]
  Description=Fetch from the YouTube Data API inside its quota

  [Service]
  Type=oneshot
  ExecStart=%[5]s run --once --due --quiet --config %[6]s
  # 75: deferred, or stopped. SIGTERM: stopped before the program could catch it
  SuccessExitStatus=75 SIGTERM

  # ~/.config/systemd/user/ingestor.timer
  [Timer]
  OnCalendar=*:0/15
  Persistent=true

  [Install]
  WantedBy=timers.target
`

func VersionCommand(a *session.Session) *cobra.Command {
	return a.WithOutput(&cobra.Command{
		Use:     "version",
		Short:   "Show which build this is",
		Long:    `Show the version, the commit, and the Go release and platform of this program.`,
		Example: `  ingestor version --output json`,
		Args:    console.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := session.Build()
			return a.Print(v, func(s *console.Sheet) {
				line := "ingestor " + v.Version
				if v.Commit != "" {
					line += " (" + strings.TrimSpace(v.Commit[:min(12, len(v.Commit))]+" "+v.Time)
					if v.Modified {
						line += ", modified"
					}
					line += ")"
				}
				s.Line("%s, %s, %s", line, v.Go, v.Platform)
			})
		},
	})
}
