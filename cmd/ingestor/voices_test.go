package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/ledger"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/notify"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/testing/lifetest"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/quota"
)

// voices is a life, with all that speaks of it: a server, and the commands.
type voices struct {
	*lifetest.Life
	server   *web.Server
	at       string
	measured *metrics.Metrics
	of       *quota.Ledger // that of the server
	settings *settings.Settings
	said     map[string]string // every line of text that was said, and by whom
	watcher  *notify.Watcher
	told     map[string]string // what a person was told of and is not over, by the id of its event
}

func newVoices(t *testing.T, seed uint64, kind lifetest.Kind) *voices {
	v := &voices{Life: lifetest.New(t, seed, kind), said: map[string]string{}, told: map[string]string{}}
	write := func(name, text string) { v.Must(os.WriteFile(v.Path(name), []byte(text), 0o600)) }
	write("costs.yaml", lifetest.Book)
	write("key", "a-key-of-the-tests\n")
	config := "regions: [US]\nworkers: 1\nledger: sqlite:ledger.db\ncatalog: catalog.db\ncosts: costs.yaml\nkey_file: key\nendpoint: " + v.Upstream() + "\njobs:\n"
	for name, j := range lifetest.Config().Jobs {
		config += fmt.Sprintf("  %s: {kind: %s, schedule: %q, pages: %d, regions: %s, misfire: %s}\n", name, j.Kind, j.Cron, j.Pages, or(strings.Join(j.Regions, ","), "US"), or(string(j.Misfire), "once"))
	}
	config = regexp.MustCompile(`regions: (\w\w),`).ReplaceAllString(config, "regions: [$1],")
	write("ingestor.yaml", config)
	s, err := settings.Load(v.Path("ingestor.yaml"), pflag.NewFlagSet("", pflag.ContinueOnError))
	v.Must(err)
	v.settings = s
	log := slog.New(slog.DiscardHandler)
	v.measured = metrics.New(&metrics.Options{Log: log, Share: -1})
	v.of = v.Ledger
	v.server, err = web.New(web.Sources{Sources: v.Sources()}, &web.Options{
		Clock: v.Clock, Log: log, Metrics: v.measured, Share: -1, MaxAge: s.MaxAge, Typed: s.Typed(), Timeouts: web.Timeouts{Query: time.Minute},
	})
	v.Must(err)
	front := httptest.NewServer(v.server)
	t.Cleanup(front.Close)
	v.at = front.URL
	person := httptest.NewServer(http.HandlerFunc(v.hear))
	t.Cleanup(person.Close)
	v.watcher = notify.New(v.Shelf, func() notify.Inputs {
		src := v.Sources()
		return notify.Inputs{Targets: map[string]notify.Target{"a person": {Webhook: person.URL}}, Sources: &src, Facts: s.Facts(v.Clock)}
	}, &notify.Options{Clock: v.Clock, Log: log})
	return v
}

