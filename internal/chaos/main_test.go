//go:build linux

package chaos

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/childtest"
)

var (
	seed   = flag.Uint64("seed", 1, "the `seed` of the schedule of faults")
	faults = flag.Duration("faults", time.Minute, "for how `long` TestChaos injects faults")
)

func TestMain(m *testing.M) {
	flag.Parse()
	childtest.Main(m, map[string]childtest.Task{"daemon": daemon})
}

// soak reports whether to run with full counts.
func soak() bool { return os.Getenv("HEADROOM_SOAK") == "1" }
