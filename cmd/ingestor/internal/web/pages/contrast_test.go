package pages

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestContrast holds the colours against WCAG 2.2 AA, in the light and in the dark: 4.5
// for text, 3 for what a picture tells by its colour.
func TestContrast(t *testing.T) {
	css := string(files()["dashboard.css"])
	pictures, page, _ := strings.Cut(css, ":root {")
	page, names, _ := strings.Cut(page, "svg.chart { display: block")
	halves := func(css string) (light, dark string) {
		light, dark, _ = strings.Cut(css, "@media (prefers-color-scheme: dark)")
		return light, dark
	}
	pageLight, pageDark := halves(page)
	pictureLight, pictureDark := halves(pictures)
	namesLight, namesDark := halves(names)
	themes := map[string][2]map[string]string{
		"light": {coloursOf(pageLight), coloursOf(pictureLight + namesLight)},
		"dark":  {coloursOf(pageDark), coloursOf(pictureDark + namesDark)},
	}
	for theme, c := range themes {
		page, picture := c[0], c[1]
		for _, pair := range []string{
			"text page", "text card", "faint page", "faint card", "accent page", "accent card", "good card", "warn card", "bad card",
			"bad page", "good good-in", "warn warn-in", "bad bad-in", "text good-in", "text warn-in", "text bad-in", "faint good-in",
			"faint warn-in", "faint bad-in", "page accent", "text mark", "accent mark",
		} {
			a, b, _ := strings.Cut(pair, " ")
			if got := contrast(t, page[a], page[b]); got < 4.5 {
				t.Errorf("%s: %s on %s has %.2f", theme, a, b, got)
			}
		}
		for _, name := range []string{"text", "faint"} {
			if got := contrast(t, picture[name], page["card"]); got < 4.5 {
				t.Errorf("%s: %s in pictures has %.2f", theme, name, got)
			}
		}
		series := []string{"s1", "others", "hand", "warn", "bad"}
		for i := range colours {
			series = append(series, fmt.Sprintf("n%d", i))
		}
		for _, name := range series {
			if got := contrast(t, picture[name], page["card"]); got < 3 {
				t.Errorf("%s: %s in pictures has %.2f", theme, name, got)
			}
		}
		for _, name := range []string{"accent", "warn", "bad"} {
			if got := contrast(t, page[name], page["track"]); got < 3 {
				t.Errorf("%s: a bar of %s has %.2f", theme, name, got)
			}
		}
	}
}

var colour = regexp.MustCompile(`--([a-z0-9-]+): (#[0-9a-f]{6})`)

// coloursOf are those that a stylesheet sets, by name; the last counts.
func coloursOf(css string) map[string]string {
	all := map[string]string{}
	for _, m := range colour.FindAllStringSubmatch(css, -1) {
		all[m[1]] = m[2]
	}
	return all
}

// contrast is that of two colours, from 1 to 21.
func contrast(t *testing.T, a, b string) float64 {
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func luminance(t *testing.T, hex string) (sum float64) {
	t.Helper()
	if len(hex) != 7 {
		t.Fatalf("%q is no colour", hex)
	}
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		v := float64(n) / 255
		if v <= 0.03928 {
			sum += weight * v / 12.92
			continue
		}
		sum += weight * math.Pow((v+0.055)/1.055, 2.4)
	}
	return sum
}