// hear is a person who is told.
func (v *voices) hear(_ http.ResponseWriter, r *http.Request) {
	var is struct{ Data struct{ Items []notify.Item } }
	if err := json.NewDecoder(r.Body).Decode(&is); err != nil {
		v.Error(err)
	}
	for _, i := range is.Data.Items {
		if v.said[i.Text] = "a notice"; i.Ended.IsZero() {
			v.told[i.ID] = i.Text
		} else {
			delete(v.told, i.ID)
		}
	}
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// ask asks the server, which takes the ledger that is there after a restart.
func (v *voices) ask(path string) (status int, body string) {
	v.Helper()
	if v.of != v.Ledger {
		v.of = v.Ledger
		v.Must(v.server.Update(web.Sources{Sources: v.Sources()}, v.Ledger.Book()))
	}
	req, err := http.NewRequestWithContext(v.Context(), http.MethodGet, v.at+path, nil)
	v.Must(err)
	resp, err := http.DefaultClient.Do(req)
	v.Must(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	v.Must(err)
	return resp.StatusCode, string(text)
}

// command runs a command of the program in this process, by the clock of the life.
func (v *voices) command(args ...string) result {
	v.Helper()
	var stdout, stderr bytes.Buffer
	cmd := root(&session.Session{Clock: v.Clock, Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Abort: v.Context()})
	cmd.SetArgs(ledger.Negatives(args))
	err := cmd.ExecuteContext(v.Context())
	if err != nil {
		fmt.Fprintln(&stderr, err)
	}
	inJSON := strings.NewReplacer(`\n`, "\n", "\",\n", "\n", "\"\n", "\n")
	for line := range strings.Lines(inJSON.Replace(stdout.String()) + stderr.String()) {
		v.said[strings.TrimRight(line, "\n")] = strings.Join(args[:1], " ")
	}
	return result{console.ExitCode(err), stdout.String(), stderr.String()}
}

// voice is what one of them says. Empty fields are not said.
type voice struct {
	level, word, says string
	bad               *bool // for those that say only whether the level is bad
}

// A surface says how the life is. It returns false if it cannot say so now: then it must say that something is
// wrong, and the verdict must not be good.
type surface func(*voices) (voice, bool)

// surfaces are all that speak, each by the files that give a verdict: see TestNoOtherVoice.
var surfaces = map[string]surface{
	"the first page": func(v *voices) (voice, bool) {
		_, body := v.ask("/")
		m := regexp.MustCompile(`(?s)<section class="verdict (\w+)".*?</span> (.*?)</p>\s*<h1 id="verdict">(.*?)</h1>`).FindStringSubmatch(body)
		if m == nil {
			v.Fatalf("there is no verdict on\n%s", body)
		}
		for _, line := range regexp.MustCompile(`(?s)<(?:p|li|h1)[ >].*?</(?:p|li|h1)>`).FindAllString(body, -1) {
			v.said[plainText(line)] = "the first page"
		}
		return voice{level: m[1], word: plainText(m[2]), says: still(plainText(m[3]))}, true
	},
	"the icon of the other pages": func(v *voices) (voice, bool) {
		level := ""
		for _, path := range []string{"/runs", "/regions"} {
			_, body := v.ask(path)
			m := regexp.MustCompile(`/static/icon-(\w+)\.svg`).FindStringSubmatch(body)
			if m == nil || level != "" && level != m[1] {
				v.Fatalf("%s has no icon, or another than the page before:\n%s", path, body)
			}
			level = m[1]
		}
		return voice{level: level}, true
	},
	"/api/v1/quota": func(v *voices) (voice, bool) {
		status, body := v.ask("/api/v1/quota")
		var is verdict.Standing
		v.Must(json.Unmarshal([]byte(body), &is))
		if status != http.StatusOK {
			return voice{}, false
		}
		return spoken(is.Verdict), true
	},
	"/readyz": func(v *voices) (voice, bool) {
		status, body := v.ask("/readyz")
		var is struct{ Verdict struct{ Level, Word string } }
		v.Must(json.Unmarshal([]byte(body), &is))
		return voice{level: is.Verdict.Level, word: is.Verdict.Word}, status == http.StatusOK
	},
	"/readyz?jobs=yes": func(v *voices) (voice, bool) {
		status, _ := v.ask("/readyz")
		judged, _ := v.ask("/readyz?jobs=yes")
		bad := judged != http.StatusOK
		return voice{bad: &bad}, status == http.StatusOK
	},
	"/metrics": func(v *voices) (voice, bool) {
		_, body := v.ask("/metrics")
		return measuredVoice(v, body), true
	},
	"--metrics-file": func(v *voices) (voice, bool) {
		measured := metrics.New(&metrics.Options{Log: slog.New(slog.DiscardHandler)})
		measured.SetSources(v.Sources())
		measured.Judge(v.settings.Facts(v.Clock))
		v.Must(measured.WriteFile(v.Path("metrics.prom")))
		text, err := os.ReadFile(v.Path("metrics.prom"))
		v.Must(err)
		return measuredVoice(v, string(text)), true
	},
	// What check and quota say, where the stores are spoiled or the fleet is not in a database.
	"a command": func(v *voices) (voice, bool) {
		src := v.Sources()
		return spoken(v.settings.Facts(v.Clock).Read(v.Context(), &src).Verdict().Said()), true
	},
	"ingestor check": func(v *voices) (voice, bool) {
		if !v.files() {
			return voice{}, false
		}
		r := v.command("check", "--config", v.Path("ingestor.yaml"), "--output", "json")
		var all []struct{ What, State, About string }
		v.Must(json.Unmarshal([]byte(r.stdout), &all))
		for _, f := range all {
			if f.What != "jobs" {
				continue
			}
			word, rest, _ := strings.Cut(f.About, ": ")
			says, _, _ := strings.Cut(rest, ". ")
			if (f.State == "ok") != (v.level() == "good") {
				v.Errorf("check says %s, %s, and the verdict is %s", f.State, f.About, v.level())
			}
			return voice{word: word, says: says}, true
		}
		return voice{}, false
	},
	"ingestor quota": func(v *voices) (voice, bool) {
		if !v.files() {
			return voice{}, false
		}
		v.command("quota", "--config", v.Path("ingestor.yaml"))
		r := v.command("quota", "--config", v.Path("ingestor.yaml"), "--output", "json")
		var is verdict.Standing
		if r.code != console.ExitDone || json.Unmarshal([]byte(r.stdout), &is) != nil || is.Verdict == nil {
			return voice{}, false
		}
		return spoken(is.Verdict), true
	},
}

// files reports whether a command that opens the files finds the life in them.
func (v *voices) files() bool {
	return v.Kind != lifetest.Fleet && v.Store.Is() == lifetest.Well && v.Shelf.Is() == lifetest.Well
}

// level is that of a reader of its own.
func (v *voices) level() string {
	src := v.Sources()
	return string(v.settings.Facts(v.Clock).Read(v.Context(), &src).Verdict().Level)
}

func measuredVoice(v *voices, text string) voice {
	m := regexp.MustCompile(`ingestor_verdict\{level="(\w+)"\} 1`).FindAllStringSubmatch(text, -1)
	if len(m) != 1 {
		v.Fatalf("the metrics have %d verdicts:\n%s", len(m), text)
	}
	if m[0][1] == "good" && (strings.Contains(text, "\nheadroom_ledger_up 0") || strings.Contains(text, "\ningestor_catalog_up 0")) {
		v.Errorf("the verdict is good, and a store is down")
	}
	return voice{level: m[0][1]}
}

func spoken(s *verdict.Said) voice { return voice{level: string(s.Level), word: s.Word, says: s.Says} }

var tags = regexp.MustCompile(`<[^>]*>`)

func plainText(text string) string {
	return strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(text, ""))), " ")
}

