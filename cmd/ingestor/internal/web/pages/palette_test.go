package pages

import (
	"fmt"
	"strings"
	"testing"
)

// TestANameKeepsItsColour: whatever other names come, so that a new job changes no colour.
// The first 48 names all differ, by colour or by shape, and the first six differ well.
func TestANameKeepsItsColour(t *testing.T) {
	var p palette
	had, whose := map[string]string{}, map[string]string{}
	for i := range 60 {
		var groups []group
		for k := range i + 1 { // a new name comes first
			groups = append(groups, group{name: fmt.Sprintf("job-%02d", i-k)})
		}
		p.paint(groups)
		for _, g := range groups {
			if had[g.name] != "" && had[g.name] != g.class {
				t.Fatalf("%s had the colour %q, and has %q", g.name, had[g.name], g.class)
			}
			had[g.name] = g.class
		}
		if other := whose[groups[0].class]; other != "" && i < 2*colours {
			t.Errorf("%s and %s have the colour %q", groups[0].name, other, groups[0].class)
		}
		whose[groups[0].class] = groups[0].name
		if hollow := strings.HasSuffix(groups[0].class, " twin"); hollow != (i >= colours && i < 2*colours) {
			t.Errorf("the name %d has %q", i, groups[0].class)
		}
	}
	for i := range 6 {
		for k := range i {
			var a, b int
			_, _ = fmt.Sscanf(had[fmt.Sprintf("job-%02d", i)], "n%d", &a)
			_, _ = fmt.Sscanf(had[fmt.Sprintf("job-%02d", k)], "n%d", &b)
			if d := (a - b + colours) % ring; a/ring == b/ring && (d < 2 || d > ring-2) {
				t.Errorf("n%d and n%d are neighbours", a, b)
			}
		}
	}
	if again := new(palette).classOf("job-00"); again != had["job-00"] {
		t.Errorf("a name alone has %q, and after a restart %q", had["job-00"], again)
	}
}
