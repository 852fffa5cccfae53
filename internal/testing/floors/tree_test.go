package floors

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

const root = "../../.."

// texts are the kinds of files that people write here.
var texts = []string{".go", ".lua", ".md", ".mod", ".sh", ".sql", ".yaml", ".yml"}

// tree reads every text of the tree by its path from the root. That the test
// opens them itself also keeps go test from calling an old result good: it does
// not know what `go list` has read.
func tree(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("found no files")
	}
	return files
}

var readTree = sync.OnceValues(func() (map[string][]byte, error) {
	files := map[string][]byte{}
	return files, filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case d.IsDir():
			return nil
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if slices.Contains(texts, path.Ext(name)) || path.Ext(name) == "" && (strings.HasPrefix(name, ".ci/") || name == "Makefile") {
			files[name], err = os.ReadFile(file)
		}
		return err
	})
})

// sources parses the Go files of the tree.
func sources(t *testing.T) (*token.FileSet, map[string]*ast.File) {
	t.Helper()
	files, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return positions, files
}

var positions = token.NewFileSet()

var parsed = sync.OnceValues(func() (map[string]*ast.File, error) {
	texts, err := readTree()
	files := map[string]*ast.File{}
	for name, text := range texts {
		if path.Ext(name) == ".go" && err == nil {
			files[name], err = parser.ParseFile(positions, name, text, parser.SkipObjectResolution)
		}
	}
	return files, err
})

func TestNoCgo(t *testing.T) {
	_, files := sources(t)
	for name, f := range files {
		for _, i := range f.Imports {
			if i.Path.Value == `"C"` {
				t.Errorf("%s imports C: the program is built without cgo", name)
			}
		}
	}
}

func TestTimeComesFromOneSeam(t *testing.T) {
	fset, files := sources(t)
	readers := map[string][]string{} // by package
	for name, f := range files {
		if strings.HasSuffix(name, "_test.go") || forTests(name) || path.Dir(name) == "cmd/ingestor" || under(name, []string{"bench", "sdktest", ".ci"}) {
			continue
		}
		for _, pos := range clockReads(f) {
			if !slices.Contains(seams, name) {
				t.Errorf("%s reads the machine's clock: take a clock, or list the file as its package's seam in internal/testing/floors/house_test.go", fset.Position(pos))
			}
			if dir := path.Dir(name); !slices.Contains(readers[dir], name) {
				readers[dir] = append(readers[dir], name)
			}
		}
	}
	for dir, names := range readers {
		if len(names) > 1 {
			t.Errorf("%s reads the machine's clock in %d files, one is enough: %s", dir, len(names), strings.Join(names, ", "))
		}
	}
}

// clockReads finds time.Now, and what calls it unseen.
func clockReads(f *ast.File) (reads []token.Pos) {
	local := ""
	for _, i := range f.Imports {
		if i.Path.Value == `"time"` {
			local = "time"
			if i.Name != nil {
				local = i.Name.Name
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == local && slices.Contains([]string{"Now", "Since", "Until"}, s.Sel.Name) {
				reads = append(reads, s.Pos())
			}
		}
		return true
	})
	return reads
}

func TestNothingIsLeftForLater(t *testing.T) {
	later := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME)\b`)
	for name, text := range tree(t) {
		for n, line := range strings.Split(string(text), "\n") {
			if later.MatchString(line) {
				t.Errorf("%s:%d: %s: do it, or file an issue", name, n+1, strings.TrimSpace(line))
			}
		}
	}
}
