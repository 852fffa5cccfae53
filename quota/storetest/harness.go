package storetest

import (
	"os"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// Harness describes a store to the suite.
type Harness struct {
	// Open returns a fresh and empty store: its own file, its own prefix. It
	// registers what is to be closed with t.Cleanup. It is called often.
	Open func(t testing.TB) quota.Store

	// SetClock moves the clock by which s, and every store that shares its data,
	// decides; back too. It is called before the first operation. Nil: the clock
	// cannot be moved, and what needs that is skipped.
	SetClock func(t testing.TB, s quota.Store, now time.Time)

	// Share returns a second store on the data of s, as another process would
	// have. Nil: the data belongs to one process.
	Share func(t testing.TB, s quota.Store) quota.Store

	// Reopen closes s and opens its data again, as after a restart. It is nil if the
	// data does not survive one.
	Reopen func(t testing.TB, s quota.Store) quota.Store

	// Age makes the data of s older by d, or younger if d is negative. It is nil if the
	// data expires by the clock that SetClock moves.
	Age func(t testing.TB, s quota.Store, d time.Duration)

	// Size returns the bytes that s keeps. It is nil if that is unknown.
	Size func(t testing.TB, s quota.Store) int64

	// Families is whether the store keeps a page per key.
	Families bool

	// GiveBack gives back what s has in blocks for several calls, and waits until it is there. It
	// is nil if the store takes no blocks. Otherwise a refusal may count units that are in a
	// block or on their way back, so racing callers may leave some. Grants may report the same
	// used units, because blocks are taken at different times.
	GiveBack func(t testing.TB, s quota.Store)

	// Members returns how many pages of families s keeps, those that new keys share
	// included. Nil: nobody can tell.
	Members func(t testing.TB, s quota.Store) int

	// Operations is about how many operations the model test makes. Zero is
	// 3,000, or 100,000 if HEADROOM_SOAK=1. Without that, a smaller number also makes the
	// models of keys and of spend smaller, in proportion.
	Operations int
}

// Run tests that a store keeps its promises.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for _, promise := range []struct {
		name string
		test func(*testing.T, Harness)
	}{
		{"never_over", testNeverOver},
		{"all_or_nothing", testAllOrNothing},
		{"honest_retry_after", testHonestRetryAfter},
		{"bounded_lateness", testBoundedLateness},
		{"impossible_is_not_throttled", testImpossible},
		{"once", testOnce},
		{"settle_tells_the_truth", testSettle},
		{"settle_by_name", testSettleByName},
		{"parts_are_settled_by_themselves", testParts},
		{"time_only_moves_forward", testTime},
		{"pages_that_disagree_about_the_time", testLeaps},
		{"clocks_that_swing", testSwings},
		{"small", testSmall},
		{"bad_input_changes_nothing", testBadInput},
		{"blocks_heal", testBlocks},
		{"counter_is_its_formula", testCounter},
		{"bucket_drains", testBucket},
		{"enormous_units", testEnormous},
		{"book_revisions", testRevisions},
		{"default_precision", testPrecision},
		{"record", testRecord},
		{"recorded_is_what_happened", testRecorded},
		{"at_least", testAtLeast},
		{"slots", testSlots},
		{"slots_of_keys", testSlotsOfKeys},
		{"look", testLook},
		{"spend", testSpend},
		{"names", testNames},
		{"families", testFamilies},
		{"members", testMembers},
		{"keyed", testKeyed},
		{"limits_of_keys", testLimits},
		{"notes", testNotes},
		{"learned", testLearned},
		{"turns", testTurns},
		{"every_process", testShare},
		{"restart", testRestart},
		{"patience", testPatience},
		{"linearizable", testLinearizable},
		{"model_of_keys", testModelOfKeys},
		{"model_of_spend", testModelOfSpend},
		{"model", testModel},
	} {
		t.Run(promise.name, func(t *testing.T) { promise.test(t, h) })
	}
}

// soak reports whether the tests run with the full counts.
func soak() bool { return os.Getenv("HEADROOM_SOAK") == "1" }

// scaled returns the reduced count, or the full one in a soak.
func scaled(reduced, full int) int {
	if soak() {
		return full
	}
	return max(reduced/slower, 1)
}

// part is [scaled], less the share that Operations leaves out outside a soak.
func (h Harness) part(reduced, full int) int {
	n := scaled(reduced, full)
	if h.Operations > 0 && !soak() {
		n = min(n, n*h.Operations/scaled(3_000, 100_000))
	}
	return n
}
