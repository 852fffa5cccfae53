package quota_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// walk reserves at instants of a day, and prints what comes of it. README.md in
// this directory shows its tables.
func walk(windows string, asks ...ask) {
	costs, err := book.Parse("costs.yaml", []byte("revision: 1\nupstreams: {api: {pools: {units: {quota: 10, windows: ["+windows+"]}}, methods: {}}}\n"), nil)
	if err != nil {
		log.Fatal(err)
	}
	clock := quota.NewSimClock(time.Time{})
	ledger, err := quota.New(costs, memstore.New(&memstore.Options{Clock: clock}), &quota.Options{Clock: clock})
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range asks {
		at, err := time.Parse("2 15:04:05", a.at)
		if err != nil {
			log.Fatal(err)
		}
		clock.Set(at.AddDate(2026, 10, 0))
		r, err := ledger.Reserve(context.Background(), quota.Call{Charges: map[string]int64{"units": a.units}})
		var refused *quota.RefusedError
		switch {
		case errors.As(err, &refused):
			fmt.Printf("%s  take %2d  refused: %2d used in %s, free on %s\n", a.at, a.units, refused.Used, refused.Window, refused.RetryAt.Format("2 15:04:05"))
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Printf("%s  take %2d  granted: %2d used in %s\n", a.at, a.units, r.Used, r.Window)
		}
	}
}

type ask struct {
	at    string // a day of the month, and the time
	units int64
}

// A ring of 10 units per minute, in buckets of 10 seconds.
func Example_ring() {
	walk("{per: 1m, precision: 10s}",
		ask{"20 09:00:03", 6}, ask{"20 09:00:14", 4}, ask{"20 09:00:20", 1}, ask{"20 09:00:20", 7},
		ask{"20 09:01:03", 1}, ask{"20 09:01:10", 6}, ask{"20 09:01:20", 4})
	// Output:
	// 20 09:00:03  take  6  granted:  6 used in 1m
	// 20 09:00:14  take  4  granted: 10 used in 1m
	// 20 09:00:20  take  1  refused: 10 used in 1m, free on 20 09:01:10
	// 20 09:00:20  take  7  refused: 10 used in 1m, free on 20 09:01:20
	// 20 09:01:03  take  1  refused: 10 used in 1m, free on 20 09:01:10
	// 20 09:01:10  take  6  granted: 10 used in 1m
	// 20 09:01:20  take  4  granted: 10 used in 1m
}

// A calendar day of 10 units: what comes within a minute of midnight counts for
// both days.
func Example_calendar() {
	walk("{per: day, zone: UTC}",
		ask{"20 12:00:00", 3}, ask{"20 23:59:30", 4}, ask{"21 00:00:30", 3}, ask{"21 00:00:40", 1},
		ask{"21 00:01:00", 3}, ask{"21 00:02:00", 1}, ask{"22 00:01:00", 10})
	// Output:
	// 20 12:00:00  take  3  granted:  3 used in day UTC
	// 20 23:59:30  take  4  granted:  7 used in day UTC
	// 21 00:00:30  take  3  granted: 10 used in day UTC
	// 21 00:00:40  take  1  refused: 10 used in day UTC, free on 21 00:01:00
	// 21 00:01:00  take  3  granted: 10 used in day UTC
	// 21 00:02:00  take  1  refused: 10 used in day UTC, free on 22 00:01:00
	// 22 00:01:00  take 10  granted: 10 used in day UTC
}

// A day alone lets two full quotas through around midnight; beside 24 hours it
// does not.
func Example_both() {
	asks := []ask{{"20 23:00:00", 10}, {"21 00:01:00", 10}, {"21 23:01:00", 10}}
	fmt.Println("the day alone")
	walk("{per: day, zone: UTC}", asks[:2]...)
	fmt.Println("the day and 24 hours")
	walk("{per: day, zone: UTC}, {per: 24h}", asks...)
	// Output:
	// the day alone
	// 20 23:00:00  take 10  granted: 10 used in day UTC
	// 21 00:01:00  take 10  granted: 10 used in day UTC
	// the day and 24 hours
	// 20 23:00:00  take 10  granted: 10 used in day UTC
	// 21 00:01:00  take 10  refused: 10 used in 24h, free on 21 23:01:00
	// 21 23:01:00  take 10  granted: 10 used in day UTC
}
