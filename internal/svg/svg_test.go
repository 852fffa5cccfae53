package svg_test

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/internal/svg"
)

var update = flag.Bool("update", false, "write the golden file")

// draw uses all there is, with text that would like to be more than text.
func draw() *svg.Canvas {
	c := svg.New(320, 200, "Units <script>alert(1)</script>", `a "quoted" & a bell`+"\a")
	c.Rect(0, 0, 320, 200, "page")
	c.Group("bars", func() {
		c.Bar(40, 1.0/3, 12, 99.999, "s1", `"><script>`)
		c.Polygon("bad", "deferred", svg.Point{X: 1, Y: 2}, svg.Point{X: 3, Y: -0.001}, svg.Point{X: 5, Y: 6})
	})
	c.Polyline("s2 line", svg.Point{X: 0, Y: 10}, svg.Point{X: 20, Y: 5.125})
	c.Line(0, 180, 320, 180, "axis")
	c.Text(36, 184, `end" onclick="x`, "a < b")
	return c
}

func TestFile(t *testing.T) {
	got := draw().File()
	golden := filepath.Join("testdata", "all.svg")
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("the picture is another one; -update writes it anew:\n%s", got)
	}
}

func TestTextStaysText(t *testing.T) {
	for name, picture := range map[string]string{"file": string(draw().File()), "inline": draw().Inline()} {
		d := xml.NewDecoder(strings.NewReader(picture))
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s is no XML: %v", name, err)
			}
			e, ok := token.(xml.StartElement)
			if !ok {
				continue
			}
			if e.Name.Local == "script" || e.Name.Local == "style" && name == "inline" {
				t.Errorf("%s has an element %s", name, e.Name.Local)
			}
			for _, a := range e.Attr {
				if a.Name.Local == "style" || strings.HasPrefix(a.Name.Local, "on") {
					t.Errorf("%s has an attribute %s", name, a.Name.Local)
				}
			}
		}
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		about     int
		want      []float64
	}{
		{0, 9500, 5, []float64{0, 2000, 4000, 6000, 8000, 10000}},
		{0, 100, 4, []float64{0, 50, 100}},
		{0, 1, 5, []float64{0, 1}},
		{0, 0.5, 5, []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5}},
		{0, 0, 4, []float64{0, 1}},
		{-3, 12, 4, []float64{-5, 0, 5, 10, 15}},
		{0, 7, 0, []float64{0, 10}},
	} {
		if got := svg.Ticks(c.low, c.high, c.about); !slices.Equal(got, c.want) {
			t.Errorf("Ticks(%v, %v, %d) = %v, want %v", c.low, c.high, c.about, got, c.want)
		}
	}
}
