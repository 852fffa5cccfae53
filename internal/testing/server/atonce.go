package server

import (
	"encoding/json"
	"maps"
	"net/http"
	"sync"
	"time"
)

// AtOnce serves so many calls at once and refuses more. A call takes the time that its
// query parameter "latency" names, and "who" says who makes it.
type AtOnce struct {
	Most  int
	Clock Clock // nil is System

	mu     sync.Mutex
	counts AtOnceCounts
}

// AtOnceCounts is what a server did.
type AtOnceCounts struct {
	Granted, Refused, InFlight, Worst int
	By                                map[string]int // granted calls, by who made them
}

// Counts returns what the server did so far.
func (s *AtOnce) Counts() AtOnceCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.By = maps.Clone(s.counts.By)
	return c
}

// enter reports whether one more call fits.
func (s *AtOnce) enter(who string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts.InFlight >= s.Most {
		s.counts.Refused++
		return false
	}
	if s.counts.By == nil {
		s.counts.By = map[string]int{}
	}
	s.counts.By[who]++
	s.counts.Granted++
	s.counts.InFlight++
	s.counts.Worst = max(s.counts.Worst, s.counts.InFlight)
	return true
}

func (s *AtOnce) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.InFlight--
}

// ServeHTTP implements [http.Handler].
func (s *AtOnce) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter(r.URL.Query().Get("who")) {
		writeJSON(w, http.StatusTooManyRequests, map[string]string{"error": "too many requests at once"})
		return
	}
	defer s.leave()
	latency, _ := time.ParseDuration(r.URL.Query().Get("latency"))
	clock := s.Clock
	if clock == nil {
		clock = System{}
	}
	if clock.Sleep(r.Context(), latency) == nil {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]bool{"ok": true}) // the client has gone
	}
}
