package server

import (
	"context"
	"sync/atomic"
	"time"
)

// Spender takes units from a server without asking anybody: a program that shares the
// key. It takes each burst at once, if the server has so much left.
type Spender struct {
	Take  func(units int64) bool
	Burst int64
	Every time.Duration
	Most  int64         // within each Per from the start on; 0 is no maximum
	Per   time.Duration // of Most
	Clock Clock         // nil is System

	took, refused atomic.Int64
}

// Run spends until the context ends.
func (s *Spender) Run(ctx context.Context) {
	clock := s.Clock
	if clock == nil {
		clock = System{}
	}
	start, period, within := clock.Now(), time.Duration(0), int64(0)
	for clock.Sleep(ctx, s.Every) == nil {
		if s.Most > 0 {
			if now := clock.Now().Sub(start) / s.Per; now != period {
				period, within = now, 0
			}
			if within+s.Burst > s.Most {
				continue
			}
		}
		if s.Take(s.Burst) {
			within += s.Burst
			s.took.Add(s.Burst)
		} else {
			s.refused.Add(1)
		}
	}
}

// Took returns the units it got, and how many bursts found too little left.
func (s *Spender) Took() (units, refused int64) { return s.took.Load(), s.refused.Load() }
