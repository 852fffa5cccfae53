// Mutants breaks a package in many places, one at a time, and lists the breaks that no test notices.
//
//	go run -C .ci/tools ./mutants -n 300 -seed 1 ./quota/meter [./other/package/with/tests ...]
//
// A mutant flips a condition or drops a call. A seed samples them. All are compiled into one test binary,
// and a variable of the environment chooses one, so that nothing is compiled again. Each test is
// run once to learn which mutants it reaches; a mutant meets only those tests, the quick ones
// first. The packages after the first are tests that the survivors meet as well.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// mutant is one break.
type mutant struct {
	id         int
	file       string
	start, end int // offsets of what is broken
	line       int
	text       string // what is broken
	flips      bool   // a condition; else a call is dropped
}

func (m *mutant) String() string {
	what := "drops"
	if m.flips {
		what = "flips"
	}
	return fmt.Sprintf("%3d %s:%d %s %s", m.id, filepath.Base(m.file), m.line, what, m.text)
}

var (
	count   = flag.Int("n", 300, "how many mutants to sample")
	seed    = flag.Uint64("seed", 1, "chooses the sample")
	workers = flag.Int("j", runtime.NumCPU(), "how many run at once")
	only    = flag.Int("only", 0, "the id of the only mutant to run, with the output of its tests")
	skip    = flag.String("skip", "", "tests to leave out, as a regular expression of go test -skip")
	slow    = flag.Duration("slow", 20*time.Second, "leave out tests that take longer by themselves")
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	if flag.NArg() == 0 {
		log.Fatal("name a package, such as ./quota/meter")
	}
	if err := run(flag.Args()); err != nil {
		log.Fatal(err)
	}
}

func run(packages []string) error {
	root, err := output("", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	dir := filepath.Join(root, packages[0])
	all, err := find(dir)
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(*seed, 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	fmt.Printf("%s has %d places; %d are sampled with seed %d\n", packages[0], len(all), min(*count, len(all)), *seed)
	all = all[:min(*count, len(all))]
	for i := range all {
		all[i].id = i + 1
	}
	work, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	overlay, err := write(work, dir, all)
	if err != nil {
		return err
	}
	alive := all
	for _, name := range packages {
		b, err := build(root, work, name, overlay)
		if err != nil {
			return err
		}
		if *only != 0 {
			return b.show(*only)
		}
		if alive, err = b.hunt(alive); err != nil {
			return err
		}
		fmt.Printf("%s: %d of %d survive\n", name, len(alive), len(all))
	}
	for _, m := range alive {
		fmt.Println(&m)
	}
	return nil
}

// find returns the mutants of the package in a folder.
func find(dir string) (all []mutant, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		name := filepath.Base(path)
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_other.go") || strings.HasSuffix(name, "_windows.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, text, 0)
		if err != nil {
			return nil, err
		}
		add := func(n ast.Node, flips bool) {
			start, end := set.Position(n.Pos()), set.Position(n.End())
			what := strings.Join(strings.Fields(string(text[start.Offset:end.Offset])), " ")
			all = append(all, mutant{file: path, start: start.Offset, end: end.Offset, line: start.Line, text: what[:min(len(what), 90)], flips: flips})
		}
		ast.Inspect(file, func(n ast.Node) bool {
			var list []ast.Stmt
			switch n := n.(type) {
			case *ast.IfStmt:
				add(n.Cond, true)
			case *ast.ForStmt:
				if n.Cond != nil {
					add(n.Cond, true)
				}
			case *ast.SwitchStmt:
				if n.Tag == nil {
					for _, c := range n.Body.List {
						for _, e := range c.(*ast.CaseClause).List {
							add(e, true)
						}
					}
				}
			case *ast.BlockStmt:
				list = n.List
			case *ast.CaseClause:
				list = n.Body
			case *ast.CommClause:
				list = n.Body
			}
			for _, s := range list {
				switch s := s.(type) {
				case *ast.ExprStmt:
					if call, ok := s.X.(*ast.CallExpr); ok {
						if name, is := call.Fun.(*ast.Ident); !is || name.Name != "panic" {
							add(s, false)
						}
					}
				case *ast.DeferStmt, *ast.GoStmt:
					add(s, false)
				}
			}
			return true
		})
	}
	return all, nil
}

// chooser is what the mutants of a package ask.
const chooser = `package %s

import (
	"os"
	"strconv"
	"sync"
)

var mutantChosen, _ = strconv.Atoi(os.Getenv("MUTANT"))
var mutantReach = os.Getenv("MUTANT_REACH")
var mutantSeen sync.Map

func isMutant(id int) bool {
	if mutantReach != "" {
		if _, seen := mutantSeen.LoadOrStore(id, true); !seen {
			if f, err := os.OpenFile(mutantReach, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
				f.WriteString(strconv.Itoa(id) + "\n")
				f.Close()
			}
		}
	}
	return id == mutantChosen
}
`

// insertion is a text to put at an offset.
type insertion struct {
	at, order int
	text      string
}

