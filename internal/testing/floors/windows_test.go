package floors

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// algorithms are the only places that may name the algorithm of a window. All other
// code asks the window or its [window.Spec], so that a new algorithm changes nothing
// else. A path stands for what is under it too.
var algorithms = []string{
	"quota/window",
	"quota/book",                                                          // reads and prints it
	"quota/redisstore/windows.go",                                         // tells the scripts of it
	"quota/storetest",                                                     // has a naive twin of each
	"internal/boundary", "cmd/ingestor/internal/ledger/prove.go", "bench", // compare them with each other
}

// named are the names of package window that belong to one algorithm.
var named = []string{
	"Algorithm", "Sliding", "Exact", "Estimate", "ByCalendar", "Leaky", "Ring", "Log", "Counter", "Calendar", "Bucket", "InFlight",
	"NewRing", "NewLog", "NewCounter", "NewCalendar", "NewBucket",
}

func TestOnlyWindowsNameAnAlgorithm(t *testing.T) {
	fset, files := sources(t)
	for name, f := range files {
		if strings.HasSuffix(name, "_test.go") || under(name, algorithms) {
			continue
		}
		for _, pos := range algorithmsIn(f) {
			t.Errorf("%s names the algorithm of a window: ask its Spec (Calendar, Estimates, Length, Slack), or give Spec a method", fset.Position(pos))
		}
	}
}

// algorithmsIn finds the names of algorithms, and the field that tells them apart.
func algorithmsIn(f *ast.File) (found []token.Pos) {
	local, specs := "", false // how the file calls package window; whether it has windows of a price book
	for _, i := range f.Imports {
		specs = specs || i.Path.Value == `"`+module+`/quota/book"`
		if i.Path.Value == `"`+module+`/quota/window"` {
			local = "window"
			if i.Name != nil {
				local = i.Name.Name
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			x, plain := s.X.(*ast.Ident)
			of, nested := s.X.(*ast.SelectorExpr)
			inPackage := plain && local != "" && x.Name == local
			field := s.Sel.Name == "Algorithm" && (local != "" || specs || nested && of.Sel.Name == "Spec")
			if inPackage && slices.Contains(named, s.Sel.Name) || field {
				found = append(found, s.Pos())
			}
		}
		return true
	})
	return found
}

func TestNoCodeReadsTheNameOfAWindow(t *testing.T) {
	fset, files := sources(t)
	for name, f := range files {
		if strings.HasSuffix(name, "_test.go") || under(name, []string{"quota/window", "quota/storetest"}) {
			continue
		}
		for _, pos := range namesRead(f) {
			t.Errorf("%s reads what a window is from its name, which is for people: ask its Spec", fset.Position(pos))
		}
	}
}

// namesRead finds fields called Window that are taken apart as text, or compared with
// a text.
func namesRead(f *ast.File) (found []token.Pos) {
	isName := func(e ast.Expr) bool {
		s, ok := e.(*ast.SelectorExpr)
		return ok && s.Sel.Name == "Window"
	}
	isText := func(e ast.Expr) bool {
		l, ok := e.(*ast.BasicLit)
		return ok && l.Kind == token.STRING && l.Value != `""`
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			s, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := s.X.(*ast.Ident)
			reads := ok && (x.Name == "strings" || x.Name == "regexp" || s.Sel.Name == "ParseDuration")
			if reads && slices.ContainsFunc(n.Args, isName) {
				found = append(found, n.Pos())
			}
		case *ast.BinaryExpr:
			compared := n.Op == token.EQL || n.Op == token.NEQ
			if compared && (isName(n.X) && isText(n.Y) || isText(n.X) && isName(n.Y)) {
				found = append(found, n.Pos())
			}
		}
		return true
	})
	return found
}

// Each of these places is there for a reason, which ends when the place does.
func TestPlacesThatNameAnAlgorithmDo(t *testing.T) {
	_, files := sources(t)
	for _, place := range algorithms {
		found := place == "quota/window"
		for name, f := range files {
			found = found || path.Ext(name) == ".go" && under(name, []string{place}) && len(algorithmsIn(f)) > 0
		}
		if !found {
			t.Errorf("%s names no algorithm: take it out of the list", place)
		}
	}
}
