package settings

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/notify"
	"github.com/headroom-quota/headroom/internal/strictyaml"
	"github.com/headroom-quota/headroom/quota/open"
)

// Setting is one of the settings, as its field describes it. Jobs and accounts are not
// among them: they have no variable and no flag.
type Setting struct {
	Key     string   // in ingestor.yaml
	field   []int    // of settings
	Usage   string   // of its flag; empty: it has none
	Enum    []string // the values that it may have; empty: any
	Group   group    // the commands that have its flag
	Restart bool     // SIGHUP cannot change it
	nonzero bool     // 0 is refused
	secret  bool     // its value may hold a secret
}

// group is a group of settings whose flags belong to some commands.
type group string

const (
	ForAll     group = ""
	ForServers group = "servers" // only ingestor serve and proxy read them
	ForCounts  group = "counts"  // Google's own count: run, serve and reconcile
)

// AllSettings has a row for each setting, in the order of the fields.
var AllSettings = settingsOf(reflect.TypeFor[Settings]())

// placeholder is what pflag shows after the name of a flag. A tag cannot have its quotes.
var placeholder = regexp.MustCompile(`'(\w+)'`)

func settingsOf(t reflect.Type) (all []*Setting) {
	for _, f := range reflect.VisibleFields(t) {
		if !f.IsExported() || f.Anonymous || yamlName(f) == "-" || f.Type.Kind() == reflect.Map {
			continue
		}
		set := &Setting{
			Key: yamlName(f), field: f.Index, Group: group(t.Field(f.Index[0]).Tag.Get("group")),
			Usage:   placeholder.ReplaceAllString(f.Tag.Get("flag"), "`$1`"),
			Restart: f.Tag.Get("restart") == "yes", nonzero: refusesZero(f), secret: f.Tag.Get("secret") == "yes",
		}
		if words := f.Tag.Get("words"); words != "" {
			set.Enum = strings.Split(words, "|")
		}
		all = append(all, set)
	}
	return all
}

func yamlName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return name
}

// refusesZero reports whether 0 is refused: leaving the setting out means the default.
func refusesZero(f reflect.StructField) bool { return f.Tag.Get("zero") == "no" }

// Flag is the name of its flag, if it has one.
func (set *Setting) Flag() string { return strings.ReplaceAll(set.Key, "_", "-") }

// Variable is its name in the environment.
func (set *Setting) Variable() string { return "INGESTOR_" + strings.ToUpper(set.Key) }

// Value is its value in s.
func (set *Setting) Value(s *Settings) any {
	return reflect.ValueOf(s).Elem().FieldByIndex(set.field).Interface()
}

// Shown is its value in s for people, without secrets.
func (set *Setting) Shown(s *Settings) string {
	switch value := set.Value(s).(type) {
	case string:
		if set.secret {
			return notify.Host(value)
		}
		return open.Shown(value)
	case []string:
		return strings.Join(value, " ")
	case time.Duration:
		return console.Span(value)
	default:
		return fmt.Sprint(value)
	}
}

// Where a setting comes from, beside a flag or a variable.
const (
	FromDefault = "default"
	FromFile    = "file"
)

// Source is where a setting comes from: --flag, INGESTOR_VARIABLE, file or default.
func (s *Settings) Source(key string) string {
	for _, set := range AllSettings {
		switch {
		case set.Key != key:
		case set.Usage != "" && s.Flags != nil && s.Flags.Changed(set.Flag()):
			return "--" + set.Flag()
		case os.Getenv(set.Variable()) != "":
			return set.Variable()
		}
	}
	if s.Says(key) {
		return FromFile
	}
	return FromDefault
}

// AddFlags gives a command the flags of a group of settings, without some.
func AddFlags(cmd *cobra.Command, flags *pflag.FlagSet, of group, without ...string) {
	defaults := DefaultSettings("")
	for _, set := range AllSettings {
		if set.Usage == "" || set.Group != of || slices.Contains(without, set.Key) {
			continue
		}
		switch value := set.Value(defaults).(type) {
		case string:
			flags.String(set.Flag(), value, set.Usage)
		case bool:
			flags.Bool(set.Flag(), value, set.Usage)
		case int:
			flags.Int(set.Flag(), value, set.Usage)
		case time.Duration:
			flags.Duration(set.Flag(), value, set.Usage)
			flags.Lookup(set.Flag()).DefValue = console.Span(value)
		case []string:
			flags.StringSlice(set.Flag(), value, set.Usage)
		}
		if strings.Contains(set.Usage, "(default ") {
			flags.Lookup(set.Flag()).DefValue = ""
		}
		if len(set.Enum) > 0 {
			_ = cmd.RegisterFlagCompletionFunc(set.Flag(), cobra.FixedCompletions(set.Enum, cobra.ShellCompDirectiveNoFileComp))
		}
	}
}

func unknownVariables() error {
	known := []string{"INGESTOR_CONFIG", TokenVariable}
	for _, set := range AllSettings {
		known = append(known, set.Variable())
	}
	var all []error
	for _, line := range slices.Sorted(slices.Values(os.Environ())) {
		name, text, _ := strings.Cut(line, "=")
		key, ours := strings.CutPrefix(name, "INGESTOR_")
		if ours && text != "" && !ofAService(key) && !slices.Contains(known, name) {
			all = append(all, unknownVariable(name, strings.ToLower(key), known))
		}
	}
	return errors.Join(all...)
}

// ofAService reports whether Kubernetes sets such a variable for a service called
// ingestor.
func ofAService(key string) bool {
	return key == "PORT" || strings.HasPrefix(key, "PORT_") || strings.HasPrefix(key, "SERVICE_HOST") || strings.HasPrefix(key, "SERVICE_PORT")
}

// unknownVariable says what to do instead of setting an unknown variable. Its value may
// be a secret and is not shown.
func unknownVariable(name, key string, known []string) error {
	for _, own := range []string{"jobs", "accounts", "tokens", "keys", "notify"} {
		if key == own || strings.HasPrefix(key, own+"_") {
			return fmt.Errorf("%s: %s are set in ingestor.yaml only; unset the variable", name, own)
		}
	}
	if strings.HasSuffix(key, "key") {
		return fmt.Errorf("%s: the key comes from YOUTUBE_API_KEY, or from a file that INGESTOR_KEY_FILE names", name)
	}
	ends := make([]string, len(known))
	for i, k := range known {
		ends[i] = strings.TrimPrefix(k, "INGESTOR_")
	}
	if best := strictyaml.Nearest(key, ends); best != "" {
		return fmt.Errorf("%s: there is no such variable; did you mean INGESTOR_%s?", name, best)
	}
	return fmt.Errorf("%s: there is no such variable; unset it\nTo list the settings: ingestor config schema. The variable of log_level is INGESTOR_LOG_LEVEL", name)
}
