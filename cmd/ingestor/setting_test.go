package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/setup"
)

// another returns a value of a setting, other than its default, as a variable has it.
func another(set *settings.Setting) string {
	switch set.Key {
	case "ledger":
		return "memory:"
	case "database":
		return "postgres://127.0.0.1/other"
	case "river_ui":
		return "http://127.0.0.1:1"
	case "client_delay": // at most 5s
		return "2s"
	case "ping":
		return "http://127.0.0.1:1/…" // config show shows no more of it
	}
	switch value := set.Value(settings.DefaultSettings("/")).(type) {
	case int:
		return fmt.Sprint(value + 1)
	case bool:
		return fmt.Sprint(!value)
	case time.Duration:
		return (value + time.Minute).String()
	case []string:
		return "10.0.0.8"
	}
	if len(set.Enum) > 0 {
		return set.Enum[0]
	}
	return "/another"
}

// TestASettingIsSaidOnce: its field alone makes a setting known to the file, to the
// environment, to its flag and its help, to config show, to the schema, and to SIGHUP.
func TestASettingIsSaidOnce(t *testing.T) {
	text, err := setup.SettingsSchema()
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]struct {
			Description string `json:"description"`
		}
		Additional bool                                           `json:"additionalProperties"`
		Defs       map[string]struct{ Properties map[string]any } `json:"$defs"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	if _, known := schema.Defs["Job"].Properties["max_lateness"]; schema.Additional || !known {
		t.Errorf("the schema accepts unknown keys, or lacks those of jobs")
	}
	want := []string{"accounts", "jobs", "keys", "notify", "tokens"}
	for _, set := range settings.AllSettings {
		want = append(want, set.Key)
		t.Run(set.Key, func(t *testing.T) {
			if schema.Properties[set.Key].Description == "" {
				t.Error("the schema does not describe it")
			}
			switch set.Key {
			case "costs", "endpoint", "regions": // for these another value would have to exist
				return
			}
			other := another(set)
			home(t, "")
			t.Setenv(set.Variable(), other)
			checkSource(t, set, other, set.Variable())
			t.Setenv(set.Variable(), "")
			inFile, err := yaml.Marshal(map[string]any{set.Key: fromVariable(t, set, other)})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile("ingestor.yaml", inFile, 0o600); err != nil {
				t.Fatal(err)
			}
			checkSource(t, set, other, settings.FromFile)
			if set.Usage == "" {
				return
			}
			command := "run"
			if set.Group == settings.ForServers {
				command = "serve"
			}
			var help bytes.Buffer
			if code := run([]string{command, "--help"}, strings.NewReader(""), &help, &help); code != console.ExitDone || !strings.Contains(help.String(), "--"+set.Flag()+" ") {
				t.Errorf("%s --help lacks --%s:\n%s", command, set.Flag(), &help)
			}
		})
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(schema.Properties)); !slices.Equal(got, want) {
		t.Errorf("the schema has %v, the settings are %v", got, want)
	}
}

// fromVariable is the value of a setting for the file, where a variable has this text.
func fromVariable(t *testing.T, set *settings.Setting, text string) any {
	t.Helper()
	kind := reflect.TypeOf(set.Value(settings.DefaultSettings("/")))
	value, err := settings.FromText(kind, text)
	if err != nil {
		t.Fatal(err)
	}
	if _, is := value.(time.Duration); is {
		return text
	}
	return value
}

// checkSource checks that config show has a value of a setting, and where it comes from.
func checkSource(t *testing.T, set *settings.Setting, value, from string) {
	t.Helper()
	extra := []string{"config", "show", "--output", "json"}
	switch set.Key { // those that need another one beside them
	case "tls_cert":
		t.Setenv("INGESTOR_TLS_KEY", "/key")
	case "tls_key":
		t.Setenv("INGESTOR_TLS_CERT", "/cert")
	case "river_listen":
		t.Setenv("INGESTOR_RIVER_UI", "http://127.0.0.1:1")
		fallthrough
	case "listen", "probe_listen", "proxy_listen", "envoy_listen":
		value = "127.0.0.1:0"
		if os.Getenv(set.Variable()) != "" {
			t.Setenv(set.Variable(), value)
		} else if err := os.WriteFile("ingestor.yaml", []byte(set.Key+": "+value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, problems bytes.Buffer
	if code := run(extra, strings.NewReader(""), &out, &problems); code != console.ExitDone {
		t.Fatalf("it left with %d: %s", code, &problems)
	}
	var all []setup.SettingView
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(v setup.SettingView) bool { return v.Setting == set.Key })
	if i < 0 {
		t.Fatalf("config show lacks it:\n%s", &out)
	}
	if d, err := time.ParseDuration(value); err == nil {
		value = console.Span(d)
	}
	if got := all[i]; got.Value != value && got.Value != filepath.Clean(value) || got.From != from {
		t.Errorf("config show has %s from %s, not %s from %s", got.Value, got.From, value, from)
	}
}

// TestTheFileThatInitWritesHasOnlySettings, also in what is commented out.
func TestTheFileThatInitWritesHasOnlySettings(t *testing.T) {
	for line := range strings.Lines(string(setup.Initial)) {
		key, _, is := strings.Cut(strings.TrimPrefix(line, "#"), ":")
		if !is || strings.HasPrefix(line, " ") || strings.ContainsAny(key, " `") || key == "jobs" {
			continue
		}
		if !slices.ContainsFunc(settings.AllSettings, func(set *settings.Setting) bool { return set.Key == key }) {
			t.Errorf("%s is not a setting", key)
		}
	}
}
