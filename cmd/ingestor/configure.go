package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/invopop/jsonschema"
	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/internal/shell"
	"github.com/headroom-quota/headroom/internal/web"
)

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the settings in force, or their schema",
		Long:  `Without a subcommand, ingestor config does what ingestor config show does.`,
		Example: `  ingestor config
  ingestor config schema > ingestor.schema.json`,
		Args: known,
	}
	show := &cobra.Command{
		Use:   "show",
		Short: "Show the settings in force, and where each comes from",
		Long: `Show every setting, its value, and its source: a flag, a variable, the file, or the
default. Secrets are not shown.`,
		Example: `  INGESTOR_WORKERS=8 ingestor config show`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.settings(cmd.Flags())
			if err != nil {
				return err
			}
			return a.showSettings(s)
		},
	}
	a.outputFlag(show)
	a.outputFlag(cmd)
	cmd.RunE = show.RunE
	cmd.AddCommand(show, &cobra.Command{
		Use:   "schema",
		Short: "Write the JSON Schema of ingestor.yaml, for editors",
		Long: `Write the JSON Schema of ingestor.yaml to standard output. Editors use it to complete and
check the file.`,
		Example: `  ingestor config schema > ingestor.schema.json`,
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			text, err := settingsSchema()
			if err != nil {
				return err
			}
			_, err = a.stdout.Write(text)
			return err
		},
	})
	return cmd
}

// settingView is a setting in JSON.
type settingView struct {
	Setting string `json:"setting"`
	Value   string `json:"value"`
	From    string `json:"from"`
}

func (a *app) showSettings(s *settings) error {
	var all []settingView
	for _, set := range allSettings {
		all = append(all, settingView{set.key, set.shown(s), s.source(set.key)})
	}
	slices.SortFunc(all, func(a, b settingView) int { return strings.Compare(a.Setting, b.Setting) })
	for _, name := range slices.Sorted(maps.Keys(s.Accounts)) {
		all = append(all, settingView{"accounts." + name, "key_file " + s.Accounts[name].KeyFile, fromFile})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Keys)) {
		all = append(all, settingView{"keys." + name, "file " + s.Keys[name].File, fromFile})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Tokens)) {
		rights := s.Tokens[name].Rights
		if len(rights) == 0 && !s.Tokens[name].onlyCalls() {
			rights = web.Rights
		}
		value := fmt.Sprintf("file %s, rights %v", s.Tokens[name].File, rights)
		if c := s.Tokens[name].Calls; c.given() {
			value += ", calls " + c.String()
		}
		all = append(all, settingView{"tokens." + name, value, fromFile})
	}
	jobs, _ := s.said["jobs"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(s.Jobs)) {
		j := s.Jobs[name]
		from := fromDefault
		if _, said := jobs[name]; said {
			from = fromFile
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
		all = append(all, settingView{"jobs." + name, value, from})
	}
	return a.print(all, func(sh *sheet) {
		if s.file != "" {
			sh.line("%s", sh.in(faint, "file "+s.file))
		}
		sh.settings(all)
	})
}

// settings writes a row for each setting. On a terminal a value is never cut: paths
// are there to be copied.
func (s *sheet) settings(all []settingView) {
	if s.width == 0 {
		var rows [][]string
		for _, v := range all {
			rows = append(rows, []string{v.Setting, plain(v.Value), v.From})
		}
		s.table([]column{{name: "setting"}, {name: "value"}, {name: "from"}}, rows)
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
		text := strings.TrimSpace(plain(v.Value) + " " + s.in(faint, "("+v.From+")"))
		title := fmt.Sprintf("%-*s  ", name, v.Setting)
		if len(v.Setting) > widest {
			title = s.cut(v.Setting, s.width) + "\n" + strings.Repeat(" ", name+2)
		}
		s.text.WriteString(title + s.wrap(text, name+2) + "\n")
	}
}

// settingsSchema is the JSON Schema of ingestor.yaml.
func settingsSchema() ([]byte, error) {
	r := &jsonschema.Reflector{
		Anonymous: true, ExpandedStruct: true, FieldNameTag: "yaml",
		Mapper: func(t reflect.Type) *jsonschema.Schema {
			switch t {
			case reflect.TypeFor[time.Duration]():
				return &jsonschema.Schema{Type: "string", Pattern: `^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$`, Examples: []any{"90s", "6h"}}
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
	schema := r.Reflect(&settings{})
	schema.Title = "ingestor.yaml"
	schema.Required = nil
	text, err := json.MarshalIndent(schema, "", "  ")
	return append(text, '\n'), err
}
