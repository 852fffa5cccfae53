package storetest

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// A page with the former default precision is laid out again under the same revision. It
// keeps its counts. They leave late by as much as the page cannot tell.
func testPrecision(t *testing.T, h Harness) {
	const second, tenth = time.Second, 100 * time.Millisecond
	former := []window.Limit{ring(10, second, second), ring(50, 30*second, second), calendar(100, window.Day, "UTC")}
	today := []window.Limit{ring(10, second, tenth), ring(50, 30*second, second), calendar(100, window.Day, "UTC")}
	chosen := []window.Limit{ring(10, second, second/2), ring(50, 30*second, second), calendar(100, window.Day, "UTC")}
	run(t, h, []timeline{
		{"the_former_default_is_laid_out_again_and_keeps_its_counts", former, nil, []row{
			{0, reserveAs("a", 4), "granted 4/10"},
			{second / 2, reserve(2), "granted 6/10"},
			{second / 2, revision(1, looks("units"), today...), "6, 6, 6"},
			{second / 2, looks("units"), "6, 6, 6"}, // to look changes nothing
			{second / 2, revision(1, reserve(3), today...), "granted 9/10"},
			{second / 2, revision(1, reserve(2), today...), "refused 9/10, retry after 1.5s"}, // their bucket ends at 1s
			{second / 2, revision(1, reserveAs("a", 4), today...), "granted again"},
			{second / 2, revision(1, settle("a", 1), today...), "left 3"},
			{2 * second, revision(1, looks("units"), today...), "0, 9, 9"},
			{2 * second, revision(1, reserve(10), today...), "granted 10/10"},
			{3100 * time.Millisecond, revision(1, reserve(10), today...), "granted 10/10"},
		}},
		{"of_milliseconds", []window.Limit{ring(10, 5*time.Millisecond, time.Millisecond)}, nil, []row{
			{0, reserve(4), "granted 4/10"},
			{0, revision(1, reserve(3), limited(10, window.Spec{Per: 5 * time.Millisecond})), "granted 7/10"},
			{5 * time.Millisecond, revision(1, reserve(4), limited(10, window.Spec{Per: 5 * time.Millisecond})), "refused 7/10, retry after 1ms"},
		}},
		{"by_a_record", former, nil, []row{
			{0, reserve(4), "granted 4/10"},
			{0, revision(1, record(2), today...), "ok"},
			{0, revision(1, looks("units"), today...), "6, 6, 6"},
		}},
		{"by_a_block", former, nil, []row{
			{0, reserve(4), "granted 4/10"},
			{0, revision(1, blockFor(time.Minute, "units"), today...), "ok"},
			{0, revision(1, looks("units"), today...), "4, 4, 4"},
			{0, revision(1, reserve(1), today...), "blocked, retry after 1m0s"},
		}},
		{"nobody_goes_back_to_the_former_default", today, nil, []row{
			{0, reserve(4), "granted 4/10"},
			{0, revision(1, reserve(1), former...), "bad input"},
			{0, looks("units"), "4, 4, 4"},
		}},
		{"what_a_person_chose_is_no_default", chosen, nil, []row{
			{0, reserve(4), "granted 4/10"},
			{0, revision(1, reserve(1), today...), "bad input"},
			{0, looks("units"), "4, 4, 4"},
		}},
		{"another_window_beside_it_is_bad_input", former, nil, []row{
			{0, reserve(4), "granted 4/10"},
			{0, revision(1, reserve(1), today[0], today[1], calendar(100, window.Day, "Asia/Tokyo")), "bad input"},
			{0, revision(1, reserve(1), today[:2]...), "bad input"},
			{0, looks("units"), "4, 4, 4"},
		}},
	})
}
