package journal_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/journal"
)

var (
	noon = time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)
	pool = quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}
)

func entry(id string, units int64) quota.Entry {
	return quota.Entry{ID: id, At: noon, Charges: []quota.EntryCharge{{Pool: pool, Units: units}}}
}

func newJournal(t *testing.T) *journal.Journal {
	t.Helper()
	j, err := journal.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), "redis://test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// admits checks that an entry is admitted within 50 units, or not.
func admits(t *testing.T, j *journal.Journal, e quota.Entry, want quota.Admission) {
	t.Helper()
	got, err := j.Admit(t.Context(), e, 50)
	if err != nil {
		t.Fatal(err)
	}
	got.Pool = quota.Pool{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: %s", e.ID, diff)
	}
}

func settles(t *testing.T, j *journal.Journal, id string, units, want []int64) {
	t.Helper()
	if got, err := j.Settle(t.Context(), id, units); err != nil || !cmp.Equal(got, want) {
		t.Errorf("settle %s to %d: %d stands, want %d (%v)", id, units, got, want, err)
	}
}

func takes(t *testing.T, j *journal.Journal, id string) quota.Entry {
	t.Helper()
	e, there, err := j.Take(t.Context(), id)
	if err != nil || !there {
		t.Fatalf("take %s: there %t, %v", id, there, err)
	}
	return e
}

func isDone(t *testing.T, j *journal.Journal, e quota.Entry, want bool) {
	t.Helper()
	if gone, err := j.Done(t.Context(), e); err != nil || gone != want {
		t.Errorf("done %s: gone %t, want %t (%v)", e.ID, gone, want, err)
	}
}

// Once, in the journal too.
func TestAnIDNamesOneCall(t *testing.T) {
	j := newJournal(t)
	admits(t, j, entry("a", 20), quota.Admission{OK: true})
	admits(t, j, entry("a", 20), quota.Admission{OK: true, Repeat: true})
	for _, other := range []quota.Entry{entry("a", 1), {ID: "a", At: noon, Charges: []quota.EntryCharge{
		{Pool: pool, Units: 20}, {Pool: quota.Pool{Upstream: "youtube", Account: "default", Name: "searches"}, Units: 1},
	}}} {
		if a, err := j.Admit(t.Context(), other, 50); a.OK || !errors.Is(err, quota.ErrBadInput) {
			t.Errorf("another call under the same id: %+v, %v", a, err)
		}
	}
	admits(t, j, entry("b", 31), quota.Admission{Used: 20})
	admits(t, j, entry("b", 30), quota.Admission{OK: true, Used: 20})
}

func TestTheFirstSettlementStands(t *testing.T) {
	j := newJournal(t)
	admits(t, j, entry("a", 20), quota.Admission{OK: true})
	settles(t, j, "a", []int64{5}, []int64{5})
	settles(t, j, "a", []int64{0}, []int64{5})
	admits(t, j, entry("b", 45), quota.Admission{OK: true, Used: 5}) // what is left of the allowance
	e := takes(t, j, "a")
	if diff := cmp.Diff([]int64{5}, e.Settled); diff != "" || e.Charges[0].Units != 20 {
		t.Errorf("%+v", e)
	}
	isDone(t, j, e, true)
	settles(t, j, "a", []int64{0}, nil)
	isDone(t, j, e, true) // another process was faster
	settles(t, j, "b", []int64{99}, []int64{99})
	admits(t, j, entry("c", 1), quota.Admission{Used: 99}) // what is gone may pass the allowance
	isDone(t, j, takes(t, j, "b"), true)
}

// A call that was released is forgotten at once if the ledger cannot know it, else
// with the replay; its id is free again.
func TestReleasedInTheJournal(t *testing.T) {
	j := newJournal(t)
	admits(t, j, entry("a", 20), quota.Admission{OK: true})
	settles(t, j, "a", []int64{0}, []int64{0})
	if ids, err := j.Pending(t.Context()); err != nil || len(ids) != 0 {
		t.Error("forgotten at once:", ids, err)
	}
	admits(t, j, entry("a", 20), quota.Admission{OK: true})
	taken := takes(t, j, "a")
	settles(t, j, "a", []int64{0}, []int64{0})
	isDone(t, j, taken, false)
	released := takes(t, j, "a")
	again := entry("a", 20)
	again.At = noon.Add(time.Minute)
	admits(t, j, again, quota.Admission{OK: true})
	isDone(t, j, released, false)
	again.Asked = true // by the try before
	e := takes(t, j, "a")
	if diff := cmp.Diff(again, e); diff != "" {
		t.Error(diff)
	}
	isDone(t, j, e, true)
}

func TestPendingIsInOrder(t *testing.T) {
	j := newJournal(t)
	for i, id := range []string{"c", "a", "b"} {
		e := entry(id, 1)
		e.At = noon.Add(-time.Duration(i) * time.Minute)
		admits(t, j, e, quota.Admission{OK: true, Used: int64(i)})
	}
	pending, err := j.Pending(t.Context())
	var ids []string
	for _, e := range pending {
		ids = append(ids, e.ID)
	}
	if diff := cmp.Diff([]string{"b", "a", "c"}, ids); diff != "" || err != nil {
		t.Error(diff, err)
	}
}
