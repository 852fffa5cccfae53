// Package settings reads the configuration of the program: flags, variables, ingestor.yaml
// and defaults, each value with the place that it comes from.
package settings

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/notify"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/proxy"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/guard"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/internal/strictyaml"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book/keys"
	"github.com/headroom-quota/headroom/quota/meter"
	"github.com/headroom-quota/headroom/quota/open"
)

// Settings are the settings in force. Each field is one setting, and its tags say all
// that the program knows of it. The tag yaml has its name in ingestor.yaml, of which its
// variable and its flag are made. The tag flag has the help of its flag, if it has one,
// with the placeholder in single quotes. The tag restart says that SIGHUP cannot change
// it, and the tag zero that 0 is refused. The tag group says which commands have the flags. The
// tags doc, words and range are for the schema, and mean what they mean in a price book.
type Settings struct {
	Ledger    string `yaml:"ledger,omitempty" restart:"yes" flag:"'address': sqlite:, redis://, postgres:// or memory: (default in your state folder)" doc:"Where the ledger is: sqlite:PATH, a redis://, rediss:// or postgres:// URL, or memory:."`
	Catalog   string `yaml:"catalog,omitempty" restart:"yes" flag:"SQLite 'file' with the fetched data (default in your state folder)" doc:"The SQLite file with the fetched data."`
	Database  string `yaml:"database,omitempty" restart:"yes" flag:"PostgreSQL 'URL' of the fetched data, instead of --catalog" doc:"The postgres:// URL of the database with the fetched data. With it catalog is not used, and run shares its jobs with other machines."`
	PollOnly  bool   `yaml:"poll_only,omitempty" restart:"yes" doc:"For a database behind PgBouncer in transaction mode: ask for work once a second instead of listening for it."`
	FleetSize int    `yaml:"fleet_size,omitempty" restart:"yes" zero:"no" range:"1.." doc:"How many machines share the ledger: in an outage each spends its part of what one machine may spend."`
	Costs     string `yaml:"costs,omitempty" flag:"price book 'file', or a built-in one such as builtin/github (default builtin)" doc:"The price book: a file, or a built-in one such as builtin/github; builtin if empty."`
	Endpoint  string `yaml:"endpoint,omitempty" restart:"yes" doc:"Another address of the upstream, such as that of ingestor sandbox: https, or http on this machine."`

	KeyFile  string             `yaml:"key_file,omitempty" doc:"A file with the API key. YOUTUBE_API_KEY takes precedence."`
	Accounts map[string]account `yaml:"accounts,omitempty" doc:"The keys of further accounts of the price book."`

	Tokens map[string]caller `yaml:"tokens,omitempty" doc:"The programs that reserve over HTTP, each with a token of its own."`

	Keys map[string]keyFile `yaml:"keys,omitempty" restart:"yes" doc:"The API keys of other upstreams, for ingestor proxy and call, by the upstream, as github, or with its account, as github@team."`

	Notify map[string]notify.Target `yaml:"notify,omitempty" doc:"Whom to tell when the quota or the jobs need somebody, and once more when that is over: a webhook, a command or addresses of mail, each under a name."`
	Ping   string                   `yaml:"ping,omitempty" secret:"yes" doc:"The address of a dead man's switch, such as https://hc-ping.com/KEY/{job}. It is asked with /start when a run begins, and with the exit code when it ends."`

	LogFormat string `yaml:"log_format,omitempty" restart:"yes" flag:"log 'format': text, json or auto" words:"auto|text|json" doc:"The format of the log. auto is text on a terminal and json elsewhere."`
	LogLevel  string `yaml:"log_level,omitempty" restart:"yes" flag:"log 'level': debug, info, warn or error" words:"debug|info|warn|error" doc:"The lowest level that is logged."`

	Serving       `yaml:",inline" group:"servers"`
	Proxying      `yaml:",inline" group:"servers"`
	Reconciling   `yaml:",inline" group:"counts"`
	ingest.Config `yaml:",inline"`

	File    string           `yaml:"-"` // that was read; empty: none
	Text    []byte           `yaml:"-"` // of the file
	tree    *strictyaml.Node // of the text; nil: there is no file
	Flags   *pflag.FlagSet   `yaml:"-"` // of the command
	Book    *quota.Book      `yaml:"-"` // the price book
	callers bool             // the price book has the budget of callers
	// Unbilled says of callers with a bound in money which upstreams it does not bound.
	Unbilled map[string]string `yaml:"-"`
	State    string            `yaml:"-"` // the folder for what is kept between runs
	Fresh    bool              `yaml:"-"` // the ledger is trusted as it is found
	Key      meter.KeySource   `yaml:"-"` // replaces the environment and key_file; nil: they hold
}

