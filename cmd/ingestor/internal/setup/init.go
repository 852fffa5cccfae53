package setup

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/internal/shell"
	"github.com/spf13/cobra"
)

// Initial is the configuration that init writes.
//
//go:embed ingestor.yaml
var Initial []byte

// starting is what init writes to standard output.
//
//go:embed starting.txt
var starting string

func InitCommand(a *session.Session) *cobra.Command {
	var dir string
	var force bool
	cmd := console.Command("init", console.NoArgs, func(*cobra.Command, []string) error {
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
		install := "" // where go install writes the program, if go run has started it
		if console.Self() == console.FromSource {
			install = program
		}
		return template.Must(template.New("starting").Parse(starting)).Execute(a.Stdout, map[string]string{
			"Config": path, "Schema": schemaPath, "Self": console.Self(), "QuotedConfig": shell.Quote(path), "Install": install,
			"CronLine": strings.ReplaceAll(line, "%", `\%`), "UnitProgram": inUnit(program), "UnitConfig": inUnit(path),
		})
	})
	cmd.Flags().StringVar(&dir, "dir", ".", "`folder` to write into; init creates it if it is missing")
	cmd.Flags().BoolVar(&force, "force", false, "overwrite an existing ingestor.yaml")
	return cmd
}

// WriteWhole is [console.WriteWhole] for a file of the configuration.
func WriteWhole(path string, text []byte, force bool) error {
	switch err := console.WriteWhole(path, text, 0o644, force); {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s already exists\nTo overwrite it: ingestor init --force", path)
	case err != nil:
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// inUnit quotes a path for a unit of systemd.
func inUnit(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$").Replace(path) + `"`
}

func VersionCommand(a *session.Session) *cobra.Command {
	return a.Command("version", console.NoArgs, func(*cobra.Command, []string) error {
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
	})
}