// still takes from a sentence how far its times are from now.
func still(text string) string {
	return regexp.MustCompile(` \((?:now|in [^)]*|[^)]* ago)\)`).ReplaceAllString(text, "")
}

// agree asks all, and compares what they say with the first page.
func (v *voices) agree() {
	v.Helper()
	first, _ := surfaces["the first page"](v)
	v.Log("%s, %s: %s", first.level, first.word, first.says)
	for name, says := range surfaces {
		is, can := says(v)
		if !can {
			if first.level == "good" && v.files() {
				v.Errorf("%s cannot say how it is, and the first page says %s: %s", name, first.word, first.says)
			}
			continue
		}
		if is.level != "" && is.level != first.level || is.word != "" && is.word != first.word || is.says != "" && is.says != first.says || is.bad != nil && *is.bad != (first.level == "bad") {
			v.Errorf("%s says %+v, and the first page %+v", name, is, first)
		}
	}
	if v.Kind == lifetest.Fleet && v.Shelf.Is() == lifetest.Well {
		v.sameFindings()
	}
	for range 2 { // of some it tells when it has seen them twice
		v.watcher.Look(v.Context())
	}
	if len(v.told) == 0 && first.level == "bad" {
		v.Errorf("the first page says %s: %s, and nobody was told of anything", first.word, first.says)
	}
}

// sameFindings compares what the pages say of a fleet with its findings.
func (v *voices) sameFindings() {
	is, err := v.Sources().Fleet.Status(v.Context())
	v.Must(err)
	for _, path := range []string{"/", "/fleet"} {
		_, body := v.ask(path)
		for _, n := range verdict.OfFleet(&is, nil, v.settings.Typed()) {
			if !strings.Contains(plainText(body), still(n.Says.Still())) {
				v.Errorf("%s does not say %q:\n%s", path, n.Says, plainText(body))
			}
			v.said[n.Says.Still()] = path
		}
	}
	var daemon fleet.Daemon
	if len(is.Daemons) > 0 {
		daemon = is.Daemons[0]
	}
	if first, _ := surfaces["the first page"](v); first.level == "good" && !daemon.Alive() {
		v.Errorf("the first page is good, and the daemon is %+v", daemon)
	}
}

// TestOneVoice: whatever happens, the first page, the other pages, JSON, probes, metrics and commands say the
// same. Every command that they name is one of the program, with the flags that it needs.
func TestOneVoice(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	histories := 9
	if os.Getenv("HEADROOM_SOAK") == "1" {
		histories = 150
	}
	for seed := range uint64(histories) {
		kind := []lifetest.Kind{lifetest.Alone, lifetest.Fleet, lifetest.Timer}[seed%3]
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Setenv("XDG_STATE_HOME", t.TempDir()) // where the watchers of earlier histories have no lock
			v := newVoices(t, seed+1000, kind)
			v.lives()
		})
	}
}

// lives is a history of six events.
func (v *voices) lives() {
	v.Helper()
	for range 6 {
		v.Happen()
		if v.Hung() { // what waits in vain is in TestSayings
			v.Store.Set(lifetest.Well)
			v.Shelf.Set(lifetest.Full)
		}
		v.Pass(time.Minute)
		v.agree()
		if v.typed(); v.Failed() {
			v.Tell()
			return
		}
		v.Pass(time.Duration(v.Rand.IntN(90)) * time.Minute)
	}
}

