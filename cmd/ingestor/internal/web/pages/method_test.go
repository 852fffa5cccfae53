package pages

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTemplatesCallNoMethod: the templates are executed by a package that finds fields and functions only. A method
// would fail when its branch runs.
func TestTemplatesCallNoMethod(t *testing.T) {
	fields := map[string]bool{}
	for _, folder := range []string{".", "../view", "../../verdict", "../../proxy", "../../../../../ingest/catalog", "../../../../../ingest/catalog/words"} {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(folder, err)
		}
		for _, path := range files {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if s, is := n.(*ast.StructType); is {
					for _, f := range s.Fields.List {
						for _, name := range f.Names {
							fields[name.Name] = true
						}
					}
				}
				return true
			})
		}
	}
	texts := map[string]string{}
	names, err := fs.Glob(pages, "page/*.html")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(pages, name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	shapes, err := os.ReadFile("../../proxy/shapes.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	texts["shapes.tmpl"] = string(shapes)
	found := 0
	for name, text := range texts {
		for _, action := range regexp.MustCompile(`(?s)\{\{.*?\}\}`).FindAllString(text, -1) {
			action = regexp.MustCompile(`"[^"]*"`).ReplaceAllString(action, "") // texts
			for _, chain := range regexp.MustCompile(`(?:\.[A-Z]\w*)+`).FindAllString(action, -1) {
				for field := range strings.SplitSeq(chain[1:], ".") {
					if found++; !fields[field] {
						t.Errorf("%s: %s names %s, which is no field", name, action, field)
					}
				}
			}
		}
	}
	if found < 150 {
		t.Errorf("only %d fields were found", found)
	}
}
