package server

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// GraphQL is a shop behind a leaky bucket. A query asks for the first N items with the
// variable "first", and the variable "found" says how many there are. Its requested
// cost is 2 + 2 * first, its actual cost 2 + 2 * found. A refusal is HTTP 200 with the
// code THROTTLED, as at Shopify.
type GraphQL struct {
	clock Clock

	mu     sync.Mutex
	limit  *counter
	counts GraphQLCounts
}

// GraphQLCounts is what a server did.
type GraphQLCounts struct {
	Granted, Refused int
	Charged          int64
}

// NewGraphQL returns a server with a full bucket.
func NewGraphQL(l Limit, clock Clock) *GraphQL {
	if clock == nil {
		clock = System{}
	}
	return &GraphQL{clock: clock, limit: newCounter(l, clock.Now())}
}

// Counts returns what the server did so far.
func (s *GraphQL) Counts() GraphQLCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.Charged = s.limit.total
	return c
}

// Take takes points directly, if they are left. See [Spender].
func (s *GraphQL) Take(points int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if s.limit.left(now) < points {
		return false
	}
	s.limit.add(now, points)
	return true
}

// ServeHTTP implements [http.Handler].
func (s *GraphQL) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Query     string `json:"query"`
		Variables struct {
			First   int64  `json:"first"`
			Found   int64  `json:"found"`
			Latency string `json:"latency"`
		} `json:"variables"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Query == "" {
		writeJSON(w, http.StatusBadRequest, map[string]string{"errors": "no query"})
		return
	}
	requested := 2 + 2*asked.Variables.First
	actual := min(requested, 2+2*asked.Variables.Found)
	if !s.begin(requested) {
		writeJSON(w, http.StatusOK, map[string]any{
			"errors":     []any{map[string]any{"message": "Throttled", "extensions": map[string]string{"code": "THROTTLED", "documentation": "https://shopify.dev/api/usage/rate-limits"}}},
			"extensions": map[string]any{"cost": s.cost(requested, nil)},
		})
		return
	}
	latency, _ := time.ParseDuration(asked.Variables.Latency)
	_ = s.clock.Sleep(r.Context(), latency) // a client that has gone pays, too
	s.end(requested - actual)
	writeJSON(w, http.StatusOK, map[string]any{
		"data":       map[string]any{"products": map[string]any{"nodes": []any{}}},
		"extensions": map[string]any{"cost": s.cost(requested, actual)},
	})
}

// begin takes the requested points.
func (s *GraphQL) begin(points int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if s.limit.left(now) < points {
		s.counts.Refused++
		return false
	}
	s.counts.Granted++
	s.limit.add(now, points)
	return true
}

// end gives back what was asked for and not used.
func (s *GraphQL) end(points int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	s.limit.give(now, now, points)
}

// cost is what an answer says of the cost.
func (s *GraphQL) cost(requested int64, actual any) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return map[string]any{
		"requestedQueryCost": requested,
		"actualQueryCost":    actual,
		"throttleStatus": map[string]any{
			"maximumAvailable":   float64(s.limit.most()),
			"currentlyAvailable": s.limit.left(s.clock.Now()),
			"restoreRate":        float64(s.limit.Quota) / s.limit.Per.Seconds(),
		},
	}
}
