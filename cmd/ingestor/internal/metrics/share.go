package metrics

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/kept"
	"github.com/headroom-quota/headroom/quota"
)

// shared gathers for all who ask within a while at once: to read the ledger and the catalog
// is expensive, and nothing limits how often monitoring asks.
type shared struct {
	prometheus.Gatherer
	share time.Duration

	mu   sync.Mutex
	had  bool
	ends time.Time // when what it had is forgotten
	last []*dto.MetricFamily
	err  error
}

// machine is the clock: Prometheus counts by that of the machine, too.
var machine quota.SystemClock

// Gather implements [prometheus.Gatherer]. Callers must not change the result.
func (s *shared) Gather() ([]*dto.MetricFamily, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.had {
		return s.last, s.err
	}
	s.last, s.err = s.Gatherer.Gather()
	if s.share > 0 {
		s.had, s.ends = true, machine.Now().Add(s.share)
		time.AfterFunc(s.share, s.forget)
	}
	return s.last, s.err
}

func (s *shared) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.had, s.last, s.err = false, nil, nil
}

// until returns when what Gather returns next is forgotten, at the earliest.
func (s *shared) until() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.had {
		return s.ends
	}
	return machine.Now().Add(s.share)
}

// Chosen returns the metrics that a request names, or none if it asks for all.
func Chosen(r *http.Request) []string {
	names := r.URL.Query()["name[]"]
	slices.Sort(names)
	return slices.Compact(names)
}

// text keeps the answers of next, for as long as what it gathers. Requests for all metrics share
// an answer. The handler some answers requests for chosen metrics, so that they take no turn of
// the others.
func (s *shared) text(next, some http.Handler) http.Handler {
	answers := kept.NewStore(kept.Options{Now: machine.Now, Most: 8 << 20, Each: 4 << 20})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next := next
		names := Chosen(r)
		if len(names) > 0 {
			next = some
		}
		key := fmt.Sprintf("%s %q", expfmt.NegotiateAccept(r.Header, expfmt.DefaultAcceptedFormats()...), names)
		a, err := answers.Do(r.Context(), kept.Version{}, key, func(context.Context) (*kept.Answer, error) {
			until := s.until()
			a, err := kept.Capture(next, r)
			if err != nil {
				return nil, err
			}
			a.Until = until
			return a, nil
		})
		if !kept.SendOther(w, err) && err == nil {
			a.Send(w, r)
		}
	})
}
