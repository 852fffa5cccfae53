package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/ledger"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
)

// guides returns the pages for users, by their path from the root.
func guides(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(paths) < 8 {
		t.Fatalf("found %d pages in docs: %v", len(paths), err)
	}
	pages := map[string]string{}
	for _, path := range append(paths, "../../README.md", "../../deploy/README.md", "../../bench/README.md", "../../quota/README.md", "README.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name, up := strings.CutPrefix(path, "../../")
		if !up {
			name = "cmd/ingestor/" + path
		}
		pages[name] = string(text)
	}
	return pages
}

// fenced returns the blocks of a kind in a page of Markdown.
func fenced(text, kind string) []string {
	var blocks []string
	for _, m := range regexp.MustCompile("(?ms)^```"+kind+"\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

func TestGuideShowsTheProof(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run([]string{"prove"}, nil, &stdout, &stderr); code != console.ExitDone {
		t.Fatalf("left with %d: %s", code, &stderr)
	}
	_, shown, found := strings.Cut(stdout.String(), "\n\nThe most")
	if !found || !slices.Equal(fenced(guides(t)["docs/promises.md"], "text"), []string{"The most" + shown}) {
		t.Errorf("docs/promises.md does not show:\n%s", &stdout)
	}
}

// TestGuideShowsThePlan runs the command of docs/plan.md with the configuration above it.
func TestGuideShowsThePlan(t *testing.T) {
	page := guides(t)["docs/plan.md"]
	f := newFolder(t, 1, "")
	f.write("ingestor.yaml", fenced(page, "yaml")[0])
	command := strings.Fields(fenced(page, "sh")[0])
	r := f.run(command[1:]...)
	if r.code != console.ExitDeferred || !slices.Equal(fenced(page, "text"), []string{r.stdout}) {
		t.Errorf("docs/plan.md does not show what %q prints, which left with %d:\n%s%s", command, r.code, r.stdout, r.stderr)
	}
}

// TestGuideSettingsAreValid reads the configurations in the guides.
func TestGuideSettingsAreValid(t *testing.T) {
	n := 0
	for page, text := range guides(t) {
		for _, block := range fenced(text, "yaml") {
			if !strings.HasPrefix(block, "# ingestor.yaml\n") {
				continue // a price book
			}
			n++
			f := newFolder(t, 1, "")
			f.write("ingestor.yaml", block)
			if strings.Contains(block, "\ncosts: costs.yaml\n") { // that of the page
				f.write("costs.yaml", fenced(text, "yaml")[0])
			}
			if r := f.run("config", "show"); r.code != console.ExitDone {
				t.Errorf("%s: config show left with %d for\n%s%s", page, r.code, block, r.stderr)
			}
		}
	}
	if n == 0 {
		t.Error("no guide shows an ingestor.yaml")
	}
}

// commands returns the root command with all its commands.
func commands() *cobra.Command {
	root := root((&session.Session{}))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	return root
}

func TestReadmeNamesEveryCommand(t *testing.T) {
	_, table, _ := strings.Cut(guides(t)["README.md"], "## Commands\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var named []string
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, m := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(cells[1], -1) {
				named = append(named, m[1])
			}
		}
	}
	var there []string
	for _, c := range commands().Commands() {
		there = append(there, c.Name())
	}
	slices.Sort(named)
	slices.Sort(there)
	if !slices.Equal(named, there) {
		t.Errorf("README.md names\n%q\nthe commands are\n%q", named, there)
	}
}

// strangers are the programs of the listings that are not ours.
var strangers = []string{"apt-get", "cd", "chmod", "cp", "curl", "docker", "dpkg", "gcloud", "go", "install", "journalctl", "kill", "ls", "make", "mkdir", "openssl", "pg_dump", "pg_restore", "psql", "python3", "riverui", "rm", "skopeo", "sqlite3", "systemctl"}

// TestGuidesNameWhatThereIs parses every command of ingestor that the guides name.
func TestGuidesNameWhatThereIs(t *testing.T) {
	words := regexp.MustCompile(`(?:'[^']*'|"[^"]*"|\$\([^)]*\)|[^\s'";&]|&&)+|[;&]`)
	parsed := 0
	parse := func(page, command string, whole bool) {
		t.Helper()
		args := words.FindAllString(command, -1)
		if i := slices.Index(args, "env"); i > 0 && slices.Contains(args[:i], "runuser") {
			args = args[i+1:] // the command of another user
		}
		for len(args) > 0 && (regexp.MustCompile(`^[A-Z_]+=`).MatchString(args[0]) || args[0] == "export") {
			args = args[1:]
		}
		if i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, ">") || a == "&" }); i >= 0 {
			args = args[:i]
		}
		switch {
		case len(args) > 3 && slices.Equal(args[:3], []string{"go", "run", "./cmd/ingestor"}):
			args = args[3:]
		case len(args) == 0 || slices.Contains(strangers, args[0]):
			return
		case args[0] != "ingestor":
			t.Errorf("%s: this test does not know the program of %q", page, command)
			return
		default:
			args = args[1:]
		}
		parsed++
		c, rest, err := commands().Find(ledger.Negatives(args))
		if err == nil {
			err = c.ParseFlags(rest)
		}
		if left := c.Flags().Args(); err == nil && c.HasSubCommands() && len(left) > 0 {
			err = fmt.Errorf("%s has no command %s", c.CommandPath(), left[0])
		} else if err == nil && whole {
			err = c.ValidateArgs(left)
		}
		if err != nil {
			t.Errorf("%s: %q: %v", page, command, err)
		}
	}
	for page, text := range guides(t) {
		for _, block := range fenced(text, "sh") {
			for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", "")) {
				line, _, _ = strings.Cut(line, " #")
				for _, command := range strings.FieldsFunc(strings.ReplaceAll(line, "&&", ";"), func(r rune) bool { return r == ';' }) {
					parse(page, strings.TrimSpace(command), true)
				}
			}
		}
		for _, m := range regexp.MustCompile("`(ingestor [^`.]+)`").FindAllStringSubmatch(regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(text, ""), -1) {
			parse(page, m[1], false)
		}
	}
	if parsed < 40 {
		t.Errorf("the guides name %d commands, want 40 at least", parsed)
	}
}

