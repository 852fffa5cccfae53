package pgcatalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/testing/childtest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
)

func init() { children["save"] = saveChild }

// shared returns videos in a random order, of which each process saves many.
func shared(rng *rand.Rand) (all []catalog.Video) {
	for _, n := range rng.Perm(60)[:40] {
		views := int64(n)
		all = append(all, catalog.Video{
			ID: fmt.Sprint("v", n), Title: fmt.Sprint("Video ", n, " ", rng.IntN(3)), PublishedAt: noon,
			Statistics: &catalog.Statistics{Views: &views},
		})
	}
	return all
}

// saveChild saves pages of its own work: the same videos and channels as all others, in
// another order.
func saveChild(at string, begin func() bool, out io.Writer) error {
	work, url, _ := strings.Cut(at, "|")
	c, err := Open(ctx, url, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	id, err := c.Add(ctx, "trending", time.Time{})
	if err != nil {
		return err
	}
	begin()
	rng := rand.New(rand.NewPCG(uint64(len(work)), rand.Uint64()))
	r := c.Join(id, "trending", catalog.Fence{})
	cur, err := c.Cursor(ctx, "trending", work)
	for n := range 25 {
		p := catalog.Page{Cursor: cur, Done: true, Region: "DE", Chart: true, Videos: shared(rng), Units: 1}
		p.Channels = []catalog.Channel{{ID: fmt.Sprint("UC", rng.IntN(3))}, {ID: fmt.Sprint("UC", rng.IntN(3))}}
		if n%5 == 4 {
			p.Gone = []string{fmt.Sprint("v", rng.IntN(60)), fmt.Sprint("v", rng.IntN(60)), "UC1"}
		}
		s, err := r.Save(ctx, &p)
		if err != nil {
			return fmt.Errorf("page %d: %w", n, err)
		}
		cur = s.Cursor
		fmt.Fprintln(out, "saved")
	}
	return err
}

// TestProcessesAtOnce: several processes save the same rows. All succeed, every page is counted
// once, and the chart and the index are whole.
func TestProcessesAtOnce(t *testing.T) {
	url := pgtest.Shared(t)
	var all []*childtest.Child
	for i := range 4 { // they also race to make the tables
		all = append(all, childtest.Run(t, "save", strings.Repeat("w", i+1)+"|"+url))
	}
	for _, c := range all {
		if line := c.Line(); line != "ready" {
			t.Fatalf("a child says %q", line)
		}
	}
	for _, c := range all {
		c.Begin()
	}
	for _, c := range all {
		if lines := c.Rest(); len(lines) != 25 {
			t.Errorf("%d pages: %q", len(lines), lines)
		}
	}
	c, err := Open(ctx, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	runs, err := c.Runs(ctx, catalog.RunsQuery{})
	if err != nil || len(runs) != 4 {
		t.Fatal(runs, err)
	}
	for _, r := range runs {
		if len(r.Work) != 1 || r.Work[0].Pages != 25 || r.Work[0].Units != 25 || r.State != catalog.Running {
			t.Errorf("%+v", r)
		}
	}
	chart, err := c.Chart(ctx, "DE", "")
	if err != nil || len(chart.Entries) < 20 {
		t.Errorf("the chart has %d entries, %v", len(chart.Entries), err)
	}
	if problems, err := c.Check(ctx); err != nil || problems != nil {
		t.Error(problems, err)
	}
}

// page returns the next page of a unit of work.
func page(t *testing.T, c *Catalog, work string, videos ...catalog.Video) *catalog.Page {
	t.Helper()
	cur, err := c.Cursor(ctx, "trending", work)
	if err != nil {
		t.Fatal(err)
	}
	return &catalog.Page{Cursor: cur, Done: true, Videos: videos, Units: 1}
}

// TestWithinATransaction: the caller's transaction decides whether a page is saved.
func TestWithinATransaction(t *testing.T) {
	c := open(t, quota.NewSimClock(noon))
	id, err := c.Add(ctx, "trending", noon)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		work string
		end  error
	}{{"rolled back", errors.New("no")}, {"committed", nil}} {
		p := page(t, c, tt.work, catalog.Video{ID: tt.work, Title: tt.work})
		err := pgx.BeginFunc(ctx, c.Pool(), func(tx pgx.Tx) error {
			in := c.In(tx)
			s, err := in.Join(id, "trending", catalog.Fence{}).Save(ctx, p)
			if err != nil || s.New != 1 {
				t.Errorf("%+v, %v", s, err)
			}
			if _, err := in.Video(ctx, tt.work); err != nil { // seen within
				t.Error(err)
			}
			if _, err := c.Video(ctx, tt.work); !errors.Is(err, catalog.ErrNotFound) { // and not outside
				t.Errorf("%s is seen by others: %v", tt.work, err)
			}
			return tt.end
		})
		if !errors.Is(err, tt.end) {
			t.Error(err)
		}
		_, err = c.Video(ctx, tt.work)
		cur, _ := c.Cursor(ctx, "trending", tt.work)
		if saved := tt.end == nil; saved != (err == nil) || saved != (cur.Pass == 1) {
			t.Errorf("%s: %v, %+v", tt.work, err, cur)
		}
	}
	runs, err := c.Runs(ctx, catalog.RunsQuery{})
	want := []catalog.RunRecord{{
		ID: id, Job: "trending", Scheduled: noon, StartedAt: noon, State: catalog.Running,
		Work: []catalog.WorkRecord{{Work: "committed", Pages: 1, Units: 1, New: 1, State: catalog.Running}},
	}}
	if diff := cmp.Diff(want, runs); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestGuarded: a guard may refuse a page before it is written or after, and what it writes
// itself is part of the same transaction.
func TestGuarded(t *testing.T) {
	c := open(t, quota.NewSimClock(noon))
	if _, err := c.Pool().Exec(ctx, "CREATE TABLE jobs (work text, new integer)"); err != nil {
		t.Fatal(err)
	}
	id, err := c.Add(ctx, "trending", noon)
	if err != nil {
		t.Fatal(err)
	}
	taken := errors.New("taken over")
	for _, tt := range []struct {
		work          string
		before, after error
	}{{"fenced", taken, nil}, {"undone", nil, taken}, {"done", nil, nil}} {
		guarded := c.Guarded(Guard{
			Before: func(b *pgx.Batch) {
				b.Queue("INSERT INTO jobs VALUES ($1)", tt.work).Exec(func(pgconn.CommandTag) error { return tt.before })
			},
			Saved: func(b *pgx.Batch, s catalog.Saved) {
				b.Queue("UPDATE jobs SET new = $2::integer WHERE work = $1", tt.work, s.New)
				if tt.after != nil {
					b.Queue("SELECT 1 / 0")
				}
			},
		})
		p := page(t, c, tt.work, catalog.Video{ID: tt.work})
		_, err := guarded.Join(id, "trending", catalog.Fence{}).Save(ctx, p)
		if refused := tt.before != nil || tt.after != nil; refused != (err != nil) || (tt.before != nil) != errors.Is(err, taken) {
			t.Errorf("%s: %v", tt.work, err)
		}
	}
	var jobs []string
	if err := c.each(ctx, func(scan catalog.Scan) error {
		jobs = append(jobs, "")
		return scan(&jobs[len(jobs)-1])
	}, "SELECT work FROM jobs WHERE new = 1"); err != nil || !slices.Equal(jobs, []string{"done"}) {
		t.Errorf("%q, %v", jobs, err)
	}
	if ages, err := c.Ages(ctx, catalog.KindVideos, noon.Add(time.Hour), -1); err != nil || len(ages) != 1 || ages[0].ID != "done" {
		t.Errorf("%+v, %v", ages, err)
	}
}

// TestOnePageOnce: of many who save the same page at once one saves it.
func TestOnePageOnce(t *testing.T) {
	c := open(t, nil)
	id, err := c.Add(ctx, "trending", noon)
	if err != nil {
		t.Fatal(err)
	}
	r := c.Join(id, "trending", catalog.Fence{})
	for range 5 {
		p := page(t, c, "DE", catalog.Video{ID: "a"})
		results := make(chan catalog.Saved, 8)
		var savers sync.WaitGroup
		for range cap(results) {
			savers.Go(func() {
				s, err := r.Save(ctx, p)
				if err != nil {
					t.Error(err)
				}
				results <- s
			})
		}
		savers.Wait()
		close(results)
		saved := 0
		for s := range results {
			if !s.Repeated {
				saved++
			}
		}
		if saved != 1 {
			t.Errorf("it was saved %d times", saved)
		}
	}
}

// TestAnIdleTransactionEnds: a process that hangs within a transaction does not stop others.
func TestAnIdleTransactionEnds(t *testing.T) {
	c := open(t, nil)
	var limit string
	err := pgx.BeginFunc(ctx, c.Pool(), func(tx pgx.Tx) error {
		if _, err := c.In(tx).NewFence(ctx, "default/trending"); err != nil {
			return err
		}
		return tx.QueryRow(ctx, "SHOW idle_in_transaction_session_timeout").Scan(&limit)
	})
	if err != nil || limit != "10s" {
		t.Errorf("the limit is %q, %v", limit, err)
	}
	if err := c.Pool().QueryRow(ctx, "SHOW idle_in_transaction_session_timeout").Scan(&limit); err != nil || limit != "0" {
		t.Errorf("after it the limit is %q, %v: others use the connection, too", limit, err)
	}
}

// TestALockedRowDelaysNobodyForLong: an operation has a deadline of its own.
func TestALockedRowDelaysNobodyForLong(t *testing.T) {
	c := open(t, nil)
	if _, err := c.NewFence(ctx, "default/trending"); err != nil {
		t.Fatal(err)
	}
	tx, err := c.Pool().Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, "UPDATE headroom_catalog.fences SET token = token"); err != nil {
		t.Fatal(err)
	}
	c.wait = 200 * time.Millisecond
	if _, err := c.NewFence(ctx, "default/trending"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want %v", err, context.DeadlineExceeded)
	}
}

// TestNoErrorSaysThePassword: of a URL that is wrong in any way.
func TestNoErrorSaysThePassword(t *testing.T) {
	good, err := url.Parse(pgtest.Shared(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{
		"postgres://me:s3cr3t@" + good.Host + "/nothing?sslmode=disable",
		"postgres://me:s3cr3t@127.0.0.1:1/db?sslmode=disable&connect_timeout=1",
		"postgres://me:s3cr3t@127.0.0.1:1/db?sslmode=nonsense",
		"postgres://me:s3cr3t@%zz/db", "postgres://me:s3cr3t%zz@host/db", "postgres://me:s3cr3t@host:port/db", "s3cr3t",
		"host=127.0.0.1 port=1 password=s3cr3t password = 's3cr3t' x",
		"postgres://127.0.0.1:1/db?password=s3cr3t&connect_timeout=x",
	} {
		_, err := Open(ctx, address, nil)
		if err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestRights: Missing names what a user lacks, and with these rights a user needs no other.
func TestRights(t *testing.T) {
	address := pgtest.Shared(t)
	owner, err := Open(ctx, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	other, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	name := "other" + other.Path[1:]
	other.User = url.User(name)
	if _, err := owner.Pool().Exec(ctx, "CREATE ROLE "+name+" LOGIN"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, other.String(), nil); !Refused(err) {
		t.Errorf("without rights: %v", err)
	}
	for n := 0; ; n++ {
		missing, err := Missing(ctx, other.String(), Schema)
		if err != nil {
			t.Fatal(err)
		}
		if len(missing) == 0 {
			if n == 0 {
				t.Error("nothing was missing")
			}
			break
		}
		if n > 3 {
			t.Fatalf("still missing: %q", missing)
		}
		for _, right := range missing {
			if _, err := owner.Pool().Exec(ctx, right); err != nil {
				t.Fatalf("%s: %v", right, err)
			}
		}
	}
	c, err := Open(ctx, other.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fill(t, c, []catalog.Video{{ID: "a", Title: "cat"}})
	if got := found(t, c, catalog.Query{Text: "cat"}); !slices.Equal(got, []string{"a"}) {
		t.Errorf("found %q", got)
	}
	later := time.Now().Add(time.Hour)
	if e, err := c.Expire(ctx, catalog.Limits{Before: later, StatisticsBefore: later}); err != nil || e.Videos != 1 {
		t.Errorf("expired %+v, %v", e, err)
	}
}
