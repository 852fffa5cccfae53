package ledger

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/internal/boundary"
)

var proveRate = boundary.Rate{Limit: proveLimit, Per: provePer}

func openedProve(t *testing.T, ledger string) *proveHome {
	t.Helper()
	var done console.Closers
	t.Cleanup(func() {
		if err := done.Close(); err != nil {
			t.Error(err)
		}
	})
	h, err := openProve(t.Context(), ledger, &done)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// The worst case of each limiter, with a limit of 50. The fixed window lets through twice
// its limit. GCRA, which refills evenly, and the estimate let through one less. The log and
// the ring never exceed their limit.
var proveWorst = map[string]int{"fixed": 100, "gcra": 99, "counter": 99, "log": 50, "ring": 50}

func TestProve(t *testing.T) {
	for _, ledger := range []string{"memory:", "sqlite:" + filepath.Join(t.TempDir(), "ledger.db")} {
		t.Run(strings.TrimRight(ledger[:6], ":"), func(t *testing.T) {
			h := openedProve(t, ledger)
			results, err := h.run(t.Context(), proveRate)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range results {
				if got := boundary.Worst(r.At.Accepted, proveRate.Per).Accepted; got != r.Worst.Accepted || got != proveWorst[r.ID] {
					t.Errorf("%s: %d accepted at worst, want %d", r.Name, got, proveWorst[r.ID])
				}
			}
			v := proved(h, proveRate, results)
			if v.Boundary.Fixed != 100 || v.Boundary.Ours != 50 || len(v.Boundary.Bursts) != 2 {
				t.Errorf("around the boundary: %+v", v.Boundary)
			}
			if err := v.broken(); err != nil {
				t.Error(err)
			}
		})
	}
}

// proveSeed replays bursts at random.
const proveSeed = "HEADROOM_TEST_SEED"

// No timeline makes a limiter let more through than its worst case: neither a burst after
// each pause nor random bursts.
func TestNoTimelineIsWorse(t *testing.T) {
	seed := rand.Uint64()
	if text := os.Getenv(proveSeed); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("again: %s=%d", proveSeed, seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const step = 200 * time.Millisecond
	var timelines []boundary.Timeline
	for pause := range 2 * proveLimit {
		t := boundary.Timeline{Steps: []boundary.Step{{Ask: 1}}}
		for i := range 2 * proveLimit {
			t.Steps = append(t.Steps, boundary.Step{After: step*time.Duration(pause+i) + 150*time.Millisecond, Ask: proveLimit, Give: true})
		}
		timelines = append(timelines, t)
	}
	for range scaledProve(100, 10_000) {
		var t boundary.Timeline
		for i := range 4 * proveLimit {
			if random.IntN(4) == 0 {
				t.Steps = append(t.Steps, boundary.Step{After: step*time.Duration(i) + time.Duration(random.IntN(200))*time.Millisecond, Ask: 1 + random.IntN(proveLimit)})
			}
		}
		timelines = append(timelines, t)
	}
	for _, timeline := range timelines {
		h := openedProve(t, "memory:")
		results, err := boundary.Prove(t.Context(), h.clock, proveRate, []boundary.Timeline{timeline}, h.contenders(proveRate))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if got := r.Worst.Accepted; got > proveWorst[r.ID] {
				t.Fatalf("%s: %d accepted, which is above its worst, on %v", r.Name, got, timeline.Steps)
			}
		}
	}
}

func scaledProve(reduced, full int) int {
	if os.Getenv("HEADROOM_SOAK") == "1" {
		return full
	}
	return reduced
}

func TestProvePicture(t *testing.T) {
	h := openedProve(t, "memory:")
	results, err := h.run(t.Context(), proveRate)
	if err != nil {
		t.Fatal(err)
	}
	picture := proved(h, proveRate, results).compared().svg()
	golden := filepath.Join("..", "..", "testdata", "prove.svg") // the README shows it
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(golden, picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(picture, want) {
		t.Errorf("the picture is another one than %s; UPDATE=1 writes it anew, then look at it:\n%s", golden, picture)
	}
	for _, want := range []string{"100 pass within 2s: 2 times the limit", ">50 pass within 2s<", ">50 refused<", ">100, over by 50<", ">50, never over<", ">the limit: 50<"} {
		if !strings.Contains(string(picture), want) {
			t.Errorf("%q is not in the picture", want)
		}
	}
}