// account is a further account of the price book.
type account struct {
	KeyFile string `yaml:"key_file" doc:"A file with its API key."`
	Project string `yaml:"google_project,omitempty" doc:"The Google project of its API key, for ingestor reconcile and watch."`
}

// DefaultSettings are the settings where nothing else is said. State is the folder for
// what is kept between runs.
func DefaultSettings(state string) *Settings {
	return &Settings{
		Ledger:      "sqlite:" + filepath.Join(state, "ledger.db"),
		Catalog:     filepath.Join(state, "catalog.db"),
		FleetSize:   1,
		LogFormat:   "auto",
		LogLevel:    "info",
		Proxying:    Proxying{ProxyWaiting: proxy.DefaultWaiting, ProxyGrace: proxy.DefaultGrace},
		Serving:     Serving{Listen: "127.0.0.1:8080", Hosts: []string{}, TrustedProxies: []string{}, MaxAge: web.DefaultMaxAge},
		Reconciling: Reconciling{WatchEvery: watchEvery},
		Config:      ingest.DefaultConfig(),
		State:       state,
	}
}

// Load reads the settings. Viper decides which source wins: a flag, then a variable, then
// the file, then the default.
func Load(path string, flags *pflag.FlagSet) (*Settings, error) {
	state, err := open.StateDir("ingestor")
	if err != nil {
		return nil, console.Config(fmt.Errorf("%w, or name the files with --ledger and --catalog", err))
	}
	s := &Settings{State: state, Flags: flags}
	if err := s.read(path); err != nil {
		return nil, console.Config(err)
	}
	if err := unknownVariables(); err != nil {
		return nil, console.Config(err)
	}
	if !s.Says("jobs") {
		s.Jobs = map[string]ingest.Job{ // of a configuration without jobs
			"trending": {Kind: ingest.Trending, Cron: "15 * * * *", Jitter: time.Minute},
			"stats":    {Kind: ingest.Stats, Cron: "40 */6 * * *"},
		}
	}
	if err := s.placed(s.choose()); err != nil {
		return nil, err
	}
	if err := s.absolute(); err != nil {
		return nil, console.Config(err)
	}
	return s, s.Check()
}

// choose sets each setting to what its first source says.
func (s *Settings) choose() (faults faults) {
	v, file, defaults := viper.New(), map[string]any{}, DefaultSettings(s.State)
	for _, set := range AllSettings {
		v.SetDefault(set.Key, set.Value(defaults))
		v.MustBindEnv(set.Key, set.Variable())
		if f := s.Flags.Lookup(set.Flag()); f != nil && set.Usage != "" { // regions has a --max-age of its own
			_ = v.BindPFlag(set.Key, f) // it fails without a flag
		}
		if s.Says(set.Key) {
			file[set.Key] = set.Value(s)
		}
	}
	if err := v.MergeConfigMap(file); err != nil {
		faults.add("", "%w", err)
	}
	for _, set := range AllSettings {
		to := reflect.ValueOf(s).Elem().FieldByIndex(set.field)
		value, err := FromText(to.Type(), v.Get(set.Key))
		if err != nil {
			faults.add(set.Key, "%w", err)
			continue
		}
		to.Set(reflect.ValueOf(value).Convert(to.Type()))
	}
	return faults
}

