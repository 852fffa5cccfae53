package verdict_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
)

// TestAJobThatIsAlwaysDueIsMissed: a job was due a moment ago, as one of every minute always was.
// It is missed all the same if nobody has made its runs for long, and no daemon ever said that it
// is there.
func TestAJobThatIsAlwaysDueIsMissed(t *testing.T) {
	l := newWitness(t, 0)
	said := func() string {
		_, v := l.read(l.anew(false))
		return v.Said().String() + " " + strings.Join(notesOf(v), " ")
	}
	l.Pass(time.Hour) // to 21:00
	l.Alive = false
	if err := verdict.Change(t.Context(), l.Shelf, "daemons", func(string) (string, bool) { return "[]", true }); err != nil {
		t.Fatal(err)
	}
	l.Pass(31 * time.Minute)
	if text := said(); strings.Contains(text, "often was due") {
		t.Errorf("a run is 1 minute late: %s", text)
	}
	l.Pass(29*time.Minute + 30*time.Second)
	if text := said(); !strings.Contains(text, "often was due 2 times since 21:30 UTC (30 min ago) and has not run") {
		t.Errorf("at 22:00:30: %s", text)
	}
	l.Pass(5 * time.Hour)
	if text := said(); !strings.Contains(text, "often was due 12 times since 21:30 UTC yesterday (5 h 30 min ago) and has not run. Check that ingestor run, or its timer, is up") {
		t.Errorf("at 03:00:30: %s", text)
	}
}
