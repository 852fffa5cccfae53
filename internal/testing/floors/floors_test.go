package floors

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// listed is a package as `go list -json` tells it.
type listed struct {
	ImportPath   string
	Doc          string
	Standard     bool
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

// golist runs `go list -json` at the root of the tree.
func golist(t *testing.T, args ...string) []listed {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(gocmd(t, append([]string{"list", "-json"}, args...)...)))
	var all []listed
	for {
		var p listed
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatalf("go list: %v", err)
		}
		all = append(all, p)
	}
}

func gocmd(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return out
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
	for _, p := range golist(t, "work") {
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
	packages := map[string]listed{}
	for _, p := range golist(t, "-deps", "work") {
		packages[p.ImportPath] = p
	}
	for name, may := range tenants {
		seen := map[string]bool{}
		var visit func(p listed)
		visit = func(p listed) {
			for _, path := range p.Imports {
				switch dep := packages[path]; {
				case dep.Standard || seen[path]:
				case !under(path, may):
					t.Errorf("%s imports %s; beside the standard library %s may use %s", p.name(), path, name, orElse(may, "nothing"))
				default:
					seen[path] = true
					visit(dep)
				}
			}
		}
		visit(packages[module+"/"+name])
	}
}

func TestDependenciesHaveOneDoor(t *testing.T) {
	for _, p := range golist(t, "work") {
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
	for _, p := range golist(t, "work") {
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
	for _, p := range golist(t, "work") {
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
	for _, p := range golist(t, "work") {
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
		if err := json.Unmarshal(gocmd(t, "mod", "edit", "-json", file), &mod); err != nil {
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
