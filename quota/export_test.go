package quota

import (
	"testing"
	"time"
)

// Waiting returns how many pools have a line, for the tests of package quota_test.
func (l *Ledger) Waiting() int {
	l.line.mu.Lock()
	defer l.line.mu.Unlock()
	return len(l.line.queues)
}

func TestIDsAreNeverTheSame(t *testing.T) {
	seen := map[string]bool{}
	for _, i := range []*ids{newIDs(), newIDs()} {
		for range 1000 {
			id := i.next()
			if seen[id] || !validID(id) {
				t.Fatalf("id %q after %d others", id, len(seen))
			}
			seen[id] = true
		}
	}
}

// Heard returns how many windows the ledger remembers reports of.
func (l *Ledger) Heard() int {
	l.heard.mu.Lock()
	defer l.heard.mu.Unlock()
	return len(l.heard.windows)
}

// OpenSlots returns how many reservations' slots the ledger renews.
func (l *Ledger) OpenSlots() int {
	l.slots.mu.Lock()
	defer l.slots.mu.Unlock()
	return len(l.slots.open)
}

// Renew renews all slots and receipts that a ledger keeps, as if they were due.
func (l *Ledger) Renew() {
	l.slots.mu.Lock()
	for _, s := range l.slots.open {
		s.due = time.Time{}
	}
	l.slots.mu.Unlock()
	l.renew()
}

// Refusals returns how many refusals a ledger remembers.
func Refusals(l *Ledger) int { return len(l.refusals.told) }

// LimitsWithin is how long a call waits for its key's limit.
const LimitsWithin = limitsWithin

// AwaitLimits waits until a ledger has read its limits.
func AwaitLimits(l *Ledger) {
	for l.limits.asked.Load() == 0 && !l.limits.none.Load() && l.limits.failed.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	l.limits.reading.Lock() // nor is it reading them again
	defer l.limits.reading.Unlock()
}
