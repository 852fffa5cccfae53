package sdktest

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

// soak asks for runs as long as the figures say.
var soak = os.Getenv("HEADROOM_SOAK") != ""

// pick returns the length or count of a run.
func pick[T any](reduced, full T) T {
	if soak {
		return full
	}
	return reduced
}

// gaps are figures that are known not to be reached, and why. They do not fail the test.
var gaps = map[string]string{
	"in_flight: share of the fewest calls of a process": "slots change hands one by one, so eight processes need longer than this run",
}

// table is what the figures are, in one run.
type table struct {
	mu   sync.Mutex
	rows []string
}

// least notes a figure that is reached if it is at least so much.
func (f *table) least(t *testing.T, name string, reached, least float64) {
	t.Helper()
	f.row(t, reached >= least, name, fmt.Sprintf("%.3f", reached), fmt.Sprintf("at least %.3f", least))
}

// pace notes a share of what the time allows. Processes that run in real time reach it on a quiet
// machine, so only full counts ask for it.
func (f *table) pace(t *testing.T, name string, reached, least float64) {
	t.Helper()
	if soak {
		f.least(t, name, reached, least)
	} else {
		f.note(name, fmt.Sprintf("%.3f", reached))
	}
}

// most notes a figure that is reached if it is at most so much.
func (f *table) most(t *testing.T, name string, reached, most float64) {
	t.Helper()
	f.row(t, reached <= most, name, fmt.Sprintf("%.4g", reached), fmt.Sprintf("at most %.4g", most))
}

// zero notes a figure that is reached if it is 0.
func (f *table) zero(t *testing.T, name string, reached int64) {
	t.Helper()
	f.row(t, reached == 0, name, fmt.Sprint(reached), "0")
}

// note has a figure without a goal.
func (f *table) note(name, reached string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rows = append(f.rows, strings.Join([]string{"", name, reached, ""}, "\t"))
}

func (f *table) row(t *testing.T, ok bool, name, reached, goal string) {
	t.Helper()
	mark := ""
	if !ok {
		mark = "NOT"
		if why := gaps[name]; why != "" {
			goal += "; " + why
		} else {
			t.Errorf("%s: %s, to reach: %s", name, reached, goal)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rows = append(f.rows, strings.Join([]string{mark, name, reached, goal}, "\t"))
}

// TestFigures prints one table. See the package's comment.
func TestFigures(t *testing.T) {
	figures := &table{}
	begun := time.Now()
	for _, part := range []struct {
		name string
		run  func(*testing.T, *table)
	}{
		{"models", models},
		{"processes", processes},
		{"learning", learning},
		{"compatible", compatible},
		{"others", others},
		{"slots", slots},
		{"shares", shares},
		{"faults", faults},
		{"short windows", shortWindows},
		{"leaky", leaky},
		{"repositories", repositories},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, figures) })
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tfigure\treached\tto reach")
	for _, row := range figures.rows {
		fmt.Fprintln(w, row)
	}
	w.Flush()
	fmt.Printf("%s(took %s)\n", b.String(), time.Since(begun).Round(time.Second))
}
