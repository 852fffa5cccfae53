package taken

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/headroom-quota/headroom/internal/shell"
	"github.com/headroom-quota/headroom/internal/testing/guides"
)

const tree = "github.com/headroom-quota/headroom"

// version is that which the modules require of each other.
var version = func() string {
	text, err := os.ReadFile("../../../cmd/ingestor/go.mod")
	_, required, found := strings.Cut(string(text), "\t"+tree+" ")
	if err != nil || !found {
		panic(fmt.Sprint("cmd/ingestor/go.mod requires no version of the root module: ", err))
	}
	return strings.Fields(required)[0]
}()

// modules are those that a tag publishes.
var modules = []string{"", "quota/observe", "quota/meter/grpcmeter", "quota/open", "quota/pgstore", "ingest", "cmd/ingestor"}

// file is one file of an archive.
type file struct{ at, name string }

func (f file) Path() string                 { return f.name }
func (f file) Lstat() (fs.FileInfo, error)  { return os.Lstat(f.at) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(f.at) }

// proxy is a folder with the archives of all modules.
func proxy(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	layOut(t, dir, "--cached", "--others", "--exclude-standard") // new files, too
	return dir
}

// layOut writes the archives of all modules into a folder, as a proxy of modules does. They have
// the files that git ls-files lists for these flags.
func layOut(t *testing.T, dir string, flags ...string) {
	t.Helper()
	list := exec.Command("git", append([]string{"ls-files", "-z"}, flags...)...)
	list.Dir = guides.Root
	out, err := list.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	files := map[string][]zip.File{}
	for name := range strings.SplitSeq(strings.Trim(string(out), "\x00"), "\x00") {
		at := filepath.Join(guides.Root, name)
		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, but not yet in git
		}
		if err == nil && info.Size() > 1<<20 { // every user would download it
			t.Errorf("%s has %d bytes: is it a program that was built?", name, info.Size())
		}
		in := path.Dir(name) // the innermost folder with a go.mod
		for in != "." {
			if _, err := os.Stat(filepath.Join(guides.Root, in, "go.mod")); err == nil {
				break
			}
			in = path.Dir(in)
		}
		in = strings.TrimPrefix(in, ".")
		if strings.HasPrefix(name, ".ci/tools/") {
			in = ".ci/tools"
		}
		files[in] = append(files[in], file{at: at, name: strings.TrimPrefix(strings.TrimPrefix(name, in), "/")})
	}
	for _, m := range modules {
		v := module.Version{Path: strings.TrimSuffix(tree+"/"+m, "/"), Version: version}
		if m != "" { // go does so too, when it makes the archive of a module from git
			files[m] = append(files[m], file{at: filepath.Join(guides.Root, "LICENSE"), name: "LICENSE"})
		}
		at := filepath.Join(dir, v.Path, "@v")
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		mod, err := os.ReadFile(filepath.Join(guides.Root, m, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		var archive bytes.Buffer
		if err := zip.Create(&archive, v, files[m]); err != nil {
			t.Fatalf("%s: %v", v.Path, err)
		}
		for name, text := range map[string][]byte{
			"list": []byte(version + "\n"), version + ".info": []byte(`{"Version":"` + version + `","Time":"2026-11-27T00:00:00Z"}`),
			version + ".mod": mod, version + ".zip": archive.Bytes(),
		} {
			if err := os.WriteFile(filepath.Join(at, name), text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// user is a module outside the tree.
type user struct {
	t     *testing.T
	dir   string
	env   []string
	cache string // what this machine has downloaded before
}

var downloaded sync.Once

// newUser makes a module whose only source of modules is the proxy, and what this machine has
// downloaded before.
func newUser(t *testing.T, proxy, source string) *user {
	t.Helper()
	u := &user{t: t, dir: guides.Root, env: []string{"GOWORK=off"}}
	// go test downloads what it builds here. A user's go command also reads what other systems
	// build, and the names of all modules.
	downloaded.Do(func() {
		u.gocmd("mod", "download")
		u.gocmd("list", "-m", "all")
	})
	u.cache = strings.TrimSpace(u.gocmd("env", "GOMODCACHE"))
	u.dir = t.TempDir()
	mods := filepath.Join(t.TempDir(), "mod")
	// With -trimpath, go build reads from its cache what the same version was built to, wherever
	// its folder is.
	u.env = []string{
		"GOWORK=off", "GOFLAGS=-mod=mod -modcacherw -trimpath", "GOSUMDB=off", "GONOPROXY=", "GOPRIVATE=", "GOVCS=*:off", "GOMODCACHE=" + mods, "GOTOOLCHAIN=local",
		"GOPROXY=file://" + filepath.ToSlash(proxy) + ",file://" + filepath.ToSlash(filepath.Join(u.cache, "cache/download")),
	}
	for name, text := range map[string]string{"go.mod": "module example.com/user\n\ngo 1.26.0\n", "main.go": source} {
		if err := os.WriteFile(filepath.Join(u.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return u
}

// gocmd runs the go command in the module, and returns what it prints.
func (u *user) gocmd(args ...string) string {
	u.t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = u.dir, append(os.Environ(), u.env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		u.t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return string(out)
}

// small meters a client by a price book in memory.
const small = `package main

import (
	"fmt"
	"net/http"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

func main() {
	book, err := headroom.Load("")
	if err != nil {
		panic(err)
	}
	ledger, err := quota.New(book, memstore.New(nil), nil)
	if err != nil {
		panic(err)
	}
	transport, err := meter.New(ledger, nil)
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: transport}
	fmt.Println(client != nil, len(book.Upstreams))
}
`

// A program that takes the ledger, the memory store and the transport gets few modules. Those
// that only the program, the jobs or the exporters need are not among them, so its own versions of
// them stay.
func TestASmallUserTakesFewModules(t *testing.T) {
	u := newUser(t, proxy(t), small)
	u.gocmd("get", tree+"@"+version)
	u.gocmd("mod", "tidy")
	if got := u.gocmd("run", "."); got != "true 1\n" {
		t.Errorf("the program printed %q", got)
	}
	all := strings.Split(strings.TrimSpace(u.gocmd("list", "-m", "all")), "\n")
	if len(all) > 40 {
		t.Errorf("go list -m all has %d modules, at most 40 are allowed:\n%s", len(all), strings.Join(all, "\n"))
	}
	for _, m := range all {
		for _, foreign := range []string{"google.golang.org/", "cloud.google.com/", "go.opentelemetry.io/", "github.com/prometheus/", "github.com/spf13/", "github.com/riverqueue/", "github.com/envoyproxy/", "github.com/jackc/"} {
			if strings.HasPrefix(m, foreign) {
				t.Errorf("the library brings %s", m)
			}
		}
	}
	sums, err := os.ReadFile(filepath.Join(u.dir, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("go list -m all: %d modules; go.sum: %d lines", len(all), bytes.Count(sums, []byte("\n")))
}

// The commands that docs/library.md gives until the first tag bring quota/open to a program beside
// the clone.
func TestWhatToDoBeforeTheFirstTag(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(guides.Root, "docs/library.md"))
	if err != nil {
		t.Fatal(err)
	}
	var commands string
	for _, block := range strings.Split(string(text), "```sh\n")[1:] {
		if block, _, _ = strings.Cut(block, "```"); strings.Contains(block, "go work init") {
			commands = block
		}
	}
	u := newUser(t, t.TempDir(), opens) // without a proxy: it takes all from the clone
	// The tests of the tree may have downloaded other versions than this program gets.
	from := (&user{t: t, dir: guides.Root}).gocmd("env", "GOPROXY")
	clone, err := filepath.Abs(guides.Root)
	if err != nil {
		t.Fatal(err)
	}
	// The clone is where it is, not beside the program: there, all of it would be compiled anew.
	if strings.Count(commands, "../headroom") < 3 {
		t.Fatalf("docs/library.md has the clone elsewhere than in ../headroom:\n%s", commands)
	}
	commands = strings.ReplaceAll(commands, "../headroom", shell.Quote(clone))
	u.env = append(u.env, "GOWORK=", "GOFLAGS=", "GOPROXY=off", "GOMODCACHE="+u.cache) // so little is compiled anew
	typed := exec.Command("bash", "-euc", commands+"mv ../main.go .\nGOPROXY="+shell.Quote(strings.TrimSpace(from))+" go list -deps . >../deps\ngo run .\n")
	typed.Dir, typed.Env = u.dir, append(os.Environ(), u.env...)
	if out, err := typed.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "true <nil>\n") {
		t.Errorf("%s\n%s%v", commands, out, err)
	}
}

// opens opens a ledger by its address.
const opens = `package main

import (
	"context"
	"fmt"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota/open"
)

func main() {
	client, opened, err := open.Client(context.Background(), "sqlite:ledger.db", headroom.File(""), nil)
	if err == nil {
		err = opened.Close()
	}
	fmt.Println(client != nil, err)
}
`
