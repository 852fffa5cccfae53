package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// A page has the windows of the highest revision of the price book that it has seen.
func testRevisions(t *testing.T, h Harness) {
	const minute = time.Minute
	old := []window.Limit{ring(10, time.Hour, minute)}
	midnight := limited(9, window.Spec{Period: window.Day, Zone: time.UTC, Lag: -1})
	run(t, h, []timeline{
		{"a_lower_one_is_told_that_its_book_is_stale", old, nil, []row{
			{0, revision(7, reserve(5)), "granted 5/10"},
			{0, revision(6, reserve(1)), "stale book"},
			{0, revision(6, record(1)), "stale book"},
			{0, revision(6, blockFor(minute, "units")), "stale book"},
			{0, revision(7, looks("units")), "5"},
			{0, revision(8, reserve(5)), "granted 10/10"},
			{0, revision(7, reserve(0)), "stale book"},
		}},
		{"the_same_one_with_other_windows_is_bad_input", old, nil, []row{
			{0, reserve(5), "granted 5/10"},
			{0, revision(1, reserve(1), exact(10, time.Hour)), "bad input"},
			{0, revision(1, reserve(1), ring(10, time.Hour, 2*minute)), "bad input"},
			{0, revision(1, reserve(1), ring(10, time.Hour, minute), exact(10, minute)), "bad input"},
			{0, revision(1, record(1), exact(10, time.Hour)), "bad input"},
			{0, looks("units"), "5"},
			{0, revision(1, reserve(1), ring(20, time.Hour, minute)), "granted 6/20"}, // a limit is no layout
		}},
		{"a_window_that_stays_keeps_what_it_knows", []window.Limit{exact(10, time.Hour), ring(20, 2*time.Hour, minute)}, nil, []row{
			{0, reserve(3), "granted 3/10"},
			{30 * minute, reserve(3), "granted 6/10"},
			{40 * minute, revision(2, reserve(1), exact(10, time.Hour), exact(50, minute)), "granted 7/10"},
			{40 * minute, revision(2, looks("units"), exact(10, time.Hour), exact(50, minute)), "7, 7"},
			{60 * minute, revision(2, looks("units"), exact(10, time.Hour), exact(50, minute)), "4, 0"},
			{90 * minute, revision(2, looks("units"), exact(10, time.Hour), exact(50, minute)), "1, 0"},
		}},
		{"ring_to_ring_moves_each_bucket_by_its_latest_instant", old, nil, []row{
			{0, reserve(3), "granted 3/10"},
			{30 * minute, reserve(3), "granted 6/10"},
			{40 * minute, revision(2, record(1), ring(10, 20*minute, 10*minute)), "ok"},
			{40 * minute, revision(2, looks("units"), ring(10, 20*minute, 10*minute)), "4"}, // the first 3 have left
			{59 * minute, revision(2, looks("units"), ring(10, 20*minute, 10*minute)), "4"},
			{60 * minute, revision(2, looks("units"), ring(10, 20*minute, 10*minute)), "1"},
			{70 * minute, revision(2, looks("units"), ring(10, 20*minute, 10*minute)), "0"},
		}},
		{"also_to_a_coarser_one_as_long", []window.Limit{ring(10, minute, time.Second)}, nil, []row{
			{0, reserve(3), "granted 3/10"},
			{30 * time.Second, revision(2, reserve(1), ring(10, minute, 10*time.Second)), "granted 4/10"},
			{69 * time.Second, revision(2, looks("units"), ring(10, minute, 10*time.Second)), "4"},
			{70 * time.Second, revision(2, looks("units"), ring(10, minute, 10*time.Second)), "1"},
			{100 * time.Second, revision(2, looks("units"), ring(10, minute, 10*time.Second)), "0"},
		}},
		{"and_the_bucket_that_leaves_next", []window.Limit{ring(10, 10*time.Second, time.Second)}, nil, []row{
			{0, reserve(3), "granted 3/10"},
			{10 * time.Second, revision(2, reserve(1), ring(10, 10*time.Second, 2*time.Second)), "granted 4/10"},
			{12 * time.Second, revision(2, looks("units"), ring(10, 10*time.Second, 2*time.Second)), "1"},
		}},
		{"anything_else_carries_what_was_used_to_now", old, nil, []row{
			{0, reserve(3), "granted 3/10"},
			{30 * minute, reserve(3), "granted 6/10"},
			{40 * minute, revision(2, record(1), exact(10, time.Hour), calendar(10, window.Day, "UTC"), ring(10, 3*time.Hour, minute)), "ok"},
			{99 * minute, revision(2, looks("units"), exact(10, time.Hour), calendar(10, window.Day, "UTC"), ring(10, 3*time.Hour, minute)), "7, 7, 7"},
			{100 * minute, revision(2, looks("units"), exact(10, time.Hour), calendar(10, window.Day, "UTC"), ring(10, 3*time.Hour, minute)), "0, 7, 7"},
			{220 * minute, revision(2, looks("units"), exact(10, time.Hour), calendar(10, window.Day, "UTC"), ring(10, 3*time.Hour, minute)), "0, 7, 7"},
			{221 * minute, revision(2, looks("units"), exact(10, time.Hour), calendar(10, window.Day, "UTC"), ring(10, 3*time.Hour, minute)), "0, 7, 0"},
		}},
		{"a_bucket_carries_it_too_after_a_block_and_a_clock_that_stepped_back", []window.Limit{exact(10, 24*time.Hour)}, nil, []row{
			{48 * time.Hour, reserve(2), "granted 2/10"},
			{48*time.Hour + 2*time.Second, blockFor(time.Second, "units"), "ok"},
			{25 * time.Hour, revision(2, looks("units"), bucket(5, 50, 7*time.Second)), "2"},
			{25 * time.Hour, revision(2, record(1), bucket(5, 50, 7*time.Second)), "ok"},
			{25 * time.Hour, revision(2, looks("units"), bucket(5, 50, 7*time.Second)), "3"},
		}},
		{"what_has_left_the_old_ring_does_not_come_back_in_a_coarser_one", []window.Limit{ring(10, 10*time.Second, time.Second)}, nil, []row{
			{0, reserve(3), "granted 3/10"},
			{14 * time.Second, looks("units"), "0"},
			{14 * time.Second, revision(2, record(1), ring(10, 10*time.Second, 10*time.Second)), "ok"},
			{14 * time.Second, revision(2, looks("units"), ring(10, 10*time.Second, 10*time.Second)), "1"},
		}},
		{"what_may_still_be_sent_counts_from_then", []window.Limit{ring(10, minute, 30*time.Second)}, nil, []row{
			{0, reserve(4), "granted 4/10"}, // a hold of another process: it may be sent until 30s
			{time.Second, whenCounted(revision(2, reserve(6), ring(10, minute, time.Second))), "granted 10/10 at 29s"},
			{29 * time.Second, whenCounted(revision(2, reserve(1), ring(10, minute, time.Second))), "refused 10/10, retry after 1m1s at 29s"},
			{90*time.Second - time.Microsecond, revision(2, looks("units"), ring(10, minute, time.Second)), "10"},
			{90 * time.Second, whenCounted(revision(2, reserve(1), ring(10, minute, time.Second))), "granted 1/10 at 1m30s"},
		}},
		{"it_is_sent_within_a_minute", []window.Limit{ring(10, time.Hour, 10*minute)}, nil, []row{
			{0, reserve(4), "granted 4/10"},
			{2 * minute, revision(2, reserve(1), exact(10, time.Hour)), "granted 5/10"},
			{63*minute - time.Microsecond, revision(2, looks("units"), exact(10, time.Hour)), "5"},
			{63 * minute, revision(2, looks("units"), exact(10, time.Hour)), "0"},
		}},
		{"what_leaves_meanwhile_stays_until_the_clock_has_come_so_far", []window.Limit{ring(10, minute, 30*time.Second)}, nil, []row{
			{0, reserve(4), "granted 4/10"},
			{62 * time.Second, record(1), "ok"},
			{63 * time.Second, revision(2, reserve(1), ring(10, minute, time.Second), exact(20, 2*minute)), "granted 6/10"},
			{90*time.Second - time.Microsecond, revision(2, looks("units"), ring(10, minute, time.Second), exact(20, 2*minute)), "6, 6"},
			{91 * time.Second, revision(2, looks("units"), ring(10, minute, time.Second), exact(20, 2*minute)), "2, 6"},
			{151 * time.Second, revision(2, looks("units"), ring(10, minute, time.Second), exact(20, 2*minute)), "0, 6"},
		}},
		{"also_of_a_window_that_stays", []window.Limit{exact(10, minute), ring(20, 2*minute, 30*time.Second)}, nil, []row{
			{0, reserve(4), "granted 4/10"},
			{61 * time.Second, record(1), "ok"},
			{62 * time.Second, revision(2, reserve(1), exact(10, minute), ring(20, 2*minute, time.Second)), "granted 2/10"},
			{122 * time.Second, revision(2, looks("units"), exact(10, minute), ring(20, 2*minute, time.Second)), "0, 6"},
		}},
		{"a_window_too_short_for_that_is_shut_until_all_has_left", []window.Limit{ring(10, time.Hour, 30*time.Second)}, nil, []row{
			{0, reserve(4), "granted 4/10"},
			{time.Second, revision(2, reserve(1), ring(10, 10*time.Second, time.Second)), "blocked, retry after 40s, rebased"}, // 30s, and 11s
			{41 * time.Second, revision(2, reserve(10), ring(10, 10*time.Second, time.Second)), "granted 10/10"},
		}},
		{"a_period_that_ends_meanwhile_is_shut", []window.Limit{ring(10, time.Hour, minute)}, nil, []row{
			{11*time.Hour + 59*minute + 10*time.Second, reserve(4), "granted 4/10"}, // they may be sent until the day ends
			{11*time.Hour + 59*minute + 20*time.Second, revision(2, reserve(1), exact(10, time.Hour), midnight), "blocked, retry after 40.000001s"},
			{12*time.Hour + time.Microsecond, revision(2, reserve(1), exact(10, time.Hour), midnight), "granted 5/10"},
			{12*time.Hour + time.Microsecond, revision(2, looks("units"), exact(10, time.Hour), midnight), "5, 1"},
		}},
		{"a_second_revision_keeps_what_the_first_did", []window.Limit{ring(10, minute, 30*time.Second)}, nil, []row{
			{0, reserve(4), "granted 4/10"},
			{time.Second, revision(2, reserve(1), exact(10, minute)), "granted 5/10"},
			{2 * time.Second, revision(3, reserve(1), ring(10, minute, time.Second)), "granted 6/10"},
			{90*time.Second - time.Microsecond, revision(3, looks("units"), ring(10, minute, time.Second)), "6"},
			{91 * time.Second, revision(3, looks("units"), ring(10, minute, time.Second)), "0"},
		}},
		{"receipts_from_before_it_give_nothing_back", old, nil, []row{
			{0, reserveAs("a", 5), "granted 5/10"},
			{0, reserveAs("b", 5), "granted 10/10"},
			{0, revision(2, record(1), exact(20, time.Hour)), "ok"},
			{0, settle("a", 0), "left 5"},
			{0, settle("b", 7), "charged 2"},
			{0, revision(2, reserveAs("b", 5), exact(20, time.Hour)), "granted again"},
			{0, revision(2, looks("units"), exact(20, time.Hour)), "13"},
		}},
		{"the_same_windows_under_a_higher_one_change_nothing", old, nil, []row{
			{0, reserveAs("a", 5), "granted 5/10"},
			{0, revision(2, reserve(1)), "granted 6/10"},
			{0, revision(2, settle("a", 0)), "back 5"},
			{0, revision(2, looks("units")), "1"},
		}},
		{"a_block_stands_across_it", old, nil, []row{
			{0, blockFor(minute, "units"), "ok"},
			{0, revision(2, reserve(1), exact(10, time.Hour)), "blocked, retry after 1m0s"},
			{minute, revision(2, reserve(1), exact(10, time.Hour)), "granted 1/10"},
		}},
	})
	t.Run("the_error_says_which", func(t *testing.T) {
		r := newRig(t, h, old...)
		revision(7, reserve(1))(r)
		_, err := r.s.Reserve(context.Background(), quota.Request{Charges: []quota.Charge{r.charge("units", 1)}})
		var stale *quota.StaleBookError
		if !errors.As(err, &stale) || stale.Revision != 1 || stale.Stored != 7 || stale.Pool != r.charge("units", 1).Pool {
			t.Errorf("reserve: %v, want a StaleBookError of 1 against 7", err)
		}
	})
	t.Run("one_stale_pool_of_two_charges_neither", func(t *testing.T) {
		r := newRig(t, h, old...)
		r.pools["searches"] = old
		reserve(1)(r)
		revision(2, reserveOf("searches", 1))(r)
		if got := reserveBoth("", 1, 1)(r); got != "stale book" {
			t.Errorf("reserve: %s, want stale book", got)
		}
		mixed := []quota.Charge{r.charge("units", 1), r.charge("searches", 1)}
		mixed[0].Revision, mixed[0].Windows = 2, []window.Limit{exact(10, time.Hour)}
		if _, err := r.s.Reserve(context.Background(), quota.Request{Charges: mixed}); fault(err) != "stale book" {
			t.Errorf("reserve: %v, want stale book", err)
		}
		if got := looks("units")(r); got != "1" { // by revision 1, which still holds
			t.Errorf("the pool that was not stale: %s, want 1", got)
		}
	})
	t.Run("one_stale_pool_of_two_lays_out_neither_for_a_repeat", func(t *testing.T) {
		r := newRig(t, h, old...)
		r.pools["searches"] = old
		reserveBoth("a", 1, 1)(r)
		revision(2, reserveOf("searches", 1))(r)
		mixed := []quota.Charge{r.charge("units", 1), r.charge("searches", 1)}
		mixed[0].Revision, mixed[0].Windows = 2, []window.Limit{exact(10, time.Hour)}
		if _, err := r.s.Reserve(context.Background(), quota.Request{ID: "a", Charges: mixed}); fault(err) != "stale book" {
			t.Errorf("reserve: %v, want stale book", err)
		}
		if got := looks("units")(r); got != "1" { // by revision 1, which still holds
			t.Errorf("the pool that was not stale: %s, want 1", got)
		}
	})
}

// revision runs an action with a price book of another revision, and with other windows
// if any are given.
func revision(n int64, do action, windows ...window.Limit) action {
	return func(r *rig) string {
		before := r.pools["units"]
		if windows != nil {
			r.pools["units"] = windows
		}
		r.revision = n
		defer func() { r.revision, r.pools["units"] = 1, before }()
		return do(r)
	}
}
