package floors

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
)

// listed is a package as `go list -json` tells it.
type listed struct {
	ImportPath   string
	Doc          string
	Standard     bool
	DepOnly      bool // it is not of the house
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// name is the path within the module.
func (p listed) name() string { return nameOf(p.ImportPath) }

func nameOf(path string) string {
	if path == module {
		return "."
	}
	return strings.TrimPrefix(path, module+"/")
}

// everything lists all packages of the house and those that they import, once for all tests. To
// name the fields spares go list to find out which packages are stale.
var everything = sync.OnceValues(func() (all []listed, err error) {
	text, err := gocmd("list", "-deps", "-json=ImportPath,Doc,Standard,DepOnly,Imports,TestImports,XTestImports", "work")
	dec := json.NewDecoder(bytes.NewReader(text))
	for err == nil {
		var p listed
		if err = dec.Decode(&p); err == nil {
			all = append(all, p)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return all, err
})

// withDeps returns what everything lists.
func withDeps(t *testing.T) []listed {
	t.Helper()
	all, err := everything()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return all
}

// packages returns the packages of the house.
func packages(t *testing.T) []listed {
	t.Helper()
	return slices.DeleteFunc(slices.Clone(withDeps(t)), func(p listed) bool { return p.DepOnly })
}

// gocmd runs the go command at the root of the tree.
func gocmd(args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, &stderr)
	}
	return out, err
}

// under reports whether an import path is one of these, or below one.
func under(path string, of []string) bool {
	return slices.ContainsFunc(of, func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") })
}

// forTests reports whether a package or file is for tests only, as its folder says.
func forTests(name string) bool { return strings.Contains("/"+name, "/testing/") }

// floorOf returns the floor of a package, counted from the roof; -1 if it has no floor.
func floorOf(name string) int {
	return slices.IndexFunc(house, func(floor []string) bool { return slices.Contains(floor, name) })
}

// stairs returns what is wrong with one package of the house importing another, or ""
// if the import is allowed.
func stairs(from, to string) string {
	switch f, t := floorOf(from), floorOf(to); {
	case t > f:
		return ""
	case t == f:
		return from + " imports " + to + ", which is on its own floor"
	default:
		return from + " imports " + to + ", which is a floor above it"
	}
}

func TestArrowsPointDown(t *testing.T) {
	for _, p := range packages(t) {
		if floorOf(p.name()) < 0 {
			t.Errorf("%s is on no floor: give it one in internal/testing/floors/house_test.go", p.name())
			continue
		}
		for _, path := range p.Imports {
			if !under(path, []string{module}) || floorOf(nameOf(path)) < 0 {
				continue
			}
			if fault := stairs(p.name(), nameOf(path)); fault != "" {
				t.Error(fault)
			}
		}
	}
}

func TestQuotaKeepsToItself(t *testing.T) {
	known := map[string]listed{}
	for _, p := range withDeps(t) {
		known[p.ImportPath] = p
	}
	for name, may := range tenants {
		seen := map[string]bool{}
		var visit func(p listed)
		visit = func(p listed) {
			for _, path := range p.Imports {
				switch dep := known[path]; {
				case dep.Standard || seen[path]:
				case !under(path, may):
					t.Errorf("%s imports %s; beside the standard library %s may use %s", p.name(), path, name, orElse(may, "nothing"))
				default:
					seen[path] = true
					visit(dep)
				}
			}
		}
		visit(known[module+"/"+name])
	}
}

func TestDependenciesHaveOneDoor(t *testing.T) {
	for _, p := range packages(t) {
		if forTests(p.name()) {
			continue
		}
		for _, path := range p.Imports {
			if key := keyTo(path); key != "" && !slices.Contains(keys[key], p.name()) {
				t.Errorf("%s imports %s, which is for %s only", p.name(), path, orElse(keys[key], "tests"))
			}
		}
	}
}

// keyTo returns the key that opens a path, or "" if none is needed.
func keyTo(path string) (key string) {
	for k := range keys {
		if len(k) > len(key) && under(path, []string{k}) {
			key = k
		}
	}
	return key
}

func TestOnlyOpenImportsEveryStore(t *testing.T) {
	var all []string
	for _, p := range packages(t) {
		missing := slices.ContainsFunc(stores, func(store string) bool { return !slices.Contains(p.Imports, module+"/"+store) })
		if !missing {
			all = append(all, p.name())
		}
	}
	if want := []string{"quota/open"}; !slices.Equal(all, want) {
		t.Errorf("every store is imported by %q, want %q: others open a ledger with open.Open", all, want)
	}
}

func TestQuotaIsBlindToItsUsers(t *testing.T) {
	for _, p := range packages(t) {
		for name, unseen := range blind {
			if !under(p.name(), []string{name}) {
				continue
			}
			for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
				if under(path, unseen) {
					t.Errorf("%s imports %s, of which nothing in %s may know", p.name(), path, name)
				}
			}
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, p := range packages(t) {
		if p.Doc == "" {
			t.Errorf("%s has no package comment", p.name())
		}
	}
}

func TestModuleFiles(t *testing.T) {
	var mod struct {
		Require []struct{ Path, Version string }
		Replace []struct{ Old struct{ Path string } }
	}
	for _, module := range modules {
		file := path.Join(module, "go.mod")
		text, err := gocmd("mod", "edit", "-json", file)
		if err := cmp.Or(err, json.Unmarshal(text, &mod)); err != nil {
			t.Fatal(err)
		}
		for _, r := range mod.Replace {
			t.Errorf("%s replaces %s: that breaks go install ...@version", file, r.Old.Path)
		}
		for _, r := range mod.Require {
			if want, ok := versions[r.Path]; ok && r.Version != want {
				t.Errorf("%s has %s at %s, not at %s", file, r.Path, r.Version, want)
			}
		}
		mod.Require, mod.Replace = nil, nil
	}
}

func orElse(names []string, none string) string {
	if len(names) == 0 {
		return none
	}
	return strings.Join(names, ", ")
}
