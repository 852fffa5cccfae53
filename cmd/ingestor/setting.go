package main

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headroom-quota/headroom/quota/open"
)

// setting is one of the settings, as its field describes it. Jobs and accounts are not
// among them: they have no variable and no flag.
type setting struct {
	key     string   // in ingestor.yaml
	field   []int    // of settings
	usage   string   // of its flag; empty: it has none
	enum    []string // the values that it may have; empty: any
	group   group    // the commands that have its flag
	restart bool     // SIGHUP cannot change it
	nonzero bool     // 0 is refused
}

// group is a group of settings whose flags belong to some commands.
type group string

const (
	forAll     group = ""
	forServers group = "servers" // only ingestor serve and proxy read them
	forCounts  group = "counts"  // Google's own count: run, serve and reconcile
)

// groupOf returns the group of the settings of a struct.
func groupOf(t reflect.Type) group {
	switch t {
	case reflect.TypeFor[Serving](), reflect.TypeFor[Proxying]():
		return forServers
	case reflect.TypeFor[Reconciling]():
		return forCounts
	}
	return forAll
}

// allSettings has a row for each setting, in the order of the fields.
var allSettings = settingsOf(reflect.TypeFor[settings]())

// placeholder is what pflag shows after the name of a flag. A tag cannot have its quotes.
var placeholder = regexp.MustCompile(`'(\w+)'`)

func settingsOf(t reflect.Type) (all []*setting) {
	for _, f := range reflect.VisibleFields(t) {
		if !f.IsExported() || f.Anonymous || f.Type.Kind() == reflect.Map {
			continue
		}
		set := &setting{
			key: yamlName(f), field: f.Index, group: groupOf(t.Field(f.Index[0]).Type),
			usage:   placeholder.ReplaceAllString(f.Tag.Get("flag"), "`$1`"),
			restart: f.Tag.Get("restart") == "yes", nonzero: refusesZero(f),
		}
		for option := range strings.SplitSeq(f.Tag.Get("jsonschema"), ",") {
			if value, is := strings.CutPrefix(option, "enum="); is {
				set.enum = append(set.enum, value)
			}
		}
		all = append(all, set)
	}
	return all
}

// yamlName is the name of a field in the file.
func yamlName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return name
}

// refusesZero reports whether 0 is refused: leaving the setting out means the default.
func refusesZero(f reflect.StructField) bool { return f.Tag.Get("zero") == "no" }

// flag is the name of its flag, if it has one.
func (set *setting) flag() string { return strings.ReplaceAll(set.key, "_", "-") }

// variable is its name in the environment.
func (set *setting) variable() string { return "INGESTOR_" + strings.ToUpper(set.key) }

// value is its value in s.
func (set *setting) value(s *settings) any {
	return reflect.ValueOf(s).Elem().FieldByIndex(set.field).Interface()
}

// shown is its value in s for people, without secrets.
func (set *setting) shown(s *settings) string {
	switch value := set.value(s).(type) {
	case string:
		return open.Shown(value)
	case []string:
		return strings.Join(value, " ")
	case time.Duration:
		return span(value)
	default:
		return fmt.Sprint(value)
	}
}

// Where a setting comes from, beside a flag or a variable.
const (
	fromDefault = "default"
	fromFile    = "file"
)

// source is where a setting comes from: --flag, INGESTOR_VARIABLE, file or default.
func (s *settings) source(key string) string {
	for _, set := range allSettings {
		switch {
		case set.key != key:
		case set.usage != "" && s.flags != nil && s.flags.Changed(set.flag()):
			return "--" + set.flag()
		case os.Getenv(set.variable()) != "":
			return set.variable()
		}
	}
	if _, said := s.said[key]; said {
		return fromFile
	}
	return fromDefault
}

// addFlags gives a command the flags of a group of settings, without some.
func addFlags(cmd *cobra.Command, flags *pflag.FlagSet, of group, without ...string) {
	defaults := defaultSettings("")
	for _, set := range allSettings {
		if set.usage == "" || set.group != of || slices.Contains(without, set.key) {
			continue
		}
		switch value := set.value(defaults).(type) {
		case string:
			flags.String(set.flag(), value, set.usage)
		case bool:
			flags.Bool(set.flag(), value, set.usage)
		case int:
			flags.Int(set.flag(), value, set.usage)
		case time.Duration:
			flags.Duration(set.flag(), value, set.usage)
			flags.Lookup(set.flag()).DefValue = span(value)
		case []string:
			flags.StringSlice(set.flag(), value, set.usage)
		}
		if strings.Contains(set.usage, "(default ") {
			flags.Lookup(set.flag()).DefValue = ""
		}
		if len(set.enum) > 0 {
			_ = cmd.RegisterFlagCompletionFunc(set.flag(), cobra.FixedCompletions(set.enum, cobra.ShellCompDirectiveNoFileComp))
		}
	}
}
