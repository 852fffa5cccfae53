package setup

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"github.com/invopop/jsonschema"
	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/internal/shell"
)

func ConfigCommand(a *session.Session) *cobra.Command {
	cmd := a.Command("config", console.Known, nil)
	show := a.Command("show", console.NoArgs, a.WithSettings(func(cmd *cobra.Command, _ []string, s *settings.Settings) error {
		var all []SettingView
		for _, set := range settings.AllSettings {
			all = append(all, SettingView{set.Key, set.Shown(s), s.Source(set.Key)})
		}
		slices.SortFunc(all, func(a, b SettingView) int { return strings.Compare(a.Setting, b.Setting) })
		for _, name := range slices.Sorted(maps.Keys(s.Accounts)) {
			all = append(all, SettingView{"accounts." + name, "key_file " + s.Accounts[name].KeyFile, settings.FromFile})
		}
		for _, name := range slices.Sorted(maps.Keys(s.Keys)) {
			all = append(all, SettingView{"keys." + name, "file " + s.Keys[name].File, settings.FromFile})
		}
		for _, name := range slices.Sorted(maps.Keys(s.Tokens)) {
			rights := s.Tokens[name].Rights
			if len(rights) == 0 && !s.Tokens[name].OnlyCalls() {
				rights = access.Rights
			}
			value := fmt.Sprintf("file %s, rights %v", s.Tokens[name].File, rights)
			if c := s.Tokens[name].Calls; c.Given() {
				value += ", calls " + c.String()
			}
			all = append(all, SettingView{"tokens." + name, value, settings.FromFile})
		}
		for _, name := range slices.Sorted(maps.Keys(s.Jobs)) {
			j := s.Jobs[name]
			from := settings.FromDefault
			if s.Says("jobs", name) {
				from = settings.FromFile
			}
			value := fmt.Sprintf("%s, %s", j.Kind, j.Schedule())
			if j.Kind.Runs() {
				value += ", runs " + shell.Quote(j.Command[0]) // its arguments may hold secrets
			} else {
				value += fmt.Sprintf(", pages %d", j.Pages)
			}
			if j.Regional() {
				value += ", regions " + strings.Join(j.Regions, " ")
			}
			if j.Disabled {
				value += ", disabled"
			}
			all = append(all, SettingView{"jobs." + name, value, from})
		}
		return a.Print(all, func(sh *console.Sheet) {
			if s.File != "" {
				sh.Line("%s", sh.In(console.Faint, "file "+s.File))
			}
			writeSettings(sh, all)
		})
	}))
	cmd.RunE = show.RunE
	cmd.AddCommand(show, console.Command("schema", console.NoArgs, func(*cobra.Command, []string) error {
		text, err := SettingsSchema()
		if err != nil {
			return err
		}
		_, err = a.Stdout.Write(text)
		return err
	}))
	return cmd
}

// SettingView is a setting in JSON.
type SettingView struct {
	Setting string `json:"setting"`
	Value   string `json:"value"`
	From    string `json:"from"`
}

// writeSettings writes a row for each setting. On a terminal a value is never cut: paths
// are there to be copied.
func writeSettings(s *console.Sheet, all []SettingView) {
	if s.Width == 0 {
		console.List(s, console.Columns("setting", "value", "from"), all, func(v *SettingView) []string {
			return []string{v.Setting, console.Plain(v.Value), v.From}
		})
		return
	}
	const widest = 24 // a longer name has a line of its own
	name := 0
	for _, v := range all {
		if len(v.Setting) <= widest {
			name = max(name, len(v.Setting))
		}
	}
	for _, v := range all {
		text := strings.TrimSpace(console.Plain(v.Value) + " " + s.In(console.Faint, "("+v.From+")"))
		title := fmt.Sprintf("%-*s  ", name, v.Setting)
		if len(v.Setting) > widest {
			title = s.Cut(v.Setting, s.Width) + "\n" + strings.Repeat(" ", name+2)
		}
		s.Text.WriteString(title + s.Wrap(text, name+2) + "\n")
	}
}

// SettingsSchema is the JSON Schema of ingestor.yaml. The tags of the fields say what a value may be.
func SettingsSchema() ([]byte, error) {
	type bounded struct {
		in string
		reflect.StructField
	}
	var all []bounded
	r := &jsonschema.Reflector{
		Anonymous: true, ExpandedStruct: true, FieldNameTag: "yaml",
		LookupComment: func(t reflect.Type, name string) string {
			if name == "" { // t itself
				return ""
			}
			f, _ := t.FieldByName(name)
			all = append(all, bounded{t.Name(), f})
			return f.Tag.Get("doc")
		},
		Mapper: func(t reflect.Type) *jsonschema.Schema {
			switch t {
			case reflect.TypeFor[time.Duration]():
				return &jsonschema.Schema{Type: "string", Pattern: `^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$`, Examples: []any{"90s", "6h"}}
			case reflect.TypeFor[access.Bound]():
				return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "integer", Minimum: "0"}, {Type: "string", Pattern: `^([0-9]+|[0-9]+(\.[0-9]{1,6})? USD)$`, Examples: []any{"5 USD"}}}}
			case reflect.TypeFor[ingest.Kind]():
				kind := &jsonschema.Schema{Type: "string"}
				for _, k := range ingest.Kinds() {
					kind.Enum = append(kind.Enum, k)
				}
				return kind
			}
			return nil
		},
	}
	schema := r.Reflect(&settings.Settings{})
	schema.Title = "ingestor.yaml"
	schema.Required = nil
	for _, f := range all {
		in := cmp.Or(schema.Definitions[f.in], schema)
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if p, has := in.Properties.Get(key); has {
			bound(p, f.Tag)
		}
	}
	text, err := json.MarshalIndent(schema, "", "  ")
	return append(text, '\n'), err
}

// bound adds the words and the range of a tag to the schema of a value, or of the items of a list.
func bound(p *jsonschema.Schema, tag reflect.StructTag) {
	if p.Items != nil {
		p = p.Items
	}
	for _, word := range strings.FieldsFunc(tag.Get("words"), func(c rune) bool { return c == '|' }) {
		p.Enum = append(p.Enum, word)
	}
	if least, most, has := strings.Cut(tag.Get("range"), ".."); has {
		p.Minimum, p.Maximum = json.Number(least), json.Number(most)
	}
}

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
