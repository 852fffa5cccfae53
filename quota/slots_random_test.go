package quota_test

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// Whatever calls took, a refusal by a full pool never says more than the ttl, and, once calls have
// ended, never more than the longest of them took. It says at least as much as the shortest,
// unless the ttl is nearer.
func TestRandomRetryAfterOfAFullPool(t *testing.T) {
	seed, rounds := uint64(1), 200
	if os.Getenv("HEADROOM_SOAK") == "1" {
		seed, rounds = rand.Uint64(), 100_000
	}
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	inBubble(t, func(r *slotRig) {
		const ttl = time.Minute
		var shortest, longest time.Duration
		for i := range rounds {
			one, two := must(r, r.a, r.enter), must(r, r.a, r.enter)
			got := r.retry(r.a)
			if got <= 0 || got > ttl {
				r.Fatalf("retry after %s, and the ttl is %s", got, ttl)
			}
			if i > 0 && (got > max(longest, 25*time.Millisecond) || got < min(shortest, ttl/2)) {
				r.Fatalf("retry after %s, and calls took %s to %s", got, shortest, longest)
			}
			for _, call := range []*quota.Reservation{one, two} {
				began := time.Now()
				time.Sleep(time.Duration(random.Int64N(int64(20 * time.Second))))
				r.done(call)
				took := began.Sub(call.At) + time.Since(began)
				if shortest = min(shortest, took); i == 0 && call == one {
					shortest = took
				}
				longest = max(longest, took)
			}
		}
	})
}
