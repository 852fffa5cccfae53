package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/internal/testing/guides"
)

func TestChangelogIsShortBeforeTheFirstTag(t *testing.T) {
	text := guides.Read(t, "CHANGELOG.md")
	if n := strings.Count(text, "\n"); !strings.Contains(text, "\n## [0.") && n > 80 {
		t.Errorf("CHANGELOG.md has %d lines, at most 80 are allowed before the first version", n)
	}
}

// declared returns what the Go files of the tree declare: functions and tests by name, methods
// as Type.Method, each with its folder before it; and the paths of all files.
func declared(t *testing.T) (names map[string]bool, files []string) {
	t.Helper()
	names = map[string]bool{}
	err := filepath.WalkDir(guides.Root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && slices.Contains([]string{".git", "bin", "node_modules"}, d.Name()) {
				return filepath.SkipDir
			}
			return err
		}
		name, err := filepath.Rel(guides.Root, file)
		files = append(files, filepath.ToSlash(name))
		if err != nil || path.Ext(name) != ".go" {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			full := fn.Name.Name
			if fn.Recv != nil {
				full = receiver(fn.Recv.List[0].Type) + "." + full
			}
			names[full] = true
			names[path.Dir(filepath.ToSlash(name))+" "+full] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names, files
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// TestTablesOfBreaksNameWhatIsThere checks each row of the tables of breaks in CONTRIBUTING.md:
// its file, the function that it names, and its tests.
func TestTablesOfBreaksNameWhatIsThere(t *testing.T) {
	names, files := declared(t)
	file := regexp.MustCompile(`^([\w./-]+\.(?:go|lua))(?:, (\w+))?:`)
	test := regexp.MustCompile(`\b(?:Test|Fuzz)\w+`)
	rows, _, _ := strings.Cut(guides.Read(t, "CONTRIBUTING.md"), "\n## Style")
	_, rows, _ = strings.Cut(rows, "\n## Twelve promises")
	checked := 0
	for line := range strings.Lines(rows) {
		cells := strings.Split(strings.ReplaceAll(line, `\|`, "/"), "|")
		if len(cells) != 5 || strings.HasPrefix(cells[1], "---") || strings.Contains(cells[2], "one-line break") {
			continue
		}
		checked++
		at, tests := strings.TrimSpace(cells[2]), cells[3]
		if m := file.FindStringSubmatch(at); m != nil {
			if !slices.ContainsFunc(files, func(f string) bool { return f == m[1] || strings.HasSuffix(f, "/"+m[1]) }) {
				t.Errorf("CONTRIBUTING.md names the file %s, which is gone, in: %s", m[1], at)
			}
			if there := func(n string) bool { return n == m[2] || strings.HasSuffix(n, "."+m[2]) }; path.Ext(m[1]) == ".go" && m[2] != "" && !slices.ContainsFunc(slices.Collect(maps.Keys(names)), there) {
				t.Errorf("CONTRIBUTING.md names the function %s, which is gone, in: %s", m[2], at)
			}
		}
		for _, name := range test.FindAllString(tests, -1) {
			if !names[name] {
				t.Errorf("CONTRIBUTING.md names the test %s, which is gone, in: %s", name, at)
			}
		}
	}
	if checked < 60 {
		t.Errorf("found %d rows in the tables of breaks, want 60 at least", checked)
	}
}

// TestMapShowsEveryPackage compares the rooms of docs/architecture.md with the packages, and the
// functions that its ways pass with the code.
func TestMapShowsEveryPackage(t *testing.T) {
	const page = "docs/architecture.md"
	text := guides.Read(t, page)
	cmd := exec.Command("go", "list", "work")
	cmd.Dir = guides.Root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-z][\\w./-]*)`").FindAllStringSubmatch(text, -1) {
		shown[m[1]] = true
	}
	packages := map[string]bool{"headroom.go": true}
	for _, p := range strings.Fields(string(out)) {
		name := strings.TrimPrefix(strings.TrimPrefix(p, "github.com/headroom-quota/headroom"), "/")
		packages[name] = true
		if name != "" && !shown[name] {
			t.Errorf("%s does not show the package %s", page, name)
		}
	}
	names, _ := declared(t)
	steps := regexp.MustCompile("`((?:quota|ingest|internal|cmd)[\\w/]*) ([A-Za-z]\\w*(?:\\.\\w+)?)`").FindAllStringSubmatch(text, -1)
	for _, m := range steps {
		if !names[m[1]+" "+m[2]] {
			t.Errorf("%s names %s of %s, which is gone", page, m[2], m[1])
		}
	}
	if len(steps) < 15 {
		t.Errorf("found %d functions on the ways of %s, want 15 at least", len(steps), page)
	}
	if n := strings.Count(text, "\n"); n > 130 {
		t.Errorf("%s has %d lines; it is one page", page, n)
	}
}
