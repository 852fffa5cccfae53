package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/internal/web"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
	"github.com/headroom-quota/headroom/quota/open"
)

// settings are what ingestor.yaml, the environment and the flags say, in this
// order: the later wins.
type settings struct {
	Ledger   string `yaml:"ledger,omitempty" jsonschema_description:"Where the ledger is: sqlite:PATH, a redis:// or rediss:// URL, or memory:."`
	Catalog  string `yaml:"catalog,omitempty" jsonschema_description:"The SQLite file of what was fetched."`
	Costs    string `yaml:"costs,omitempty" jsonschema_description:"The price book; the built-in one if empty."`
	Endpoint string `yaml:"endpoint,omitempty" jsonschema_description:"Another address of the upstream, such as that of ingestor sandbox."`

	KeyFile  string             `yaml:"key_file,omitempty" jsonschema_description:"A file with the API key; YOUTUBE_API_KEY wins."`
	Accounts map[string]account `yaml:"accounts,omitempty" jsonschema_description:"The keys of further accounts of the price book."`

	LogFormat string `yaml:"log_format,omitempty" jsonschema:"enum=auto,enum=text,enum=json" jsonschema_description:"text on a terminal and json elsewhere, if auto."`
	LogLevel  string `yaml:"log_level,omitempty" jsonschema:"enum=debug,enum=info,enum=warn,enum=error"`

	Serving       `yaml:",inline" mapstructure:",squash"`
	ingest.Config `yaml:",inline" mapstructure:",squash"`

	file  string          // that was read; empty is none
	text  []byte          // of it
	probe *settings       // what the file alone says
	flags *pflag.FlagSet  // of the command
	book  *quota.Book     // the price book
	state string          // the folder of what is kept between runs
	fresh bool            // the ledger is trusted as it is found
	key   meter.KeySource // instead of what the environment and key_file say; nil is those
}

// account is a further account of the price book.
type account struct {
	KeyFile string `yaml:"key_file" jsonschema_description:"A file with its API key."`
}

// flagKeys are the settings that have a flag of the same name, with - for _.
var flagKeys = []string{
	"ledger", "catalog", "costs", "max_wait", "log_format", "log_level",
	"listen", "insecure", "trusted_proxies", "tls_cert", "tls_key", "token_file",
}

// defaults are what nobody has to say. Every key stands here, so that each can come
// from the environment.
func defaults(state string) map[string]any {
	return map[string]any{
		"ledger":     "sqlite:" + filepath.Join(state, "ledger.db"),
		"catalog":    filepath.Join(state, "catalog.db"),
		"costs":      "",
		"endpoint":   "",
		"key_file":   "",
		"log_format": "auto",
		"log_level":  "info",

		"listen":          "127.0.0.1:8080",
		"insecure":        false,
		"trusted_proxies": []string{},
		"tls_cert":        "",
		"tls_key":         "",
		"token_file":      "",
		"max_age":         web.DefaultMaxAge,

		"regions":      ingest.DefaultRegions,
		"max_wait":     ingest.DefaultMaxWait,
		"workers":      ingest.DefaultWorkers,
		"call_timeout": ingest.DefaultCallTimeout,

		"keep_statistics_days": ingest.DefaultKeepStatisticsDays,
	}
}

// load reads the settings.
func load(path string, flags *pflag.FlagSet) (*settings, error) {
	state, err := open.StateDir("ingestor")
	if err != nil {
		return nil, config(fmt.Errorf("%w, or name the files with --ledger and --catalog", err))
	}
	s := &settings{state: state, flags: flags, probe: &settings{}}
	if err := s.read(path); err != nil {
		return nil, config(err)
	}
	if err := environment(defaults(state)); err != nil {
		return nil, config(err)
	}
	v := viper.NewWithOptions(viper.ExperimentalBindStruct())
	v.SetConfigType("yaml")
	v.SetEnvPrefix("INGESTOR")
	v.SetEnvKeyReplacer(strings.NewReplacer(".", "_"))
	v.AutomaticEnv()
	for key, value := range defaults(state) {
		v.SetDefault(key, value)
	}
	if err := v.ReadConfig(strings.NewReader(string(s.text))); err != nil {
		return nil, config(fmt.Errorf("%s: %w", s.file, err))
	}
	for _, key := range flagKeys {
		if f := flags.Lookup(strings.ReplaceAll(key, "_", "-")); f != nil {
			if err := v.BindPFlag(key, f); err != nil {
				return nil, err
			}
		}
	}
	if !v.InConfig("jobs") {
		v.SetDefault("jobs", defaultJobs())
	}
	if err := v.UnmarshalExact(s, viper.DecodeHook(hooks), tagged); err != nil {
		return nil, config(fmt.Errorf("settings: %w", err))
	}
	if err := s.absolute(); err != nil {
		return nil, config(err)
	}
	return s, s.check()
}

