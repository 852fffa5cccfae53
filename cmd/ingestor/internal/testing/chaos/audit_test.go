//go:build linux

package chaos

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/ingest"
)

// audit makes the database write down how cursors move, apart from the program: each saved
// page and each end of a pass is a row.
func (r *rig) audit() {
	r.t.Helper()
	r.exec(`CREATE SCHEMA audit`)
	r.exec(`CREATE TABLE audit.moves (id bigserial, at timestamptz DEFAULT clock_timestamp(), job text, work text,
		was_pass bigint, was_page bigint, is_pass bigint, is_page bigint, completed bigint)`)
	r.exec(`CREATE FUNCTION audit.moved() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF TG_OP = 'INSERT' THEN
			IF NEW.pass > 0 OR NEW.page > 0 THEN
				INSERT INTO audit.moves (job, work, was_pass, was_page, is_pass, is_page, completed)
				VALUES (NEW.job, NEW.work, 0, 0, NEW.pass, NEW.page, NEW.completed_at);
			END IF;
		ELSIF (NEW.pass, NEW.page) <> (OLD.pass, OLD.page) THEN
			INSERT INTO audit.moves (job, work, was_pass, was_page, is_pass, is_page, completed)
			VALUES (NEW.job, NEW.work, OLD.pass, OLD.page, NEW.pass, NEW.page, nullif(NEW.completed_at, OLD.completed_at));
		END IF;
		RETURN NULL;
	END $$`)
	r.exec(`CREATE TRIGGER moved AFTER INSERT OR UPDATE ON headroom_catalog.cursors FOR EACH ROW EXECUTE FUNCTION audit.moved()`)
}

// facts are what the database shows after a run of the rig.
type facts struct {
	twice    []string // passes that no tick asked for
	pages    int      // that were saved
	passes   int      // that ended
	restarts int      // passes that were begun again
	doubled  []string
	lost     []string
	open     int // runs that have not ended
	broken   int // River's jobs that were cancelled or discarded
	rescued  int // taken over from a daemon that vanished
}

// facts reads what happened. Complete says how many entries a complete chart has at least; 0
// does not look.
func (r *rig) facts(complete int) (f facts) {
	r.t.Helper()
	// A pass serves all ticks that came before it ended. So a second pass that ends before the
	// next tick has run a tick again, and its pages were paid for again.
	for _, row := range r.rows(`SELECT job, work, to_char(to_timestamp(completed / 60000000 * 60), 'HH24:MI'), count(*) FROM audit.moves
		WHERE completed > 0 GROUP BY job, work, completed / 60000000 HAVING count(*) > 1`) {
		if _, ours := r.jobs[row[0]]; ours {
			f.twice = append(f.twice, fmt.Sprintf("%s %s ended %s passes for the tick of %s", row[0], row[1], row[3], row[2]))
		}
	}
	f.open = r.number("SELECT count(*) FROM headroom_fleet.runs WHERE ended_at IS NULL AND state IS NOT NULL")
	f.broken = r.number("SELECT count(*) FROM headroom_fleet.river_job WHERE state IN ('cancelled', 'discarded')")
	f.rescued = r.number("SELECT count(*) FROM headroom_fleet.works WHERE taken_from <> ''")

	// Each page is one move: the next page, or the end of the pass with it. All else was
	// written twice, or is missing.
	type place struct{ pass, page string }
	at := map[string]place{}
	told := "0" // the pages that the history of runs has, at the same moment: the daemons go on
	for _, row := range r.rows("SELECT job, work, was_pass, was_page, is_pass, is_page, completed, (SELECT coalesce(sum(pages), 0) FROM headroom_catalog.run_work) FROM audit.moves ORDER BY id") {
		told = row[7]
		name, was, is := row[0]+" "+row[1], place{row[2], row[3]}, place{row[4], row[5]}
		before, known := at[name]
		if known && was != before {
			f.lost = append(f.lost, fmt.Sprintf("%s: from %v to %v, but it was at %v", name, was, is, before))
		}
		at[name] = is
		var pass, page, nextPass, nextPage int
		_, _ = fmt.Sscan(was.pass, &pass)
		_, _ = fmt.Sscan(was.page, &page)
		_, _ = fmt.Sscan(is.pass, &nextPass)
		_, _ = fmt.Sscan(is.page, &nextPage)
		switch {
		case nextPass == pass && nextPage == page+1:
			f.pages++
		case nextPass == pass+1 && nextPage == 0 && row[6] != "<nil>":
			f.pages, f.passes = f.pages+1, f.passes+1
			if j := r.jobs[row[0]]; j.Kind == ingest.Trending && page+1 != j.Pages { // a chart always has as many as it may
				f.doubled = append(f.doubled, fmt.Sprintf("%s: pass %d has %d pages, not %d", name, pass, page+1, j.Pages))
			}
		case nextPage == 0:
			f.restarts++
		default:
			f.doubled = append(f.doubled, fmt.Sprintf("%s: from %v to %v", name, was, is))
		}
	}
	// The history of runs has each page once.
	if told != strconv.Itoa(f.pages) {
		f.lost = append(f.lost, fmt.Sprintf("the runs say %s pages, but %d were saved", told, f.pages))
	}
	for _, row := range r.rows(`SELECT c.region, c.category, count(*), max(e.rank) FROM headroom_catalog.charts c JOIN headroom_catalog.chart_entries e ON e.chart = c.id
		WHERE c.complete GROUP BY 1, 2 HAVING count(*) < $1::integer`, complete) {
		f.lost = append(f.lost, "a complete chart misses entries: "+strings.Join(row, " "))
	}
	return f
}

// ticks are the times at which the jobs were due.
type ticks struct {
	due  int
	by   map[string]int // how their runs ended; "open" if they have not
	lost []string       // those without a run
}

// ticks compares the runs in the database with the schedule, from one time to another.
func (r *rig) ticks(from, to time.Time) (t ticks) {
	r.t.Helper()
	first := from.Truncate(time.Minute).Add(time.Minute)
	for at := first; !at.After(to); at = at.Add(time.Minute) {
		t.due += len(r.jobs)
	}
	read := func() map[string]string {
		all := map[string]string{}
		for _, row := range r.rows(`SELECT job, to_char(scheduled_at AT TIME ZONE 'UTC', 'HH24:MI'), CASE WHEN ended_at IS NULL THEN 'open' ELSE coalesce(report->>'state', 'skipped') END
			FROM headroom_fleet.runs WHERE scheduled_at BETWEEN $1::timestamptz AND $2::timestamptz`, first, to) {
			if _, ours := r.jobs[row[0]]; ours {
				all[row[0]+" at "+row[1]] = row[2]
			}
		}
		return all
	}
	runs := read()
	for end := time.Now().Add(time.Minute); len(runs) < t.due && time.Now().Before(end); runs = read() {
		time.Sleep(200 * time.Millisecond) // daemons look every few seconds for a database that was down
	}
	t.by = map[string]int{}
	for at := first; !at.After(to); at = at.Add(time.Minute) {
		for job := range r.jobs {
			name := job + " at " + at.UTC().Format("15:04")
			if state, found := runs[name]; found {
				t.by[state]++
			} else {
				t.lost = append(t.lost, "no run of "+name)
			}
		}
	}
	return t
}
