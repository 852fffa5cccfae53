package main

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
)

var waiting = regexp.MustCompile(`(?m)^warning +journal: (\d+) units of youtube/units were admitted while the ledger was out of order, and this machine's next call charges them\n +If you add what the upstream has counted, subtract them`)

// TestALossOfRedisCountsEachCallOnce: calls that were admitted after the loss are in the upstream's
// count, and in the journal. Check says how many they are, so that a person adds the others.
func TestALossOfRedisCountsEachCallOnce(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 1000, homes["redis"](t))
	fetch := func() {
		t.Helper()
		if r := f.run("run", "--once", "--job", "uploads"); r.code != console.ExitDone {
			t.Fatalf("left with %d\n%s%s", r.code, r.stdout, r.stderr)
		}
	}
	fetch()
	before := f.sim.Counts().Total().Units
	f.empty()
	fetch() // within the allowance
	spent := f.sim.Counts().Total().Units
	said := waiting.FindStringSubmatch(f.run("check").stdout)
	if len(said) == 0 || said[1] != strconv.FormatInt(spent-before, 10) {
		t.Fatalf("check says %q of %d units", said, spent-before)
	}
	for _, args := range [][]string{
		{"quota", "adjust", "youtube/units", fmt.Sprint(before), "--reason", "Redis lost its data"},
		{"ledger", "fresh", "--reason", "Redis lost its data and was adjusted"},
	} {
		if r := f.run(args...); r.code != console.ExitDone {
			t.Fatalf("%v left with %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
	fetch()
	if used, is := f.used(), f.sim.Counts().Total().Units; used != is {
		t.Errorf("the ledger has %d units, and the upstream %d", used, is)
	}
}
