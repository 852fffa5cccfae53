package metrics

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// shared gathers for all who ask within a while at once: to read the ledger and the catalog
// is expensive, and nothing limits how often monitoring asks.
type shared struct {
	prometheus.Gatherer
	share time.Duration

	mu   sync.Mutex
	had  bool
	last []*dto.MetricFamily
	err  error
}

// Gather implements [prometheus.Gatherer]. Nobody changes what it returns.
func (s *shared) Gather() ([]*dto.MetricFamily, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.had {
		return s.last, s.err
	}
	s.last, s.err = s.Gatherer.Gather()
	if s.share > 0 {
		s.had = true
		time.AfterFunc(s.share, s.forget)
	}
	return s.last, s.err
}

func (s *shared) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.had, s.last, s.err = false, nil, nil
}

// patient answers those who hang up: that is no error of ours, and they may do it at any
// rate.
func patient(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(&quiet{ResponseWriter: w}, r) })
}

// quiet writes until it fails, and then nothing.
type quiet struct {
	http.ResponseWriter
	gone bool
}

// Write implements [http.ResponseWriter].
func (q *quiet) Write(b []byte) (int, error) {
	if !q.gone {
		_, err := q.ResponseWriter.Write(b)
		q.gone = err != nil
	}
	return len(b), nil
}

// Unwrap is for [http.ResponseController].
func (q *quiet) Unwrap() http.ResponseWriter { return q.ResponseWriter }