// write writes the broken package, and returns the overlay for go build.
func write(work, dir string, all []mutant) (overlay string, err error) {
	byFile := map[string][]insertion{}
	for _, m := range all {
		before, after := fmt.Sprintf("(isMutant(%d) != (", m.id), "))"
		if !m.flips {
			before, after = fmt.Sprintf("if !isMutant(%d) { ", m.id), " }"
		}
		// At one offset, closings come before openings; the longer opens first and closes last.
		byFile[m.file] = append(byFile[m.file], insertion{m.start, 1<<30 - (m.end - m.start), before}, insertion{m.end, -(1 << 30) + (m.end - m.start), after})
	}
	replace := map[string]string{}
	name := ""
	for file, edits := range byFile {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		slices.SortStableFunc(edits, func(a, b insertion) int {
			if a.at != b.at {
				return a.at - b.at
			}
			return a.order - b.order
		})
		var out bytes.Buffer
		last := 0
		for _, e := range edits {
			out.Write(text[last:e.at])
			out.WriteString(e.text)
			last = e.at
		}
		out.Write(text[last:])
		to := filepath.Join(work, strconv.Itoa(len(replace))+"_"+filepath.Base(file))
		if err := os.WriteFile(to, out.Bytes(), 0o600); err != nil {
			return "", err
		}
		replace[file] = to
		if parsed, err := parser.ParseFile(token.NewFileSet(), to, nil, parser.PackageClauseOnly); err == nil {
			name = parsed.Name.Name
		}
	}
	to := filepath.Join(work, "chooser.go")
	if err := os.WriteFile(to, fmt.Appendf(nil, chooser, name), 0o600); err != nil {
		return "", err
	}
	replace[filepath.Join(dir, "zz_mutant_chooser.go")] = to
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(work, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// binary has the tests of a package.
type binary struct {
	path, dir string
	tests     []test // the quick ones first
}

type test struct {
	name  string
	took  time.Duration
	reach map[int]bool
}

func build(root, work, name, overlay string) (*binary, error) {
	b := &binary{path: filepath.Join(work, strings.ReplaceAll(strings.Trim(name, "./"), "/", "_")+".test"), dir: filepath.Join(root, name)}
	if _, err := output(root, "go", "test", "-c", "-overlay", overlay, "-o", b.path, name); err != nil {
		return nil, err
	}
	list, err := b.command("-test.list", ".", "-test.skip", *skip).Output()
	if err != nil {
		return nil, fmt.Errorf("list the tests of %s: %w", name, err)
	}
	names := strings.Fields(string(list))
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, "Test") && !strings.HasPrefix(n, "Example") })
	all := make([]test, len(names))
	each(len(names), func(i int) {
		reach := filepath.Join(work, fmt.Sprint("reach-", len(b.path), "-", names[i]))
		began := time.Now()
		cmd := b.command("-test.run", "^"+names[i]+"$", "-test.timeout", "10m")
		cmd.Env = append(cmd.Env, "MUTANT_REACH="+reach)
		if out, err := cmd.CombinedOutput(); err != nil {
			log.Printf("%s fails without a break and is left out: %v\n%s", names[i], err, tail(out))
			return
		}
		all[i] = test{names[i], time.Since(began), map[int]bool{}}
		text, _ := os.ReadFile(reach) // missing: it reaches none
		for _, id := range strings.Fields(string(text)) {
			n, _ := strconv.Atoi(id)
			all[i].reach[n] = true
		}
	})
	all = slices.DeleteFunc(all, func(t test) bool {
		if t.took > *slow {
			log.Printf("%s takes %s and is left out", t.name, t.took.Round(time.Second))
		}
		return t.name == "" || t.took > *slow
	})
	slices.SortFunc(all, func(x, y test) int { return int(x.took - y.took) })
	b.tests = all
	return b, nil
}

func (b *binary) command(args ...string) *exec.Cmd {
	cmd := exec.Command(b.path, args...)
	cmd.Dir, cmd.Env = b.dir, append(os.Environ(), "MUTANT=0")
	return cmd
}

// hunt returns the mutants that no test notices.
func (b *binary) hunt(all []mutant) ([]mutant, error) {
	alive := make([]bool, len(all))
	each(len(all), func(i int) { alive[i] = b.survives(all[i].id) })
	var left []mutant
	for i, m := range all {
		if alive[i] {
			left = append(left, m)
		}
	}
	return left, nil
}

// survives reports whether all tests pass that reach a mutant.
func (b *binary) survives(id int) bool {
	var batch []string
	var sum time.Duration
	for i, t := range b.tests {
		if t.reach[id] {
			batch, sum = append(batch, t.name), sum+t.took
		}
		if len(batch) > 0 && (sum > 2*time.Second || i == len(b.tests)-1) {
			if b.fails(id, batch, 30*time.Second+10*sum) {
				return false
			}
			batch, sum = nil, 0
		}
	}
	return true
}

func (b *binary) fails(id int, tests []string, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.path, "-test.run", "^("+strings.Join(tests, "|")+")$", "-test.failfast", "-test.timeout", limit.String())
	cmd.Dir, cmd.Env = b.dir, append(os.Environ(), fmt.Sprint("MUTANT=", id))
	cmd.WaitDelay = time.Second
	return cmd.Run() != nil
}

// show prints the output of the tests with one mutant.
func (b *binary) show(id int) error {
	cmd := b.command("-test.failfast", "-test.skip", *skip, "-test.timeout", "5m")
	cmd.Env = append(cmd.Env, fmt.Sprint("MUTANT=", id))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// each calls do for 0 to n-1, several at once.
func each(n int, do func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range *workers {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

func output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, tail(exit.Stderr))
	}
	return strings.TrimSpace(string(out)), err
}

func tail(text []byte) []byte { return text[max(0, len(text)-2000):] }
