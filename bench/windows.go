package main

import (
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// bare is a window by itself: the time is an argument and nothing locks.
func bare(spec func(per time.Duration) window.Spec) func(int64, time.Duration, *clock) func() bool {
	return func(limit int64, per time.Duration, c *clock) func() bool {
		w := window.New(must(spec(per).Normal()))
		return func() bool { return w.Take(window.At(c.time()), weight, limit) }
	}
}

// locked is a window behind a mutex: what AllowN is.
func locked(spec func(per time.Duration) window.Spec) func(int64, time.Duration, *clock) func() bool {
	return func(limit int64, per time.Duration, c *clock) func() bool {
		var mu sync.Mutex
		w := window.New(must(spec(per).Normal()))
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return w.Take(window.At(c.time()), weight, limit)
		}
	}
}

func ring(per time.Duration) window.Spec { return window.Spec{Per: per} }

func log(per time.Duration) window.Spec {
	return window.Spec{Per: per, Algorithm: window.Exact}
}

func counter(per time.Duration) window.Spec {
	return window.Spec{Per: per, Algorithm: window.Estimate}
}

func calendar(per time.Duration) window.Spec {
	if per == time.Minute {
		return window.Spec{Period: window.Minute}
	}
	return window.Spec{Period: window.Day}
}