// tagged reads the names of settings from the same tags as the file's.
func tagged(c *mapstructure.DecoderConfig) { c.TagName = "yaml"; c.Squash = true }

var hooks = mapstructure.ComposeDecodeHookFunc(
	durationHook,
	listHook,
)

// listHook reads "US,DE".
func listHook(_, to reflect.Type, value any) (any, error) {
	if text, ok := value.(string); ok && to == reflect.TypeFor[[]string]() {
		return words(text), nil
	}
	return value, nil
}

// durationHook reads "90s", and refuses a bare number: nobody knows of what.
func durationHook(from, to reflect.Type, value any) (any, error) {
	if to != reflect.TypeFor[time.Duration]() || from == to {
		return value, nil
	}
	text, ok := value.(string)
	if !ok {
		return nil, fmt.Errorf("%v is no time; write its unit, as 90s or 6h", value)
	}
	return time.ParseDuration(text)
}

// read reads the file of settings, strictly: a key that is not known is refused with
// its place. Without a path it takes ./ingestor.yaml, or the one in the user's
// folder of configuration, and it is no fault if there is neither.
func (s *settings) read(path string) error {
	candidates := []string{path}
	if path == "" {
		candidates = []string{"ingestor.yaml"}
		if dir, err := os.UserConfigDir(); err == nil {
			candidates = append(candidates, filepath.Join(dir, "ingestor", "ingestor.yaml"))
		}
	}
	for _, name := range candidates {
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) && path == "" {
			continue
		}
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("there is no configuration %s; `ingestor init` writes one", name)
		}
		if err != nil {
			return fmt.Errorf("read the configuration: %w", err)
		}
		if s.file, err = filepath.Abs(name); err != nil {
			return err
		}
		s.text = bytes.TrimPrefix(text, []byte("\ufeff")) // some editors begin with it
		return s.strict()
	}
	return nil
}

// check refuses values that make no sense, each with its place.
func (s *settings) check() error {
	if err := s.faulty(s.names()); err != nil {
		return err
	}
	if err := s.faulty(append(s.Prepare(), s.ours()...)); err != nil {
		return err
	}
	var err error
	if s.book, err = headroom.Load(s.Costs); err != nil {
		return config(err)
	}
	if s.Jobs != nil && s.builtinJobs() && s.book.Upstreams[metered] == nil {
		s.Jobs = nil // nobody asked for them, and nothing in this price book pays for them
	}
	return s.faulty(s.accountable())
}

// builtinJobs reports whether the file names no jobs, so that the built-in ones hold.
func (s *settings) builtinJobs() bool { return s.probe != nil && len(s.probe.Jobs) == 0 }

// faulty says where faults stand, each once: jobs inherit that of the regions.
func (s *settings) faulty(faults []ingest.Fault) error {
	var all []error
	inherited := ""
	for _, f := range faults {
		if f.Path == "regions" {
			inherited = f.Err.Error()
		}
		if f.Path == "regions" || inherited == "" || f.Err.Error() != inherited {
			all = append(all, s.place(f))
		}
	}
	return config(errors.Join(all...))
}

// names refuses jobs whose names viper would change: to lower case, or apart at dots.
func (s *settings) names() (faults []ingest.Fault) {
	if s.probe == nil { // they are of the demo
		return nil
	}
	for name := range s.probe.Jobs {
		if name != strings.ToLower(name) || strings.Contains(name, ".") {
			faults = append(faults, ingest.Fault{Path: "jobs." + name, Err: errors.New("a job's name is lower-case letters, digits and _, and begins with a letter")})
		}
	}
	return faults
}

