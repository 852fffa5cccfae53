package window

import (
	"testing"
	"time"
)

func limits(t testing.TB, specs ...Spec) []Limit {
	t.Helper()
	var l []Limit
	for _, s := range specs {
		l = append(l, NewLimit(normal(t, s), limit))
	}
	return l
}

// usedIn returns what each window of a page has used.
func usedIn(p *Page, at Instant) []int64 {
	var used []int64
	for _, w := range p.Windows() {
		used = append(used, w.Used(at))
	}
	return used
}

func wantUsed(t *testing.T, p *Page, at Instant, want ...int64) {
	t.Helper()
	got := usedIn(p, at)
	if len(got) != len(want) {
		t.Fatalf("%d windows, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("at %s: used %d, want %d", at.Sub(epoch), got, want)
			return
		}
	}
}

func TestPage(t *testing.T) {
	const s, h = time.Second, time.Hour
	ring := Spec{Per: h, Precision: time.Minute}
	day := Spec{Period: Day}
	two := limits(t, ring, day)

	t.Run("every_window_must_have_room", func(t *testing.T) {
		p := NewPage(in(0), 1, two)
		p.Add(in(h), 6)
		p.Add(in(3*h), 4) // the ring has room again, the day has not
		if p.Fits(in(5*h), 1, two) {
			t.Error("granted past the limit of the day")
		}
		if free, w := p.Free(in(5*h), 1, two); free != in(24*h+time.Minute) || w != 1 {
			t.Errorf("free at %s by window %d, want the day's at 24h1m", free.Sub(epoch), w)
		}
		if w, used := p.Tightest(in(5*h), two); w != 1 || used != 10 {
			t.Errorf("tightest is window %d with %d used, want 1 with 10", w, used)
		}
		if w, used := p.Tightest(in(25*h), two); w != 0 || used != 0 {
			t.Errorf("tightest is window %d with %d used, want the first of two empty ones", w, used)
		}
	})
	t.Run("the_last_window_to_come_free_decides", func(t *testing.T) {
		p := NewPage(in(0), 1, two)
		p.Add(in(24*h-h/2), 10)
		if free, w := p.Free(in(24*h-h/2), 1, two); free != in(24*h+h/2+time.Minute) || w != 0 {
			t.Errorf("free at %s by window %d, want the ring's at 24h31m", free.Sub(epoch), w)
		}
	})
	t.Run("a_block_shuts_it_and_opens_by_itself", func(t *testing.T) {
		p := NewPage(in(0), 1, two)
		p.Block(in(0), in(2*h))
		p.Block(in(0), in(h)) // the later one stands
		if p.Fits(in(2*h-1), 1, two) || !p.Fits(in(2*h), 1, two) {
			t.Error("not shut for two hours")
		}
		if free, w := p.Free(in(h), 1, two); free != in(2*h) || w != -1 {
			t.Errorf("free at %s by window %d, want the block's at 2h", free.Sub(epoch), w)
		}
		p.Add(in(2*h-s), 10)
		if free, w := p.Free(in(2*h-s), 1, two); w != 1 || free != in(24*h+time.Minute) {
			t.Errorf("free at %s by window %d, want a window's that is later than the block", free.Sub(epoch), w)
		}
		p.Blocked = 0
		p.Block(in(0), Never)
		if p.Blocked != far {
			t.Errorf("shut until %d, want a time that can be stored", p.Blocked)
		}
	})

	t.Run("before_1970_it_is_open_too", func(t *testing.T) {
		at := on(t, "1969-07-20T20:17:40Z")
		p := NewPage(at, 1, two)
		if free, _ := p.Free(at, 1, two); free != at || !p.Fits(at, 1, two) {
			t.Errorf("shut until %s", free.Time())
		}
		if e := p.Expires(at); e != at {
			t.Errorf("empty, it expires at %s", e.Time())
		}
		p.Block(at, at.Add(h))
		if free, _ := p.Free(at, 1, two); free != at.Add(h) || p.Fits(at, 1, two) {
			t.Errorf("shut until %s, want for an hour", free.Time())
		}
	})

	t.Run("Now", func(t *testing.T) {
		t.Run("a_step_back_within_a_window_neither_frees_nor_loses", func(t *testing.T) {
			p := NewPage(in(0), 1, two)
			p.Add(in(20*h), 4)
			for _, back := range []time.Duration{20*h - 1, 19 * h, h, 0} {
				now, rebased := p.Now(in(back))
				if now != in(20*h) || rebased {
					t.Errorf("at %s it is %s, rebased %t; want 20h, not rebased", back, now.Sub(epoch), rebased)
				}
				wantUsed(t, p, now, 4, 4)
			}
		})
		t.Run("questions_from_far_ahead_leave_no_trace", func(t *testing.T) {
			p := NewPage(in(0), 1, two)
			p.Add(in(h), limit)
			now, _ := p.Now(in(9000 * h))
			if p.Fits(now, limit+1, two) {
				t.Error("more than the limit fits")
			}
			p.Free(now, 1, two)
			p.Tightest(now, two)
			p.Expires(now)
			now, rebased := p.Now(in(h))
			if now != in(h) || rebased {
				t.Errorf("it is %s, rebased %t; want 1h, not rebased", now.Sub(epoch), rebased)
			}
			wantUsed(t, p, now, limit, limit)
		})
		t.Run("a_clock_that_had_been_far_ahead_is_rebased", func(t *testing.T) {
			p := NewPage(in(0), 1, two)
			p.Add(in(9000*h), 4)
			p.Add(in(9000*h+h/2), 3)
			p.Block(in(9000*h+h/2), in(9003*h+h/2))
			generation := p.Generation
			now, rebased := p.Now(in(2 * h))
			if now != in(2*h) || !rebased {
				t.Errorf("it is %s, rebased %t; want 2h, rebased", now.Sub(epoch), rebased)
			}
			wantUsed(t, p, now, 7, 7)
			if p.Generation == generation {
				t.Error("units moved under the same generation")
			}
			if p.Blocked != in(5*h) {
				t.Errorf("blocked until %s, want for as long as before", p.Blocked.Sub(epoch))
			}
			if now, rebased := p.Now(in(2*h - s)); now != in(2*h) || rebased {
				t.Errorf("then it is %s, rebased %t; want 2h, not rebased", now.Sub(epoch), rebased)
			}
			wantUsed(t, p, in(3*h+time.Minute), 0, 7)
			wantUsed(t, p, in(24*h+time.Minute), 0, 0)
		})
		t.Run("a_block_that_is_over_is_not_revived", func(t *testing.T) {
			p := NewPage(in(0), 1, two)
			p.Block(in(9000*h), in(9001*h))
			p.Add(in(9002*h), 1)
			now, _ := p.Now(in(h))
			if !p.Fits(now, 1, two) {
				t.Error("blocked again")
			}
		})
		t.Run("a_block_set_far_ahead_is_noticed", func(t *testing.T) {
			p := NewPage(in(0), 1, two)
			p.Block(in(9000*h), in(9001*h))
			now, rebased := p.Now(in(h))
			if !rebased || p.Blocked != in(2*h) {
				t.Errorf("rebased %t, blocked until %s; want for an hour from now", rebased, p.Blocked.Sub(epoch))
			}
			if free, _ := p.Free(now, 1, two); free != in(2*h) {
				t.Errorf("free at %s, want 2h", free.Sub(epoch))
			}
		})
		t.Run("as_far_back_as_the_longest_window_is_not_far", func(t *testing.T) {
			p := NewPage(in(0), 1, limits(t, ring))
			span := two[0].Spec.Span()
			p.Add(in(9000*h), 4)
			if _, rebased := p.Now(in(9000 * h).Add(-span)); rebased {
				t.Errorf("rebased for a step back of %s", span)
			}
			if _, rebased := p.Now(in(9000*h).Add(-span) - 1); !rebased {
				t.Errorf("not rebased for a step back of more than %s", span)
			}
		})
	})

	t.Run("LayOut", func(t *testing.T) {
		layOut := func(p *Page, now Instant, specs ...Spec) []Limit {
			l := limits(t, specs...)
			p.LayOut(now, p.Revision+1, l)
			return l
		}
		t.Run("the_same_windows_keep_all", func(t *testing.T) {
			p := NewPage(in(0), 1, two)
			p.Add(in(h), 4)
			generation := p.Generation
			layOut(p, in(2*h), ring, day)
			if p.Revision != 2 || p.Generation != generation {
				t.Errorf("revision %d, want 2; generation %d, want %d", p.Revision, p.Generation, generation)
			}
			wantUsed(t, p, in(2*h), 4, 4)
			wantUsed(t, p, in(2*h+time.Minute), 0, 4)
		})
		t.Run("a_window_that_stays_keeps_its_state_wherever_it_goes", func(t *testing.T) {
			p := NewPage(in(0), 1, two)
			p.Add(in(h), 4)
			generation := p.Generation
			l := layOut(p, in(h+h/2), day, Spec{Per: 2 * h}, ring)
			if p.LaidOut(two) || !p.LaidOut(l) || p.Generation == generation {
				t.Error("not laid out anew")
			}
			wantUsed(t, p, in(h+h/2), 4, 4, 4)
			wantUsed(t, p, in(2*h+time.Minute), 4, 4, 0)
			wantUsed(t, p, in(3*h+h/2+2*time.Minute), 4, 0, 0) // the new one is late by what it could not know
		})
		t.Run("a_shorter_ring_gets_what_it_would_have_had", func(t *testing.T) {
			p := NewPage(in(0), 1, two)
			p.Add(in(5*time.Minute), 1) // of the day, and of the hour until 1h6m
			p.Add(in(20*time.Minute), 2)
			p.Add(in(50*time.Minute), 3)
			layOut(p, in(55*time.Minute), Spec{Per: h / 2, Precision: 10 * time.Minute}, day)
			wantUsed(t, p, in(55*time.Minute), 5, 6) // 20m59.999999s may still count
			wantUsed(t, p, in(h), 3, 6)
			wantUsed(t, p, in(h+h/2), 0, 6)
		})
		t.Run("the_longest_ring_knows_the_most", func(t *testing.T) {
			guard, long := Spec{Per: 10 * time.Minute}, Spec{Per: 2 * h, Precision: time.Minute}
			for _, old := range [][]Spec{{long, guard}, {guard, long}} {
				p := NewPage(in(0), 1, limits(t, old...))
				p.Add(in(0), 4)
				p.Add(in(h), 3)
				layOut(p, in(h+h/2), old[0], old[1], Spec{Per: h, Precision: time.Minute})
				if used := usedIn(p, in(h+h/2))[2]; used != 3 {
					t.Errorf("an hour has used %d, want what the two hours know of it: 3", used)
				}
			}
		})
		t.Run("buckets_move_by_their_latest_instant", func(t *testing.T) {
			p := NewPage(in(0), 1, limits(t, Spec{Per: h, Precision: 10 * time.Minute}))
			p.Add(in(10*time.Minute), 4) // may have been as late as 19m59.999999s
			layOut(p, in(30*time.Minute), Spec{Per: h, Precision: time.Minute})
			wantUsed(t, p, in(h+20*time.Minute)-1, 4)
			wantUsed(t, p, in(h+20*time.Minute), 0)
		})
		t.Run("or_by_when_they_are_sent_at_the_latest", func(t *testing.T) {
			p := NewPage(in(0), 1, limits(t, Spec{Per: h, Precision: 10 * time.Minute}))
			p.Add(in(10*time.Minute), 4) // nothing is sent later than a minute from now
			layOut(p, in(10*time.Minute), Spec{Per: h, Precision: time.Minute})
			wantUsed(t, p, in(h+11*time.Minute)-1, 4)
			wantUsed(t, p, in(h+11*time.Minute), 0)
		})
		t.Run("anything_else_carries_the_most_that_was_used", func(t *testing.T) {
			p := NewPage(in(0), 1, two)
			p.Add(in(h), 4)
			p.Add(in(5*h), 3)
			counter, log := Spec{Per: h, Algorithm: Estimate}, Spec{Per: h, Algorithm: Exact}
			layOut(p, in(5*h+h/2), Spec{Period: Week}, counter, log, Spec{Per: 2 * h})
			wantUsed(t, p, in(5*h+h/2), 7, 7, 7, 7)
			wantUsed(t, p, in(6*h+h/2), 7, 4, 0, 7) // late by a window at most
			wantUsed(t, p, in(8*h), 7, 0, 0, 0)
		})
		t.Run("two_windows_alike_have_a_state_each", func(t *testing.T) {
			p := NewPage(in(0), 1, two)
			p.Add(in(h), 4)
			layOut(p, in(h), ring, ring, day)
			p.Add(in(h), 1)
			wantUsed(t, p, in(h), 5, 5, 5)
			layOut(p, in(h), day, ring, ring, ring)
			p.Add(in(h), 1)
			wantUsed(t, p, in(h), 6, 6, 6, 6)
		})
		t.Run("laid_out_far_ahead_it_is_still_rebased", func(t *testing.T) {
			p := NewPage(in(0), 1, two)
			p.Add(in(h), 4)
			layOut(p, in(9000*h), Spec{Per: 2 * h}, day)
			if _, rebased := p.Now(in(h)); !rebased {
				t.Error("windows of 9000h are taken for those of 1h")
			}
		})
	})

	t.Run("Give", func(t *testing.T) {
		t.Run("returns_what_the_most_knowing_window_gave", func(t *testing.T) {
			p := NewPage(in(0), 1, two)
			p.Add(in(h), 4)
			if given := p.Give(in(h), in(h), 1); given != 1 {
				t.Errorf("gave %d, want 1", given)
			}
			wantUsed(t, p, in(h), 3, 3)
			if given := p.Give(in(4*h), in(h), 1); given != 1 {
				t.Errorf("gave %d, want 1: of the day", given)
			}
			if given := p.Give(in(26*h), in(h), 1); given != 0 {
				t.Errorf("gave %d, want 0: it has passed", given)
			}
		})
	})
	t.Run("a_correction_reaches_every_window", func(t *testing.T) {
		p := NewPage(in(0), 1, two)
		p.Add(in(h), 4)
		p.Forget(in(h+s), 3)
		wantUsed(t, p, in(h+s), 1, 1)
		if p.Latest != in(h+s) {
			t.Errorf("latest is %s, want when it was corrected", p.Latest.Sub(epoch))
		}
	})

	t.Run("idle_means_that_nothing_counts_any_more", func(t *testing.T) {
		for _, start := range []Instant{in(24*h - s), on(t, "1931-05-05T23:59:59Z")} {
			p := NewPage(start, 1, two)
			p.Add(start, 1)
			expires := p.Expires(start)
			if p.Idle(expires - 1) {
				t.Error("idle before it has expired")
			}
			idle := start.Add(two[1].Spec.Span())
			if !p.Idle(idle) {
				t.Error("not idle though a span has passed")
			}
			p.Block(start, idle+1)
			if p.Idle(idle) || !p.Idle(idle+1) {
				t.Error("idle while a block stands, or not idle after it")
			}
		}
	})

	t.Run("Expires", func(t *testing.T) {
		for _, c := range []struct {
			name string
			do   func(p *Page)
			now  time.Duration
			want time.Duration
		}{
			{"at_once_when_empty", func(*Page) {}, h, h},
			{"with_its_last_window_and_lag", func(p *Page) { p.Add(in(h), 1) }, 2 * h, 24*h + time.Minute},
			{"with_a_ring_that_reaches_over_the_boundary", func(p *Page) { p.Add(in(24*h-h/2), 1) }, 24*h - h/2, 24*h + h/2 + time.Minute},
			{"with_the_period_that_late_charges_count_in", func(p *Page) { p.Add(in(24*h-s), 1) }, 24*h - s, 48*h + time.Minute},
			{"with_the_period_before_while_it_decides", func(p *Page) { p.Add(in(h), 1) }, 24*h + s, 24*h + time.Minute},
			{"with_its_block", func(p *Page) { p.Block(in(h), in(72*h)) }, h, 72 * h},
		} {
			t.Run(c.name, func(t *testing.T) {
				p := NewPage(in(0), 1, two)
				c.do(p)
				if at := p.Expires(in(c.now)); at != in(c.want) {
					t.Errorf("%s, want %s", at.Sub(epoch), c.want)
				}
			})
		}
	})
}