// FromText reads the text of a variable or of a flag. Other values stay.
func FromText(to reflect.Type, value any) (any, error) {
	text, is := value.(string)
	switch {
	case !is:
		return value, nil
	case to == reflect.TypeFor[time.Duration]():
		d, err := time.ParseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not a duration; write it with its unit, as 90s or 6h", text)
		}
		return d, nil
	case to == reflect.TypeFor[[]string]():
		list := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
		if len(list) == 0 {
			return nil, fmt.Errorf("%q names nothing", text)
		}
		return list, nil
	case to.Kind() == reflect.Int || to.Kind() == reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not a whole number", text)
		}
		return n, nil
	case to.Kind() == reflect.Bool:
		is, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("%q is neither true nor false", text)
		}
		return is, nil
	}
	return value, nil
}

// read reads the file of settings. Without a path it reads ./ingestor.yaml, or the one in
// the configuration folder of the user. Both may be missing.
func (s *Settings) read(path string) error {
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
			return fmt.Errorf("there is no configuration %s\nTo write one: ingestor init", name)
		}
		if err != nil {
			return fmt.Errorf("read the configuration: %w", err)
		}
		if s.File, err = filepath.Abs(name); err != nil {
			return err
		}
		s.Text = bytes.TrimPrefix(text, []byte("\ufeff")) // some editors begin with it
		return s.parse()
	}
	return nil
}

// Check refuses invalid values, each with its place.
func (s *Settings) Check() error {
	if err := s.placed(s.zeros()); err != nil { // Prepare would take them for the default
		return err
	}
	if err := s.placed(slices.Concat(s.Prepare(), s.checkCommand(), s.checkServer(), s.checkCallers(), s.checkProxy(), s.checkNotify())); err != nil {
		return err
	}
	var err error
	if s.Book, err = headroom.Load(s.Costs); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w\nTo use the built-in one, leave out costs", err)
		}
		return console.Config(err)
	}
	if caller, err := s.BoundMoney(s.Grants()); err != nil {
		return s.placed(faults{{Path: "tokens." + caller + ".calls.budget", Err: err}})
	}
	s.learnLimits()
	if s.Book.Upstreams[Metered] == nil { // this price book has no prices for the jobs that nobody wrote
		maps.DeleteFunc(s.Jobs, func(name string, _ ingest.Job) bool { return !s.Says("jobs", name) })
	}
	return s.placed(s.checkAccounts())
}

// callersBudget is the budget of the callers that may spend so much money on a day.
const callersBudget = "callers"

// BoundMoney adds a budget to the price book for the callers, tokens or a job, whose bound is an amount. Its error is
// that of the caller.
func (s *Settings) BoundMoney(grants map[string]*access.Grant) (caller string, err error) {
	inMoney := func(caller string) bool { // checkProxy has refused a wrong one
		_, millionths, err := grants[caller].Budget.Read()
		return millionths > 0 && err == nil
	}
	callers := slices.DeleteFunc(slices.Sorted(maps.Keys(grants)), func(caller string) bool { return !inMoney(caller) })
	if len(callers) == 0 {
		return "", nil
	}
	d := s.Book.Keys().Budgets[callersBudget]
	switch {
	case d == nil:
		d = &keys.Budget{Quota: "none", Windows: []keys.Window{{Per: "day"}}, By: []keys.Source{{Call: "caller"}}, Keys: map[string]string{}}
	case !s.callers:
		return callers[0], fmt.Errorf("the price book has a budget %s of its own; write the amount there, in its keys: {%s: %s}", callersBudget, callers[0], grants[callers[0]].Budget)
	}
	for _, caller := range callers {
		g, of := grants[caller], len(d.Of)
		var free []string
		for _, name := range g.Upstreams {
			if u := s.Book.Upstreams[name]; u != nil && u.Bills() {
				d.Of = append(d.Of, name)
			} else if u != nil {
				free = append(free, name)
			}
		}
		if len(free) > 0 {
			if s.Unbilled == nil {
				s.Unbilled = map[string]string{}
			}
			s.Unbilled[caller] = fmt.Sprintf("its budget of %s does not bound the calls of %s, for which the price book has no prices in money", g.Budget, strings.Join(free, ", "))
		}
		if len(d.Of) == of {
			return caller, fmt.Errorf("%s needs prices in money, and the price book has none for %s\nFor models, extend one with prices, as in extends: builtin/openai-prices\n"+
				"To list the built-in ones: ingestor costs list", g.Budget, strings.Join(g.Upstreams, ", "))
		}
		d.Keys[caller] = string(g.Budget)
	}
	slices.Sort(d.Of)
	d.Of, s.callers = slices.Compact(d.Of), true
	if s.Book, err = s.Book.With(callersBudget, d); err == nil {
		s.learnLimits()
	}
	return "", err
}

