//go:build linux

package chaos

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
)

// rig is a fleet and everything around it.
type rig struct {
	t        testing.TB
	dir      string
	database *pgtest.Server
	redis    *redistest.Server // nil: the ledger is in PostgreSQL
	upstream *upstream
	daemons  []*process
	pool     *pgxpool.Pool // past the links
	began    time.Time
	jobs     map[string]ingest.Job // all are due every minute
}

// plan says what a rig has. Zero values are those of TestChaos.
type plan struct {
	daemons int
	jobs    map[string]ingest.Job
	workers int
	costs   string            // of the price book, below pools
	limits  map[string]limits // of the upstream
	delay   func() time.Duration
	call    time.Duration // the timeout of a call
	wait    time.Duration // max_wait
	disk    *disk         // of the daemons' state; nil: a folder
	held    bool          // do not start the daemons
	ledger  string        // where the ledger is: "redis" or "postgres", with the catalog; empty is redis
	bouncer bool          // the daemons reach PostgreSQL through PgBouncer, in transaction mode
}

// brief are times that fit into a test. As in a release, a job is rescued later than the
// server ends a silent transaction. River looks for lost jobs every 30 s whatever they are.
var brief = fleet.Timing{Slice: 5 * time.Second, Rescue: 20 * time.Second, Beat: time.Second, Mend: 2 * time.Second}

// plenty is a price book and an upstream that refuse nothing.
var plenty = plan{
	costs:  `{units: {quota: 100000000, headroom: 0}}`,
	limits: map[string]limits{"units": {time.Hour: 100_000_000}},
}

func newRig(t testing.TB, p *plan) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), upstream: newUpstream(p.limits, p.delay), began: time.Now(), jobs: p.jobs}
	r.database = pgtest.Start(t, pgtest.Fast...)
	var err error
	catalog, ledger := r.database.Addr, r.database.Addr
	if p.bouncer {
		catalog = r.database.Bouncer(t)
	}
	if p.ledger != "postgres" {
		r.redis, err = redistest.Start(r.mkdir("redis"), "--save", "", "--appendonly", "yes", "--appendfsync", "always")
		r.must(err)
		t.Cleanup(func() { r.redis.Kill() })
		ledger = r.redis.Addr
	}
	r.write("costs.yaml", "extends: builtin\nrevision: 2\nupstreams: {youtube: {pools: "+p.costs+", methods: {videos.list: {outage: refuse}}}}\n")
	r.pool, err = pgxpool.New(context.Background(), r.database.URL("postgres"))
	r.must(err)
	t.Cleanup(r.pool.Close)
	ingestor, err := program()
	r.must(err)
	for n := range p.daemons {
		d := &process{r: r, n: n, program: ingestor}
		r.daemons = append(r.daemons, d)
		d.sql, err = newLink(catalog, true)
		r.must(err)
		d.ledger, err = newLink(ledger, false)
		r.must(err)
		state := r.mkdir("state" + strconv.Itoa(n))
		if p.disk != nil {
			d.disk = p.disk
			state, err = p.disk.folder(strconv.Itoa(n))
			r.must(err)
		}
		s := settings{
			Database: strings.Replace(r.database.URL("postgres"), r.database.Addr, d.sql.addr, 1),
			Ledger:   "redis://" + d.ledger.addr, PollOnly: p.bouncer, Endpoint: "http://" + r.serve(r.upstream.of(n)), Costs: r.path("costs.yaml"),
			Config: ingest.Config{Jobs: p.jobs, Workers: p.workers, MaxWait: p.wait, CallTimeout: p.call},
		}
		if r.redis == nil {
			s.Ledger = strings.Replace(r.database.URL("postgres"), r.database.Addr, d.ledger.addr, 1)
		}
		text, err := s.text()
		r.must(err)
		d.settings, d.state = r.write(fmt.Sprintf("daemon%d.yaml", n), text), state
		t.Cleanup(func() {
			d.kill()
			d.sql.close()
			d.ledger.close()
		})
	}
	if !p.held {
		for _, d := range r.daemons {
			d.start()
		}
	}
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

func (r *rig) mkdir(name string) string {
	r.t.Helper()
	r.must(os.Mkdir(r.path(name), 0o700))
	return r.path(name)
}

func (r *rig) write(name, text string) string {
	r.t.Helper()
	r.must(os.WriteFile(r.path(name), []byte(text), 0o600))
	return r.path(name)
}