// ours checks what only the command reads.
func (s *settings) ours() (faults []ingest.Fault) {
	if s.Endpoint != "" {
		if to, err := url.Parse(s.Endpoint); err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
			faults = append(faults, ingest.Fault{Path: "endpoint", Err: fmt.Errorf("%q is no address, as http://127.0.0.1:8080", shownAddress(s.Endpoint))})
		} else if strings.Trim(to.Path, "/") != "" || to.RawQuery != "" || to.User != nil {
			faults = append(faults, ingest.Fault{Path: "endpoint", Err: fmt.Errorf("write scheme, host and port only: %s://%s", to.Scheme, to.Host)})
		}
	}
	if _, err := open.Parse(s.Ledger); err != nil {
		faults = append(faults, ingest.Fault{Path: "ledger", Err: err})
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		faults = append(faults, ingest.Fault{Path: "log_level", Err: fmt.Errorf("there is no level %q; write debug, info, warn or error", s.LogLevel)})
	}
	if !slices.Contains([]string{"auto", "text", "json"}, s.LogFormat) {
		faults = append(faults, ingest.Fault{Path: "log_format", Err: fmt.Errorf("there is no format %q; write text, json or auto", s.LogFormat)})
	}
	return append(faults, s.served()...)
}

// metered is the upstream that jobs fetch from.
const metered = "youtube"

// priced returns an error if the price book lacks the upstream of one of these jobs.
// Only commands that run jobs, or plan them, need it.
func (s *settings) priced(jobs []*ingest.Job) error {
	if len(jobs) == 0 {
		return config(fmt.Errorf("there is no job to run: the built-in jobs fetch from %s, which the price book %s does not have\n"+
			"To have them, write `extends: builtin` into the price book", metered, s.Costs))
	}
	for _, j := range jobs {
		if s.book.Upstreams[j.Kind.Upstream()] == nil {
			return config(fmt.Errorf("job %s (kind %s) fetches from %s, which the price book %s does not have\n"+
				"Write `extends: builtin` into the price book, or remove the job", j.Name, j.Kind, j.Kind.Upstream(), s.Costs))
		}
	}
	return nil
}

// accountable checks the accounts and classes of jobs against the price book.
func (s *settings) accountable() (faults []ingest.Fault) {
	u := s.book.Upstreams[metered]
	if u == nil {
		return nil // see priced
	}
	fault := func(path, format string, args ...any) {
		faults = append(faults, ingest.Fault{Path: path, Err: fmt.Errorf(format, args...)})
	}
	for _, j := range s.List() {
		who := cmp.Or(j.Account, quota.DefaultAccount)
		if !slices.Contains(u.Accounts, who) {
			fault("jobs."+j.Name+".account", "the price book has no account %q; it has %s", who, strings.Join(u.Accounts, ", "))
		} else if _, ok := s.Accounts[who]; !ok && who != quota.DefaultAccount {
			fault("jobs."+j.Name+".account", "account %q has no key; name its file under accounts: {%s: {key_file: PATH}}", who, who)
		}
		if _, ok := u.Classes[j.Class]; !ok && j.Class != "" {
			fault("jobs."+j.Name+".class", "the price book has no class %q; it has %s", j.Class, strings.Join(slices.Sorted(maps.Keys(u.Classes)), ", "))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Accounts)) {
		if !slices.Contains(u.Accounts, name) {
			fault("accounts."+name, "the price book has no account %q; it has %s", name, strings.Join(u.Accounts, ", "))
		}
		if s.Accounts[name].KeyFile == "" {
			fault("accounts."+name, "name the file of its key: {key_file: PATH}")
		}
	}
	return faults
}

// defaultJobs are those of a configuration that has none.
func defaultJobs() map[string]any {
	return map[string]any{
		"trending":  map[string]any{"kind": "trending", "schedule": "15 * * * *", "jitter": "1m"},
		"stats":     map[string]any{"kind": "stats", "schedule": "40 */6 * * *"},
		"retention": map[string]any{"kind": "retention", "schedule": "45 */6 * * *"},
	}
}
