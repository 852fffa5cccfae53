package storetest

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// Promise 2: a reservation takes every charge or none, and a refused call costs
// nothing.
func testAllOrNothing(t *testing.T, h Harness) {
	hour := func(limit int64) []window.Limit { return []window.Limit{ring(limit, time.Hour, time.Minute)} }
	run(t, h, []timeline{
		{"pools", hour(100), map[string][]window.Limit{"searches": hour(5)}, []row{
			{0, reserveBoth("", 10, 5), "granted 5/5 of searches 1h"},
			{0, reserveBoth("", 10, 1), "refused 5/5, retry after 1h1m0s of searches 1h"},
			{0, looks("units", "searches"), "10; 5"},
			{0, reserveBoth("", 95, 0), "refused 10/100, retry after 1h1m0s of units 1h"},
			{0, looks("units", "searches"), "10; 5"},
			{0, reserveBoth("", 90, 0), "granted 100/100 of units 1h"},
		}},
		{"windows", []window.Limit{ring(10, time.Hour, time.Minute), exact(100, time.Minute), counter(100, time.Hour), calendar(100, window.Day, "UTC")}, nil, []row{
			{0, reserve(8), "granted 8/10"},
			{0, reserve(3), "refused 8/10, retry after 1h1m0s"},
			{0, looks("units"), "8, 8, 8, 8"},
		}},
		{"last_window_refuses", []window.Limit{calendar(100, window.Day, "UTC"), counter(100, time.Hour), exact(100, time.Minute), ring(10, time.Hour, time.Minute)}, nil, []row{
			{0, reserve(8), "granted 8/10"},
			{0, reserve(3), "refused 8/10, retry after 1h1m0s"},
			{0, looks("units"), "8, 8, 8, 8"},
		}},
		{"blocked_pool", hour(100), map[string][]window.Limit{"searches": hour(5)}, []row{
			{0, blockFor(time.Minute, "searches"), "ok"},
			{0, reserveBoth("", 10, 1), "blocked, retry after 1m0s of searches 1h"},
			{0, looks("units", "searches"), "0; 0"},
		}},
		{"impossible_pool", hour(100), map[string][]window.Limit{"searches": hour(5)}, []row{
			{0, reserveBoth("", 10, 6), "impossible, limit 5 of searches 1h"},
			{0, looks("units", "searches"), "0; 0"},
		}},
		{"refused_ids_leave_no_receipt", hour(10), nil, []row{
			{0, reserve(8), "granted 8/10"},
			{0, reserveAs("a", 3), "refused 8/10, retry after 1h1m0s"},
			{0, settle("a", 0), "bad input"},
			{0, looks("units"), "8"},
		}},
		{"what_costs_nothing_always_fits", hour(10), nil, []row{
			{0, record(15), "ok"},
			{0, reserve(0), "granted 15/10"},
			{0, looks("units"), "15"},
		}},
	})
}