// serve serves HTTP until the test ends, and returns its address.
func (r *rig) serve(h http.Handler) string {
	r.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	r.must(err)
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.Serve(l) }()
	r.t.Cleanup(func() { _ = s.Close() })
	return l.Addr().String()
}

// try returns the rows of a query, or an error if the database is down.
func (r *rig) try(query string, args ...any) (all [][]string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	rows, err := r.pool.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]string, error) {
		values, err := row.Values()
		var texts []string
		for _, v := range values {
			texts = append(texts, fmt.Sprint(v))
		}
		return texts, err
	})
}

// rows returns the rows of a query as texts.
func (r *rig) rows(query string, args ...any) [][]string {
	r.t.Helper()
	var all [][]string
	var err error
	for range 150 { // a pooled connection may be from before a restart
		if all, err = r.try(query, args...); err == nil {
			return all
		}
		time.Sleep(200 * time.Millisecond)
	}
	r.t.Fatalf("%s: %v", query, err)
	return nil
}

// number returns what a query counts.
func (r *rig) number(query string, args ...any) int {
	r.t.Helper()
	n, err := strconv.Atoi(r.rows(query, args...)[0][0])
	r.must(err)
	return n
}

func (r *rig) exec(query string, args ...any) {
	r.t.Helper()
	_, err := r.pool.Exec(context.Background(), query, args...)
	r.must(err)
}

// until waits until a condition holds, and returns how long that took.
func (r *rig) until(what string, limit time.Duration, holds func() bool) time.Duration {
	r.t.Helper()
	begin := time.Now()
	for !holds() {
		if time.Since(begin) > limit {
			r.t.Fatalf("not within %s: %s", limit, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(begin)
}

// joined waits until all daemons work.
func (r *rig) joined() {
	r.t.Helper()
	r.until("all daemons join", 3*time.Minute, func() bool {
		rows, err := r.try("SELECT count(*) FROM headroom_fleet.daemons WHERE state = 'running' AND seen_at > clock_timestamp() - interval '5 s'")
		return err == nil && rows[0][0] == strconv.Itoa(len(r.daemons))
	})
}

// at is a time since the rig began.
func (r *rig) at(t time.Time) string { return fmt.Sprintf("%.1fs", t.Sub(r.began).Seconds()) }

// disk is a small file system in memory. It lasts as long as the process that holds it. Only
// processes of [disk.command] see it.
type disk struct {
	dir    string
	holder int
}

// newDisk mounts a file system of some kilobytes. The system may not allow it.
func newDisk(t testing.TB, kilobytes int) (*disk, error) {
	d := &disk{dir: t.TempDir()}
	args := []string{"--mount"}
	if os.Geteuid() != 0 {
		args = append(args, "--map-root-user")
	}
	cmd := exec.Command("unshare", append(args, "sh", "-c", fmt.Sprintf("mount -t tmpfs -o size=%dk,mode=700 none '%s' && echo held && cat", kilobytes, d.dir))...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := starter(cmd); err != nil {
		return nil, err
	}
	said := make([]byte, 5)
	if _, err := io.ReadFull(out, said); err != nil || string(said) != "held\n" {
		_ = cmd.Wait()
		return nil, fmt.Errorf("mount: %q: %w", said, err)
	}
	d.holder = cmd.Process.Pid
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	return d, nil
}

// command returns a command that sees the disk.
func (d *disk) command(name string, args ...string) *exec.Cmd {
	enter := []string{"--target", strconv.Itoa(d.holder), "--mount"}
	if os.Geteuid() != 0 {
		enter = append(enter, "--user", "--preserve-credentials")
	}
	return exec.Command("nsenter", append(append(enter, "--", name), args...)...)
}

func (d *disk) run(name string, args ...string) error {
	if out, err := d.command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// folder makes a folder on the disk.
func (d *disk) folder(name string) (string, error) {
	path := filepath.Join(d.dir, name)
	return path, d.run("mkdir", path)
}

// fill leaves no space.
func (d *disk) fill() error {
	err := d.run("sh", "-c", "cat /dev/zero >'"+filepath.Join(d.dir, "full")+"'")
	if err != nil && strings.Contains(err.Error(), "No space") {
		return nil
	}
	return fmt.Errorf("the disk is not full: %w", err)
}

func (d *disk) empty() error { return d.run("rm", filepath.Join(d.dir, "full")) }

// table is a text of rows with aligned columns.
func table(rows [][]string) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			if i == len(row)-1 {
				b.WriteString(cell)
			} else {
				fmt.Fprintf(&b, "%-*s  ", widths[i], cell)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// quantile returns a quantile of durations.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