// The transcript in README.md is the beginning of what the demo prints.
func TestReadmeShowsTheDemo(t *testing.T) {
	page := guides(t)["README.md"]
	if fenced(page, "sh")[0] != "go run ./cmd/ingestor demo\n" {
		t.Errorf("README.md begins with another command than the demo's: %s", fenced(page, "sh")[0])
	}
	shown := fenced(page, "text")
	f := newFolder(t, 1, "")
	cmd := f.program(t.Context())
	cmd.Args, cmd.Env = []string{"ingestor", "demo"}, []string{"TMPDIR=" + f.dir}
	r := finish(t, cmd)
	folder := regexp.MustCompile(`/\S*/ingestor-demo-\d+`)
	if len(shown) != 1 || !strings.HasPrefix(folder.ReplaceAllString(r.stdout, "DIR"), folder.ReplaceAllString(shown[0], "DIR")) {
		t.Errorf("README.md shows\n%s\nthe demo says\n%s", shown, r.stdout)
	}
}

// sandboxAddress is where the README has the sandbox listen.
var sandboxAddress = regexp.MustCompile(`127\.0\.0\.1:809\d`)

// TestReadmeFetches runs the listing with which a new user begins, as it is printed but
// for the installation, the port and a wait for the sandbox to listen.
func TestReadmeFetches(t *testing.T) {
	t.Parallel()
	port := sandboxAddress.FindString(guides(t)["README.md"])
	listing := fenced(guides(t)["README.md"], "sh")[1]
	install, rest, _ := strings.Cut(listing, "\n")
	if !strings.HasPrefix(install, "go install ./cmd/ingestor ") || strings.Count(rest, port) != 2 {
		t.Fatalf("README.md begins to fetch in another way:\n%s", listing)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	rest = strings.ReplaceAll(rest, port, address)
	rest = strings.Replace(rest, "ingestor check", "for n in $(seq 3000); do ! grep -q http sandbox.log || break; sleep 0.02; done\ningestor check", 1)
	program, err := exec.LookPath("ingestor")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	cmd := exec.CommandContext(ctx, "bash", "-euc", "set -m; trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"+rest)
	cmd.WaitDelay = time.Second // if the sandbox outlives a failure
	cmd.Dir, cmd.Env = dir, []string{"HOME=" + dir, "PATH=" + filepath.Dir(program) + ":" + os.Getenv("PATH")}
	r := finish(t, cmd)
	for _, want := range []string{"ok       key:", "trending   US              4 ", "youtube/units", "chart of US, fetched "} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("README.md's commands do not print %q", want)
		}
	}
	if r.code != console.ExitDone || t.Failed() {
		t.Errorf("left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}
