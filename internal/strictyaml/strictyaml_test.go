package strictyaml_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/internal/strictyaml"
)

// parse returns a text as it was read, and its faults with their places.
func parse(text string, plain bool) (read string, faults []string) {
	f := strictyaml.File{Name: "a.yaml", Noun: "a file", Plain: plain, Fault: func(at strictyaml.Place, message string) {
		faults = append(faults, fmt.Sprintf("%d:%d: %s", at.Line, at.Column, message))
	}}
	return show(f.Parse([]byte(text))), faults
}

func show(n *strictyaml.Node) string {
	if n == nil {
		return "none"
	}
	var parts []string
	for _, e := range n.Entries {
		parts = append(parts, e.Key+"="+show(e.Value))
	}
	for _, item := range n.Items {
		parts = append(parts, show(item))
	}
	return fmt.Sprintf("%s@%d:%d %s(%s)", n.Kind, n.At.Line, n.At.Column, n.Text, strings.Join(parts, ", "))
}

func TestValuesHaveKindsAndPlaces(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "none",
		"# nothing\n":             "none",
		"a: 1\n":                  "a mapping@1:1 (a=a number@1:4 1())",
		"\ufeffa: \"1\"\r\n":      "a mapping@1:1 (a=text@1:4 1())",
		"a:\nb: ~\n":              "a mapping@1:1 (a=empty@1:3 (), b=null@2:4 ())",
		"a: [x, true]\n":          "a mapping@1:1 (a=a list@1:4 (text@1:5 x(), true or false@1:8 true()))",
		"a: 99999999999999999999": "a mapping@1:1 (a=a number@1:4 99999999999999999999())",
	} {
		if got, faults := parse(text, true); got != want || faults != nil {
			t.Errorf("%q is %s, not %s; %v", text, got, want, faults)
		}
	}
}

func TestAnchorsAndMergesShareValues(t *testing.T) {
	got, faults := parse("a: &x {k: 1, l: 2}\nb:\n  <<: *x\n  k: 3\nc: *x\nd: |\n  long\n", false)
	for _, want := range []string{"b=a mapping@3:3 (k=a number@4:6 3(), l=a number@1:17 2())", "c=a mapping@1:7 (k=a number@1:11 1()", "d=text@6:4 long\n"} {
		if !strings.Contains(got, want) || faults != nil {
			t.Errorf("%s lacks %q; %v", got, want, faults)
		}
	}
}

func TestFaultsHaveAPlace(t *testing.T) {
	for _, c := range []struct {
		text  string
		plain bool
		want  string
	}{
		{"a: &x 1\n", true, "1:4: a file has no anchors and aliases; write the value out"},
		{"a: !!str 1\n", true, "1:4: a file has no tags; remove !!str"},
		{"a: *x\n", false, "1:5: there is no anchor of this name above"},
		{"a: &x {k: *x}\n", false, "1:12: there is no anchor of this name above"},
		{"a:\n  <<: 1\n", false, "2:7: write names with values here, such as name: value"},
		{"a: 1\nb: 2\na: 3\n", false, `3:1: "a" is given twice, the first time at a.yaml:1:1; keep one`},
		{"1: x\n", true, "1:1: a key must be text; put quotes around it"},
		{"a: 1\n---\nb: 2\n", false, "3:1: a file is one YAML document; remove what begins here"},
		{"a: caf\xe9\n", false, "1:7: not text: a file is UTF-8 without control characters"},
		{"a: \x1b\n", false, "1:4: not text: a file is UTF-8 without control characters"},
		{"a:\n\tb: 1\n", false, "2:1: a tab cannot indent YAML; use spaces"},
		{strings.Repeat("[", 2000), false, "1:1001: nested deeper than a file ever is"},
		{strings.Repeat("[", 40) + strings.Repeat("]", 40), false, "1:34: nested deeper than a file ever is"},
		{strings.Repeat("a", 1<<20) + ": 1", false, "1:1: a file may have at most 1048576 bytes, this has 1048579"},
	} {
		if read, faults := parse(c.text, c.plain); read != "none" || len(faults) != 1 || faults[0] != c.want {
			t.Errorf("%.40q is %s, with %q, not %q", c.text, read, faults, c.want)
		}
	}
}

func TestNearestIsTheWordThatWasMeant(t *testing.T) {
	known := []string{"workers", "regions", "queries", "max_wait"}
	for word, want := range map[string]string{"query": "queries", "worker": "workers", "Regoins": "regions", "maxwait": "max_wait", "areas": ""} {
		if got := strictyaml.Nearest(word, known); got != want {
			t.Errorf("%s was meant to be %q, not %q", word, got, want)
		}
	}
}
