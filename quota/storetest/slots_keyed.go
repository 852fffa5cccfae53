package storetest

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// Calls in flight by key, and beside keys. In these timelines two keys have a page at most.
func testSlotsOfKeys(t *testing.T, h Harness) {
	hundred := []window.Limit{exact(100, time.Hour)}
	tokens := map[string][]window.Limit{"tokens": {inFlight(2, time.Minute)}}
	run(t, h, []timeline{
		{"each_key_has_its_slots", hundred, tokens, []row{
			{0, keyAnd("a", "x", 2, 1, 5), "granted 1/2"},
			{0, keyAnd("b", "y", 2, 2, 5), "granted 2/2"},
			{40 * time.Second, renews("a"), "yes"},
			{60 * time.Second, keyUsed("x", "y"), "1; 0"},
			{60 * time.Second, settleTo("a", quota.Units{"units": 2}), "back 3"},
			{60 * time.Second, ends("a", "b"), "yes, yes"},
			{60 * time.Second, ends("a"), "no"},
			{60 * time.Second, keyUsed("x", "y"), "0; 0"},
		}},
		{"keys_without_a_place_share_their_slots", hundred, tokens, []row{
			{0, key("x", 2, 1), "granted 1/2"},
			{0, key("y", 2, 1), "granted 1/2"},
			{0, keyAnd("c", "z", 2, 1, 5), "granted 1/2, overflow"},
			{0, keyAnd("d", "w", 2, 1, 5), "granted 2/2, overflow"},
			{40 * time.Second, renews("c", "d"), "yes, yes"},
			{50 * time.Second, key("v", 2, 1), "refused 2/2, retry after 50s, overflow"},
			{50 * time.Second, ends("c"), "yes"},
			{50 * time.Second, keyAnd("e", "v", 2, 1, 5), "granted 2/2, overflow"},
			{50 * time.Second, release("e"), "back 6"},
			{50 * time.Second, ends("d", "e"), "yes, no"},
			{50 * time.Second, key("u", 2, 2), "granted 2/2, overflow"},
		}},
		{"a_renewed_slot_keeps_the_place_of_its_key", hundred, tokens, []row{
			{0, keyAnd("a", "x", 1, 1, 5), "granted 1/2"},
			{40 * time.Second, renews("a"), "yes"},
			{70 * time.Second, key("y", 1, 1), "granted 1/2, overflow"},
			{70 * time.Second, ends("a"), "yes"},
		}},
		{"a_slot_that_was_lost_with_its_page_is_taken_again", hundred, tokens, []row{
			{0, keyAnd("a", "x", 1, 2, 5), "granted 2/2"},
			{70 * time.Second, keyAnd("b", "y", 1, 1, 5), "granted 1/2"}, // in the place of x
			{80 * time.Second, key("x", 1, 1), "granted 1/2, overflow"},
			{80 * time.Second, renews("a"), "yes"}, // though the pool is full
			{80 * time.Second, keyUsed("x", "y"), "2; 1"},
			{80 * time.Second, key("x", 1, 1), "refused 2/2, retry after 1m0s"},
			{80 * time.Second, key("z", 1, 1), "granted 2/2, overflow"},
			{81 * time.Second, renews("a", "b"), "yes, yes"},
			{81 * time.Second, ends("a"), "yes"},
			{81 * time.Second, ends("a"), "no"},
			{81 * time.Second, keyUsed("x", "y"), "0; 1"},
			{81 * time.Second, settleTo("a", quota.Units{"units": 2}), "back 3"},
			{130 * time.Second, key("z", 1, 1), "refused 2/2, retry after 10s, overflow"},
			{150 * time.Second, key("z", 1, 1), "granted 1/2"}, // the pool has room again
		}},
		{"an_end_takes_no_lost_slot_again", hundred, tokens, []row{
			{0, keyAnd("a", "x", 1, 2, 5), "granted 2/2"},
			{70 * time.Second, keyAnd("b", "y", 1, 1, 5), "granted 1/2"},
			{80 * time.Second, ends("a"), "no"},
			{80 * time.Second, keyUsed("x", "y"), "none; 1"},
		}},
		{"released", hundred, tokens, []row{
			{0, keyAnd("a", "x", 1, 1, 5), "granted 1/2"},
			{0, keyAnd("b", "x", 1, 1, 5), "granted 2/2"},
			{time.Second, renews("a"), "yes"},
			{time.Second, release("a"), "back 6"},
			{time.Second, keyUsed("x"), "1"},
			{time.Second, keyAnd("a", "x", 1, 1, 5), "granted 2/2"},
		}},
	})
	t.Run("a_receipt_lives_with_what_it_charged_of_keys", func(t *testing.T) {
		needClock(t, h)
		r := newRig(t, h, inFlight(90, time.Hour))
		r.pools["tokens"] = []window.Limit{ring(10, time.Second, 100*time.Millisecond), exact(10, time.Minute)}
		reserveAs("an id that comes before those of the others", 1)(r)
		for _, c := range []struct{ id, key, want string }{
			{"a", "x", "granted 3/10"}, {"b", "y", "granted 3/10"}, {"c", "x", "granted 6/10"}, {"d", "z", "granted 3/10, overflow"},
		} {
			if got := keyAnd(c.id, c.key, 2, 3, 1)(r); got != c.want {
				t.Fatal(got)
			}
		}
		for range 12 {
			if h.Age != nil {
				h.Age(t, r.s, 20*time.Minute)
			}
			r.set(r.now.Add(20 * time.Minute))
			if got := renews("d", "a", "b")(r); got != "yes, yes, yes" {
				t.Fatal(got)
			}
			key("v", 9, 0)(r) // another call lets idle keys go
		}
		for _, s := range []struct {
			do   action
			want string
		}{
			{renews("c"), "no"}, // nobody has renewed it
			{settleTo("a", quota.Units{"tokens": 5}), "charged 2"},
			{settleTo("b", quota.Units{"tokens": 7}), "charged 4"},
			{settleTo("d", quota.Units{"tokens": 6}), "charged 3"},
			{keyUsed("x", "y"), "2; 4"},
			{ends("a", "b", "d"), "yes, yes, yes"},
			{looks("units"), "0"},
		} {
			if got := s.do(r); got != s.want {
				t.Errorf("%s, want %s", got, s.want)
			}
		}
	})
}
