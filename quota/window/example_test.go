package window_test

import (
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// normal is for examples, whose specs are right.
func normal(s window.Spec) window.Spec {
	s, err := s.Normal()
	if err != nil {
		panic(err)
	}
	return s
}

func ExampleRing() {
	ring := window.NewRing(normal(window.Spec{Per: time.Minute, Precision: 10 * time.Second}))
	start := window.At(time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC))
	const limit = 10
	for _, ask := range []struct {
		after time.Duration
		units int64
	}{{3 * time.Second, 6}, {14 * time.Second, 4}, {20 * time.Second, 1}, {20 * time.Second, 7}, {70 * time.Second, 6}, {80 * time.Second, 4}} {
		at := start.Add(ask.after)
		if ring.Take(at, ask.units, limit) {
			fmt.Printf("%3s: %d granted, %d used\n", ask.after, ask.units, ring.Used(at))
		} else {
			fmt.Printf("%3s: %d refused, free in %s\n", ask.after, ask.units, ring.Free(at, ask.units, limit).Sub(at))
		}
	}
	// Output:
	//  3s: 6 granted, 6 used
	// 14s: 4 granted, 10 used
	// 20s: 1 refused, free in 50s
	// 20s: 7 refused, free in 1m0s
	// 1m10s: 6 granted, 10 used
	// 1m20s: 4 granted, 10 used
}

func ExampleCalendar() {
	pacific, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		panic(err)
	}
	day := window.NewCalendar(normal(window.Spec{Period: window.Day, Zone: pacific}))
	const limit = 10_000

	noon := window.At(time.Date(2026, 11, 1, 12, 0, 0, 0, pacific)) // a day of 25 hours
	fmt.Println(day.Take(noon, 10_000, limit))
	fmt.Println(day.Take(noon, 1, limit))
	fmt.Println("the day ends:", day.Reset(noon).Time().In(pacific))
	fmt.Println("one unit is free:", day.Free(noon, 1, limit).Time().In(pacific)) // the lag is a minute
	// Output:
	// true
	// false
	// the day ends: 2026-11-02 00:00:00 -0800 PST
	// one unit is free: 2026-11-02 00:01:00 -0800 PST
}

func ExampleLog() {
	log := window.NewLog(normal(window.Spec{Per: time.Hour, Algorithm: window.Exact}))
	at := window.At(time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC))
	log.Take(at, 60, 100)
	log.Take(at.Add(10*time.Minute), 40, 100)

	now := at.Add(30 * time.Minute)
	for _, units := range []int64{1, 60, 61, 101} {
		if free := log.Free(now, units, 100); free == window.Never {
			fmt.Printf("%d units: never\n", units)
		} else {
			fmt.Printf("%d units: in %s\n", units, free.Sub(now))
		}
	}
	// Output:
	// 1 units: in 30m0s
	// 60 units: in 30m0s
	// 61 units: in 40m0s
	// 101 units: never
}

func ExampleCounter() {
	counter := window.NewCounter(normal(window.Spec{Per: time.Minute, Algorithm: window.Estimate}))
	now := window.At(time.Unix(1745000145, 0)) // 45s into its minute
	counter.Add(now.Add(-time.Minute), 8)      // in the minute before
	counter.Add(now, 3)

	// A quarter of the previous minute is still in the window: 8/4 + 3.
	fmt.Println("estimate:", counter.Used(now))
	fmt.Println("one more of 5:", counter.Take(now, 1, 5))
	fmt.Println("free in", counter.Free(now, 1, 5).Sub(now))
	// Output:
	// estimate: 5
	// one more of 5: false
	// free in 7.5s
}

// A page keeps all windows of a pool together: what is taken is taken from each.
func ExamplePage() {
	limits := []window.Limit{
		window.NewLimit(normal(window.Spec{Per: 24 * time.Hour}), 9500),
		window.NewLimit(normal(window.Spec{Period: window.Day}), 9500),
	}
	clock := window.At(time.Date(2026, 11, 20, 22, 0, 0, 0, time.UTC))
	page := window.NewPage(clock, 1, limits)

	now, _ := page.Now(clock)
	if page.Fits(now, 9000, limits) {
		page.Add(now, 9000)
	}
	// Three hours later a new day has begun, but the units are not a day old.
	now, _ = page.Now(clock.Add(3 * time.Hour))
	free, deciding := page.Free(now, 600, limits)
	fmt.Println(page.Fits(now, 600, limits))
	fmt.Printf("free in %s, when the window of %s has room\n", free.Sub(now), limits[deciding].Name)
	// Output:
	// false
	// free in 21h1m0s, when the window of 24h has room
}
