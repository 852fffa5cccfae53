package pages

import (
	"fmt"
	"testing"
)

// TestANameKeepsItsColour: whatever other names there are, so that a new job changes no
// colour. Two of the same colour differ in shape.
func TestANameKeepsItsColour(t *testing.T) {
	var groups []group
	for i := range 40 {
		groups = append([]group{{name: fmt.Sprintf("job-%02d", 39-i)}}, groups...)
		paint(groups)
		shapes := map[string]bool{}
		for _, g := range groups {
			own := colourOf(g.name)
			if g.class != own && g.class != own+" twin" {
				t.Fatalf("%s has the colour %q, and alone it has %q", g.name, g.class, own)
			}
			shapes[g.class] = true
		}
		if len(groups) < 6 && len(shapes) != len(groups) {
			t.Errorf("%d groups have %d looks: %v", len(groups), len(shapes), groups)
		}
	}
	paint(groups[:1])
	if used := len(map[string]bool{colourOf("trending"): true, colourOf("news"): true, colourOf("music"): true, colourOf("stats"): true}); used < 4 {
		t.Errorf("four names have %d colours", used)
	}
}
