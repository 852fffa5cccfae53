package meter

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// What recent calls have cost is shared with the other processes of the ledger: it has a note for each
// method of an account. A process reads it before its first call, so it begins with what the others
// know. A moment after its own calls, it adds their costs to the note.

const (
	// shareEvery is how often a note is written at most, unless many calls have ended.
	shareEvery = time.Second
	// shareSoon is how many calls are many.
	shareSoon = 64
	// shareTimeout bounds the time for one note. A call waits for it once.
	shareTimeout = time.Second
	// longestShared is the longest key that is shared. The ledger hashes longer ones.
	longestShared = 64
	// mostUnshared bounds the costs that wait until the ledger answers again.
	mostUnshared = 1024
	noteForm     = 1
)

// costNote is a note.
type costNote struct {
	Form  int
	Costs []learnedCost
}

type learnedCost struct {
	Of   costOf
	Cost *recent
}

// sharedCosts are those of a method of an account.
type sharedCosts struct {
	first sync.Once // reads the note
	fresh []freshCost
	busy  bool // somebody writes the note
	at    time.Time
}

// freshCost is what a call has cost that the note does not have.
type freshCost struct {
	of    costOf
	units int64
}

// method is the part of the name whose costs one note has.
func (of costOf) method() costOf {
	return costOf{Upstream: of.Upstream, Account: of.Account, Method: of.Method}
}

// sharedOf returns the shared costs of a method. The caller holds the lock.
func (m *memory) sharedOf(of costOf) *sharedCosts {
	of = of.method()
	s := m.shared[of]
	if s == nil {
		if s = new(sharedCosts); m.shared == nil {
			m.shared = make(map[costOf]*sharedCosts)
		}
		m.shared[of] = s
	}
	return s
}

// hearCosts reads what calls of a method have cost other processes, once.
func (t *Transport) hearCosts(ctx context.Context, of costOf) {
	t.memory.mu.Lock()
	s := t.memory.sharedOf(of)
	t.memory.mu.Unlock()
	s.first.Do(func() { t.shareCosts(ctx, of, s) })
}

// tellCosts tells other processes what a call has cost, in a moment.
func (t *Transport) tellCosts(of costOf, units int64) {
	t.memory.learn(of, units)
	m := &t.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sharedOf(of)
	if len(s.fresh) == mostUnshared {
		return // the ledger has been down for long
	}
	s.fresh = append(s.fresh, freshCost{of, units})
	now := quota.SystemClock{}.Now()
	if s.busy || len(s.fresh)%shareSoon != 0 && now.Sub(s.at).Abs() < shareEvery {
		return
	}
	s.busy, s.at = true, now
	t.later.do(func() {
		t.shareCosts(context.Background(), of, s)
		m.mu.Lock()
		defer m.mu.Unlock()
		s.busy = false
	})
}

func (t *Transport) shareAllCosts(ctx context.Context) {
	t.memory.mu.Lock()
	all := maps.Clone(t.memory.shared)
	t.memory.mu.Unlock()
	for of, s := range all {
		t.memory.mu.Lock()
		fresh := len(s.fresh)
		t.memory.mu.Unlock()
		if fresh > 0 {
			t.shareCosts(ctx, of, s)
		}
	}
}

// shareCosts writes what is fresh into the note of a method, and takes what others have written.
// If that fails, this process goes on with what it knows by itself.
func (t *Transport) shareCosts(ctx context.Context, of costOf, s *sharedCosts) {
	m := &t.memory
	within, cancel := context.WithTimeout(ctx, shareTimeout)
	defer cancel()
	of = of.method()
	var merged map[costOf]*recent
	written := 0
	err := t.ledger.Note(within, "costs "+of.Upstream+"@"+of.Account+" "+of.Method, func(note string) (string, bool) {
		merged, written = m.merge(note, of, s)
		return noteOf(merged), written > 0
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		if !errors.Is(err, quota.ErrBadInput) { // which says that the store keeps no notes
			t.set.Logger.LogAttrs(ctx, slog.LevelDebug, "what calls have cost is not shared", slog.String("error", err.Error()))
		}
		return
	}
	maps.Copy(m.costs, merged)
	m.bound()
	s.fresh = slices.Delete(s.fresh, 0, min(written, len(s.fresh)))
	for _, c := range s.fresh { // came meanwhile
		if r := merged[c.of]; r != nil {
			r.add(c.units)
		}
	}
}

// merge returns what a note says of a method's costs with what is fresh, and how much of that there is.
// If the note lacks a cost, that of this process takes its place. A long key may be personal, so its
// cost is not shared.
func (m *memory) merge(note string, method costOf, s *sharedCosts) (all map[costOf]*recent, fresh int) {
	all = make(map[costOf]*recent)
	known := make(map[costOf]bool)
	var read costNote
	if json.Unmarshal([]byte(note), &read) == nil && read.Form == noteForm { // else it is written anew
		for _, c := range read.Costs {
			if c.Of.method() == method && c.Cost.sound() {
				all[c.Of], known[c.Of] = c.Cost, true
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for of, cost := range m.costs {
		if of.method() == method && !known[of] && len(of.Key) <= longestShared {
			own := *cost
			own.Count = maps.Clone(cost.Count)
			all[of] = &own
		}
	}
	for _, c := range s.fresh {
		if known[c.of] { // else what this process knows has it
			all[c.of].add(c.units)
		}
	}
	return all, len(s.fresh)
}

// bound forgets costs beyond the most that are remembered. The caller holds the lock.
func (m *memory) bound() {
	for of := range m.costs {
		if len(m.costs) <= mostLearned {
			return
		}
		delete(m.costs, of)
	}
}

// noteOf writes costs. Of very many keys it keeps those of which most was seen.
func noteOf(all map[costOf]*recent) string {
	note := costNote{Form: noteForm}
	for of, cost := range all {
		note.Costs = append(note.Costs, learnedCost{of, cost})
	}
	slices.SortFunc(note.Costs, func(a, b learnedCost) int { return cmp.Compare(b.Cost.Seen, a.Cost.Seen) })
	for {
		text, err := json.Marshal(&note)
		if err != nil {
			return "" // no number of a sound cost does that
		}
		if len(text) <= quota.MaxNote {
			return string(text)
		}
		note.Costs = note.Costs[:len(note.Costs)*3/4]
	}
}
