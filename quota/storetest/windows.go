package storetest

import (
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// limited prepares a window of a table. It panics if the window is invalid.
func limited(limit int64, s window.Spec) window.Limit {
	s, err := s.Normal()
	if err != nil {
		panic(err)
	}
	return window.NewLimit(s, limit)
}

func ring(limit int64, per, precision time.Duration) window.Limit {
	return limited(limit, window.Spec{Per: per, Precision: precision})
}

func exact(limit int64, per time.Duration) window.Limit {
	return limited(limit, window.Spec{Per: per, Algorithm: window.Exact})
}

func counter(limit int64, per time.Duration) window.Limit {
	return limited(limit, window.Spec{Per: per, Algorithm: window.Estimate})
}

func calendar(limit int64, period window.Period, zone string) window.Limit {
	z, err := time.LoadLocation(zone)
	if err != nil {
		panic(err)
	}
	return limited(limit, window.Spec{Period: period, Zone: z})
}

func bucket(limit, rate int64, per time.Duration) window.Limit {
	return limited(limit, window.Spec{Per: per, Algorithm: window.Leaky, Rate: rate})
}

// everyKind returns a window of each kind.
func everyKind(limit int64) map[string]window.Limit {
	return map[string]window.Limit{
		"ring":      ring(limit, time.Hour, time.Minute),
		"log":       exact(limit, time.Hour),
		"counter":   counter(limit, time.Hour),
		"calendar":  calendar(limit, window.Day, "America/Los_Angeles"),
		"bucket":    bucket(limit, limit, time.Hour),
		"wide":      limited(limit, window.Spec{Per: time.Hour, Precision: time.Minute, Wide: true}),
		"in_flight": inFlight(limit, time.Hour),
	}
}
