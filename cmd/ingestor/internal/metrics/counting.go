package metrics

import "github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"

// Metrics of the comparison with the upstream's own count, if this process makes it.
var (
	countUp   = gauge("headroom_upstream_count_up", "Whether the upstream's own count could be read and compared at the last try; missing before the first one.")
	countRead = gauge("headroom_upstream_count_read_timestamp_seconds", "When the upstream's own count was last read and compared; 0 if never.")
)

func (r *readings) counting(s view.CountState) {
	up := 1.0
	if s.Err != nil {
		up = 0
	}
	if !s.Read.IsZero() || s.Err != nil {
		r.add(countUp, up)
		r.add(countRead, instant(s.Read))
	}
}