// faults are what is wrong with settings, each with the path of its setting.
type faults []ingest.Fault

func (f *faults) add(path, format string, args ...any) {
	*f = append(*f, ingest.Fault{Path: path, Err: fmt.Errorf(format, args...)})
}

// placed adds the place of each fault. A fault of the regions is reported once, though the
// jobs inherit it.
func (s *Settings) placed(faults faults) error {
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
	return console.Config(errors.Join(all...))
}

// zeros refuses settings that are 0 and must not be.
func (s *Settings) zeros() (faults faults) {
	for _, set := range AllSettings {
		if set.nonzero && reflect.ValueOf(set.Value(s)).IsZero() {
			faults.add(set.Key, "%w", errZero)
		}
	}
	return faults
}

// checkCommand checks the settings that only this command reads.
func (s *Settings) checkCommand() (faults faults) {
	if s.Endpoint != "" {
		if to, err := url.Parse(s.Endpoint); err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
			faults.add("endpoint", "%q is not an address, as http://127.0.0.1:8080", open.Shown(s.Endpoint))
		} else if strings.Trim(to.Path, "/") != "" || to.RawQuery != "" || to.User != nil {
			faults.add("endpoint", "write scheme, host and port only: %s://%s", to.Scheme, to.Host)
		} else if to.Scheme == "http" && !guard.Loopback(to.Host) {
			faults.add("endpoint", "write https://%s: the key is sent to it, and plain http is for this machine only, as http://127.0.0.1:8080", to.Host)
		}
	}
	if s.Database != "" && !IsDatabase(s.Database) { // it may hold a password
		faults.add("database", "it is not the URL of a PostgreSQL database, as postgres://user@host/database")
	}
	if _, err := open.Parse(s.Ledger); err != nil {
		faults.add("ledger", "%w", err)
	}
	if s.WatchEvery < time.Minute || s.WatchEvery > 12*time.Hour {
		faults.add("watch_every", "it must be 1m to 12h: Google counts by the minute")
	}
	if s.FleetSize < 0 {
		faults.add("fleet_size", "%d is no number of machines", s.FleetSize)
	}
	for _, set := range AllSettings {
		if value := fmt.Sprint(set.Value(s)); len(set.Enum) > 0 && !slices.Contains(set.Enum, strings.ToLower(value)) {
			faults.add(set.Key, "%q is not one of %s", value, strings.Join(set.Enum, ", "))
		}
	}
	return faults
}

// Metered is the upstream of the jobs.
const Metered = "youtube"

// Priced returns an error if the price book lacks the upstream of one of these jobs.
// Only commands that run jobs, or plan them, need it.
func (s *Settings) Priced(jobs []*ingest.Job) error {
	if len(jobs) == 0 {
		return console.Config(fmt.Errorf("there is no job to run: the built-in jobs fetch from %s, which the price book %s does not have\n"+
			"To have them, write `extends: builtin` into the price book", Metered, s.Costs))
	}
	for _, j := range jobs {
		if !j.Kind.Runs() && s.Book.Upstreams[j.Kind.Upstream()] == nil {
			return console.Config(fmt.Errorf("job %s (kind %s) fetches from %s, which the price book %s does not have\n"+
				"Write `extends: builtin` into the price book, or remove the job", j.Name, j.Kind, j.Kind.Upstream(), s.Costs))
		}
	}
	return nil
}

