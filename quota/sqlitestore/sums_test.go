package sqlitestore

import (
	"context"
	"database/sql/driver"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// obvious adds up all rows of the file.
const obvious = `SELECT b.pool, b.zone, r.day, r.method, r.job, r.region, r.class, r.reason, CAST(min(total(r.units), 9007199254740991) AS INTEGER), sum(r.calls),
	CASE WHEN ?5 THEN r.at - (r.at % 3600000000 + 3600000000) % 3600000000 END AS hour
FROM reservations AS r JOIN births AS b ON b.id = r.pool_id
WHERE b.upstream = ?1 AND b.account = ?2 AND r.day BETWEEN ?3 AND ?4
GROUP BY r.pool_id, r.day, hour, r.method, r.job, r.region, r.class, r.reason
ORDER BY min(r.number)`

func (f *file) obviousSpend(t testing.TB, q quota.SpendQuery) []quota.Spent {
	t.Helper()
	tx, err := f.view(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	from, to := storekit.SpendRange(window.At(tx.now), q)
	var sums storekit.Fold
	err = tx.read(obvious, []driver.Value{q.Upstream, q.Account, from, to, q.Hours}, func(r sqlitefile.Row) error {
		one := quota.Spent{
			Pool: quota.Pool{Upstream: q.Upstream, Account: q.Account, Name: r.Text(0)}, Day: r.Text(2),
			Labels: quota.Labels{Method: r.Text(3), Job: r.Text(4), Region: r.Text(5), Class: r.Text(6), Reason: r.Text(7)},
			Units:  r.Int(8), Calls: r.Int(9),
		}
		if q.Hours {
			one.Hour = window.Instant(r.Int(10)).Time().UTC()
		}
		return sums.Add(q, one, r.Text(1))
	})
	if err := tx.End(err); err != nil {
		t.Fatal(err)
	}
	all := sums.Spend()
	slices.SortFunc(all, quota.Spent.Compare)
	return all
}

// asks compares what a store answers with the obvious sums of its file.
func asks(t testing.TB, s *Store, when string, now time.Time) {
	t.Helper()
	for _, q := range []quota.SpendQuery{{}, {Hours: true}, {Since: now.Add(-26 * time.Hour), Hours: true}, {Since: now}, {Until: now.Add(-30 * time.Hour)}, {Account: "other"}} {
		if q.Upstream = "youtube"; q.Account == "" {
			q.Account = quota.DefaultAccount
		}
		got, err := s.Spend(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s.file.obviousSpend(t, q), got); diff != "" {
			t.Fatalf("%s, %+v (-obvious +got):\n%s", when, q, diff)
		}
	}
}

// TestSpendIsThatOfTheRows: whatever happened since the sums were made, they are those of
// all rows. Some of it happens by another process.
func TestSpendIsThatOfTheRows(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	clock := quota.NewSimClock(noon)
	path := filepath.Join(t.TempDir(), "ledger.db")
	s, other := must(t, path, &Options{Clock: clock}), must(t, path, &Options{Clock: clock})
	type held struct {
		token quota.Token
		units int64
	}
	var open []held
	most := 0
	for n := range scaled(250, 20_000) {
		by := []*Store{s, other}[random.IntN(2)]
		what := ""
		switch k := random.IntN(20); {
		case k < 9:
			c := units(1+random.Int64N(9), 1<<40)
			if random.IntN(4) == 0 {
				c.Pool.Account = "other"
			}
			what = "a charge"
			v, err := by.Reserve(t.Context(), quota.Request{
				ID: fmt.Sprint("r", n), Charges: []quota.Charge{c},
				Labels: quota.Labels{Method: fmt.Sprint("m", random.IntN(3)), Job: fmt.Sprint("j", random.IntN(3))},
			})
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, held{v.Token(), c.Units})
		case k < 13 && len(open) > 0:
			what = "a settlement" // or a refusal of one that is too old
			i := random.IntN(len(open))
			_, _ = by.Settle(t.Context(), open[i].token, quota.Units{"units": random.Int64N(3) * open[i].units})
			open = slices.Delete(open, i, i+1)
		case k < 14:
			what = "a correction"
			if _, err := by.Record(t.Context(), quota.Request{ID: fmt.Sprint("c", n), Charges: []quota.Charge{units(-1-random.Int64N(5), 1<<40)}, Labels: quota.Labels{Reason: "to see"}, Restore: true}); err != nil {
				t.Fatal(err)
			}
		case k < 18:
			what = "some time"
			clock.Advance(time.Duration(random.Int64N(int64([]time.Duration{time.Minute, 50 * time.Minute, 5 * time.Hour}[random.IntN(3)]))))
		case k < 19:
			what = "a leap"
			asks(t, s, what, clock.Now())
			back := clock.Now()
			clock.Advance(time.Duration(random.Int64N(int64(40 * time.Hour))))
			asks(t, s, what, clock.Now())
			if random.IntN(2) == 0 { // what is charged then is younger than what comes later
				if _, err := by.Reserve(t.Context(), quota.Request{ID: fmt.Sprint("l", n), Charges: []quota.Charge{units(1, 1<<40)}}); err != nil {
					t.Fatal(err)
				}
			}
			if clock.Set(back); random.IntN(2) == 0 {
				clock.Advance(time.Minute)
			}
		case random.IntN(8) == 0:
			what = "a person's deletion of the last rows"
			kept.Spoil(t, path, "DELETE FROM reservations WHERE number > (SELECT max(number) / 2 FROM reservations)")
		}
		s.file.sums.most, s.file.sums.atOnce = []int{0, 10, 1000, 1000}[random.IntN(4)], 1+random.Int64N(20)
		asks(t, s, what, clock.Now())
		most = max(most, s.file.sums.size)
	}
	if most < 20 {
		t.Errorf("at most %d sums were kept", most)
	}
}

// TestSpendOfOldChargesIsKept: what no longer changes is read once, and forgotten with its day.
func TestSpendOfOldChargesIsKept(t *testing.T) {
	clock := quota.NewSimClock(noon)
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := must(t, path, &Options{Clock: clock})
	for n := range 50 {
		if _, err := reserve(s, fmt.Sprint(n), 1); err != nil {
			t.Fatal(err)
		}
		clock.Advance(10 * time.Minute)
	}
	asks(t, s, "first", clock.Now())
	if young := 50 - s.file.sums.upto; young != int64(settled/(10*time.Minute))-1 || len(s.file.sums.young) != 0 {
		t.Errorf("%d charges are added up each time", young)
	}
	kept.Spoil(t, path, "UPDATE reservations SET units = 1000 WHERE number < 10")
	again, err := s.Spend(t.Context(), quota.SpendQuery{Upstream: "youtube", Account: quota.DefaultAccount})
	if err != nil || len(again) != 1 || again[0].Units != 50 {
		t.Errorf("it reads old charges again: %v, %v", again, err)
	}
	clock.Advance(sumsLife + time.Minute)
	asks(t, s, "after some time", clock.Now())
	clock.Advance(40 * 24 * time.Hour)
	asks(t, s, "after its days", clock.Now())
	if s.file.sums.size != 0 {
		t.Errorf("it keeps %d sums", s.file.sums.size)
	}
}

// TestSpendLeavesReadersToUsage: any number of callers who ask for the spend use one session,
// so that who looks at the pools finds another.
func TestSpendLeavesReadersToUsage(t *testing.T) {
	s := must(t, filepath.Join(t.TempDir(), "ledger.db"), nil)
	s.file.sums.turn <- struct{}{} // one asks
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 3*sqlitefile.Readers)
	for range cap(ended) {
		go func() {
			_, err := s.Spend(ctx, quota.SpendQuery{Upstream: "youtube", Account: quota.DefaultAccount})
			ended <- err
		}()
	}
	for range sqlitefile.Readers - 1 {
		view, err := s.file.view(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = view.End(nil) }()
	}
	if _, err := s.Look(t.Context(), []quota.Charge{units(1, 100)}); err != nil {
		t.Error(err)
	}
	cancel()
	for range cap(ended) {
		if err := <-ended; err == nil {
			t.Error("one did not wait for its turn")
		}
	}
	<-s.file.sums.turn
}
