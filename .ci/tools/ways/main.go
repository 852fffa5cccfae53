// Ways prints the functions that one reservation into memory, and one metered request, run
// through. It runs internal/testing/ways twice, with one call more the second time. The functions
// whose statements ran more often are on the way.
//
//	ways            both counts
//	ways -v         and the functions
package main

import (
	"bufio"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

const tree = "github.com/headroom-quota/headroom/"

func main() {
	log.SetFlags(0)
	verbose := flag.Bool("v", false, "print the functions")
	flag.Parse()
	for _, way := range []string{"reservation", "request"} {
		one, two := profile(way, 1), profile(way, 2)
		functions := map[string]bool{}
		for block, n := range two {
			if n > one[block] {
				functions[function(block)] = true
			}
		}
		fmt.Printf("one %s: %d functions\n", way, len(functions))
		if *verbose {
			var names []string
			for name := range functions {
				names = append(names, name)
			}
			sort.Strings(names)
			fmt.Println("  " + strings.Join(names, "\n  "))
		}
	}
}

// profile returns how often each block of statements ran.
func profile(way string, calls int) map[string]int {
	file, err := os.CreateTemp("", "ways")
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(file.Name())
	cmd := exec.Command("go", "test", "./internal/testing/ways", "-count=1", "-run", "^TestWays$/^"+way+"$", "-covermode=count", "-coverpkg=./...", "-coverprofile="+file.Name())
	cmd.Env = append(os.Environ(), "HEADROOM_CALLS="+strconv.Itoa(calls))
	if out, err := cmd.CombinedOutput(); err != nil {
		log.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	counts := map[string]int{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if at := strings.LastIndexByte(lines.Text(), ' '); at > 0 && strings.HasPrefix(lines.Text(), tree) {
			n, err := strconv.Atoi(lines.Text()[at+1:])
			if err != nil {
				log.Fatal(err)
			}
			counts[lines.Text()[:at]] += n
		}
	}
	return counts
}

var (
	place = regexp.MustCompile(`^(.+):(\d+)\.(\d+),`)
	files = map[string]*ast.File{}
	fset  = token.NewFileSet()
)

// function returns the name of the function that has a block. Literals belong to the function
// around them.
func function(block string) string {
	m := place.FindStringSubmatch(block)
	path := strings.TrimPrefix(m[1], tree)
	line, _ := strconv.Atoi(m[2])
	f := files[path]
	if f == nil {
		var err error
		if f, err = parser.ParseFile(fset, path, nil, parser.SkipObjectResolution); err != nil {
			log.Fatal(err)
		}
		files[path] = f
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fset.Position(fn.Pos()).Line <= line && line <= fset.Position(fn.End()).Line {
			return filepath.Dir(path) + " " + receiver(fn) + fn.Name.Name
		}
	}
	return path + ":" + m[2]
}

func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	t := fn.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if index, ok := t.(*ast.IndexExpr); ok {
		t = index.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name + "."
	}
	return ""
}
