//go:build linux

package chaos

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/childtest"
)

var (
	seed   = flag.Uint64("seed", 1, "the `seed` of the schedule of faults")
	where  = flag.String("ledger", "redis", "where TestChaos has its `ledger`: redis or postgres")
	faults = flag.Duration("faults", time.Minute, "for how `long` TestChaos injects faults")
)

// folder is where the program is built.
var folder string

func TestMain(m *testing.M) {
	childtest.AtOnce(6)
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "faults" })
	if !given && soak() {
		*faults = 5 * time.Minute
	}
	var err error
	if folder, err = os.MkdirTemp("", "headroom-chaos"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

// soak reports whether to run with full counts.
func soak() bool { return os.Getenv("HEADROOM_SOAK") == "1" }

// onlyInSoak skips a test that waits for takeovers, which take a minute each. Package fleet has
// shorter ones.
func onlyInSoak(t *testing.T) {
	t.Helper()
	if !soak() {
		t.Skip("run make acceptance for it")
	}
}

// busy is the longest time that a test takes for what a fleet promises within some. make acceptance
// measures it, on a quiet machine. Otherwise others use the machine, too, and a test only
// finds what does not come.
func busy(promised time.Duration) time.Duration {
	if os.Getenv("HEADROOM_QUIET") == "1" {
		return promised
	}
	return promised + 2*time.Minute
}