// checkAccounts checks the accounts and classes of jobs against the price book.
func (s *Settings) checkAccounts() (faults faults) {
	for _, j := range s.List() {
		if j.Kind.Runs() {
			s.known(j.Upstreams, j.Account, j.Class, func(what, format string, args ...any) {
				faults.add("jobs."+j.Name+"."+what, format, args...)
			})
		}
	}
	u := s.Book.Upstreams[Metered]
	if u == nil {
		return faults // see priced
	}
	for _, j := range s.List() {
		if j.Kind.Runs() {
			continue
		}
		who := cmp.Or(j.Account, quota.DefaultAccount)
		if !slices.Contains(u.Accounts, who) {
			faults.add("jobs."+j.Name+".account", "the price book has no account %q; it has %s", who, strings.Join(u.Accounts, ", "))
		} else if _, ok := s.Accounts[who]; !ok && who != quota.DefaultAccount {
			faults.add("jobs."+j.Name+".account", "account %q has no key; name its file under accounts: {%s: {key_file: PATH}}", who, who)
		}
		if _, ok := u.Classes[j.Class]; !ok && j.Class != "" {
			faults.add("jobs."+j.Name+".class", "the price book has no class %q; it has %s", j.Class, strings.Join(slices.Sorted(maps.Keys(u.Classes)), ", "))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Accounts)) {
		if !slices.Contains(u.Accounts, name) {
			faults.add("accounts."+name, "the price book has no account %q; it has %s", name, strings.Join(u.Accounts, ", "))
		}
		if s.Accounts[name].KeyFile == "" {
			faults.add("accounts."+name, "name the file of its key: {key_file: PATH}")
		}
	}
	return faults
}

var errTargetName = errors.New("the name of a target has up to 40 lower-case letters, digits, - and _")

// checkNotify checks the targets of notices, and the dead man's switch.
func (s *Settings) checkNotify() (faults faults) {
	for _, name := range slices.Sorted(maps.Keys(s.Notify)) {
		path := "notify." + name
		if !CallerName().MatchString(name) {
			faults.add(path, "%w", errTargetName)
		}
		t := s.Notify[name]
		found := t.Check()
		for _, field := range slices.Sorted(maps.Keys(found)) {
			faults.add(strings.TrimSuffix(path+"."+field, "."), "%w", found[field])
		}
	}
	if err := notify.CheckPing(s.Ping); err != nil {
		faults.add("ping", "%w", err)
	}
	return faults
}

// UpstreamsOf returns the upstreams that the program of a job may call.
func (s *Settings) UpstreamsOf(j *ingest.Job) []string {
	return s.known(j.Upstreams, "", "", func(string, string, ...any) {})
}

// known returns the named upstreams, or all of the price book. It reports what the price book
// does not have.
func (s *Settings) known(upstreams []string, account, class string, fault func(what, format string, args ...any)) []string {
	all := s.Book.Metered()
	if len(upstreams) == 0 {
		upstreams = all
	}
	account = cmp.Or(account, quota.DefaultAccount)
	hasAccount, hasClass := account == quota.DefaultAccount, class == ""
	for _, name := range upstreams {
		u := s.Book.Upstreams[name]
		if u == nil {
			fault("upstreams", "the price book has no upstream %q; it has %s", name, strings.Join(all, ", "))
			return upstreams
		}
		_, has := u.Classes[class]
		hasClass = hasClass || has
		hasAccount = hasAccount || u.AnyAccount || slices.Contains(u.Accounts, account)
	}
	if !hasAccount {
		fault("account", "none of %s has the account %q", strings.Join(upstreams, ", "), account)
	}
	if !hasClass {
		fault("class", "none of %s has the class %q", strings.Join(upstreams, ", "), class)
	}
	return upstreams
}

// KnownFlags is known for the flags of a command, which it completes.
func (s *Settings) KnownFlags(upstreams *[]string, account, class string) (err error) {
	*upstreams = s.known(*upstreams, account, class, func(what, format string, args ...any) {
		if what == "upstreams" {
			what = "upstream"
		}
		err = errors.Join(err, console.Usage("--%s: %w", what, fmt.Errorf(format, args...)))
	})
	return err
}

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