// named finds the commands that a text tells a person to type.
var namedCommand = regexp.MustCompile(`: (ingestor [a-z][^;\n]*?)(?:\. The .*|\. Show|\.)?$`)

// typed parses every command that was named.
func (v *voices) typed() {
	v.Helper()
	for line, who := range v.said {
		if m := namedCommand.FindStringSubmatch(line); m != nil {
			v.parse(who, m[1])
		}
	}
}

func (v *voices) parse(who, command string) {
	v.Helper()
	args := shellWords(command)[1:]
	cmd, rest, err := commands().Find(args)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil || cmd == cmd.Root() {
		v.Errorf("%s names %q, which is no command: %v", who, command, err)
		return
	}
	config, ledger := cmd.Flags().Lookup("config"), cmd.Flags().Lookup("ledger")
	if config.Value.String() != v.Path("ingestor.yaml") && ledger.Value.String() != "sqlite:"+v.Path("ledger.db") {
		v.Errorf("%s names %q, which reads other files than those of %s", who, command, v.Path("ingestor.yaml"))
	}
}

// TestOneVoiceOfAnEarlierSoak: the server has a deleted ledger open, and commands see the new file. Once the daemon is
// gone, too, all say that nothing runs.
func TestOneVoiceOfAnEarlierSoak(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	v := newVoices(t, 1036, lifetest.Alone)
	v.Lacks = "a person sets a limit"
	v.lives()
}

// TestTheRemedyWorks: of a ledger that was deleted in use, the first page says what to do, and it removes the fault.
func TestTheRemedyWorks(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	v := newVoices(t, 1, lifetest.Alone)
	v.Pass(time.Hour)
	v.Delete()
	v.Pass(time.Minute)
	says := func() string {
		_, body := v.ask("/")
		return plainText(body)
	}
	if text := says(); !strings.Contains(text, "The ledger's file was deleted while it was in use") || !strings.Contains(text, "Stop all processes that use it, and start them again") {
		t.Fatal(text)
	}
	v.Restart()
	v.Pass(time.Minute)
	m := regexp.MustCompile(`then run: (ingestor quota adjust .*?ingestor\.yaml)`).FindStringSubmatch(says())
	if m == nil {
		t.Fatal(says())
	}
	if r := v.command(shellWords(m[1])[1:]...); r.code != console.ExitDone {
		t.Fatalf("%s: %d %s%s", m[1], r.code, r.stdout, r.stderr)
	}
	v.Pass(time.Minute)
	if is, _ := surfaces["the first page"](v); is.word == "Not known" || is.level == "bad" {
		t.Errorf("after %s it says %+v", m[1], is)
	}
	v.agree()
}

// shellWords splits a command as a shell does, with what a person writes for its placeholders.
func shellWords(command string) (args []string) {
	for _, a := range regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`).FindAllString(command, -1) {
		args = append(args, strings.NewReplacer(`'`, "", `"`, "", "UNITS", "1", "TEXT", "test", "POOL", "youtube/units").Replace(a))
	}
	return args
}

// TestNoOtherVoice: only these files judge facts, or read them. Whoever adds one adds what it says to surfaces.
func TestNoOtherVoice(t *testing.T) {
	known := []string{
		"internal/metrics/metrics.go",  // /metrics, --metrics-file
		"internal/notify/facts.go",     // whether a daemon is gone, for notices
		"internal/session/session.go",  // check, quota
		"internal/settings/paths.go",   // makes the reader of all commands
		"internal/web/feeds.go",        // /api/v1/quota
		"internal/web/pages/pages.go",  // the first page
		"internal/web/pages/region.go", // when a job runs next
		"internal/web/pages/render.go", // the icon of the other pages
		"internal/web/pages/run.go",    // when a job runs next
		"internal/web/serve.go",        // /readyz
		"internal/web/web.go",          // makes the reader of the server
	}
	speaks := regexp.MustCompile(`\.Verdict\(\)|verdict\.NewReader\(|\.Outlook\(|\.Gone\(\)|\.Silence\(\)`)
	var found []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/testing/") || strings.Contains(path, "internal/verdict/") {
			return err
		}
		text, err := os.ReadFile(path)
		if speaks.Match(text) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	if !slices.Equal(found, known) {
		t.Errorf("these speak:\n%q\nand these are known:\n%q", found, known)
	}
	rules, err := os.ReadFile("../../deploy/rules.yaml")
	if err != nil || !strings.Contains(string(rules), `expr: ingestor_verdict{level="bad"} == 1`) {
		t.Errorf("no alert tells of a verdict that is bad: %v", err)
	}
}
