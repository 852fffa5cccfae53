package storekit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
)

var pool = quota.Pool{Upstream: "api", Account: "default", Name: "units"}

// at is an instant of the tests, in minutes.
func at(minute int) time.Time { return time.Date(2026, 11, 20, 0, minute, 0, 0, time.UTC) }

func birth(born, latest, until int, generation int64) storekit.Birth {
	return storekit.Birth{Born: at(born), Latest: at(latest), Until: at(until), Generation: generation}
}

// kept is what outlives a process, and how often it was written.
type kept struct {
	storekit.Birth
	writes int
	busy   int // how many writes fail
}

func (k *kept) Recall(context.Context, quota.Pool) (storekit.Birth, error) { return k.Birth, nil }

func (k *kept) Remember(_ context.Context, _ quota.Pool, b storekit.Birth) error {
	if k.busy > 0 {
		k.busy--
		return errors.New("others write")
	}
	k.Birth = b
	k.writes++
	return nil
}

// named is a ledger with an identity.
type named string

func (n named) Identity(context.Context, string, string) (string, error) { return string(n), nil }

func TestLost(t *testing.T) {
	expected := birth(0, 10, 100, 1)
	for _, row := range []struct {
		name  string
		found storekit.Birth
		now   int
		want  bool
	}{
		{"the page as it was", birth(0, 10, 100, 1), 11, false},
		{"it was written since", birth(0, 20, 110, 1), 21, false},
		{"it is gone", storekit.Birth{}, 11, true},
		{"it is gone, and has run out", storekit.Birth{}, 100, false},
		{"it is another page", birth(5, 20, 110, 1), 21, true},
		{"it is an older copy", birth(0, 9, 99, 1), 11, true},
		{"it is an older copy of a lower generation", birth(0, 9, 99, 0), 11, true},
		{"it was re-based, as the clock had been ahead", birth(0, 9, 99, 2), 11, false},
	} {
		if got := storekit.Lost(expected, row.found, at(row.now)); got != row.want {
			t.Errorf("%s: lost is %t", row.name, got)
		}
	}
	if storekit.Lost(storekit.Birth{}, storekit.Birth{}, at(0)) {
		t.Error("a page that was never seen counts as lost")
	}
}

// A page is kept when it is new or laid out anew, when it counts for longer by a minute,
// and else once a minute.
func TestAPageIsSeldomKept(t *testing.T) {
	k := &kept{}
	b := storekit.NewBirths(named("a"), k)
	second := func(n int) storekit.Birth {
		seen := birth(0, 0, 100, 1)
		seen.Latest = seen.Latest.Add(time.Duration(n) * time.Second)
		return seen
	}
	longer := second(70)
	longer.Until = at(200)
	relaid := longer
	relaid.Generation, relaid.Until = 2, at(50)
	for _, row := range []struct {
		name   string
		seen   storekit.Birth
		writes int
	}{
		{"it is new", second(0), 1},
		{"it was used", second(1), 1},
		{"for most of a minute", second(59), 1},
		{"for a minute", second(60), 2},
		{"and a bit", second(70), 2},
		{"it counts for longer", longer, 3},
		{"it was laid out anew", relaid, 4},
		{"an answer that was overtaken", longer, 4},
	} {
		if err := b.Remember(t.Context(), pool, row.seen); err != nil {
			t.Fatal(err)
		}
		if k.writes != row.writes {
			t.Errorf("%s: %d writes, want %d", row.name, k.writes, row.writes)
		}
	}
	if got, _ := b.Expect(t.Context(), pool, at(1)); !got.Until.Equal(at(50)) {
		t.Errorf("it is expected until %s, want the earlier end of its latest generation", got.Until)
	}
	if k.Identity != "a" {
		t.Errorf("kept of ledger %q", k.Identity)
	}
	b.Grew(pool, 2, at(2))
	if k.busy = 9; b.Keep(t.Context()) == nil {
		t.Error("what could not be written for long is no error")
	}
	k.busy = 4
	if err := b.Keep(t.Context()); err != nil || k.writes != 5 || !k.Latest.Equal(at(2)) {
		t.Errorf("at the end %+v is kept, %v", *k, err)
	}
	if err := b.Keep(t.Context()); err != nil || k.writes != 5 {
		t.Errorf("it is kept again: %d, %v", k.writes, err)
	}
}

// Another process has met the page after it was laid out anew, or after a person put
// back what was lost; but a memory that is merely behind makes nothing good.
func TestReconsider(t *testing.T) {
	for _, row := range []struct {
		name string
		kept storekit.Birth
		want bool
	}{
		{"the same", birth(0, 10, 100, 1), false},
		{"less", birth(0, 5, 90, 1), false},
		{"a later generation", birth(0, 10, 50, 2), true},
		{"another page", birth(11, 11, 50, 1), true},
		{"nothing: it is to start afresh", storekit.Birth{}, true},
	} {
		k := &kept{}
		b := storekit.NewBirths(named("a"), k)
		if err := b.Remember(t.Context(), pool, birth(0, 10, 100, 1)); err != nil {
			t.Fatal(err)
		}
		expected, _ := b.Expect(t.Context(), pool, at(11))
		k.Birth = row.kept
		got, other, err := b.Reconsider(t.Context(), pool, expected)
		if err != nil || other != row.want || other && !got.Until.Equal(row.kept.Until) {
			t.Errorf("%s: %+v, %t, %v", row.name, got, other, err)
		}
	}
}
