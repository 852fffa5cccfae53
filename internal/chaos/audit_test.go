//go:build linux

package chaos

import (
	"fmt"
	"strings"
)

// audit makes the database write down how cursors move, apart from the program: each saved
// page and each end of a pass is a row.
func (r *rig) audit() {
	r.t.Helper()
	r.exec(`CREATE SCHEMA audit`)
	r.exec(`CREATE TABLE audit.moves (id bigserial, at timestamptz DEFAULT clock_timestamp(), job text, work text,
		was_pass bigint, was_page bigint, is_pass bigint, is_page bigint, completed boolean)`)
	r.exec(`CREATE FUNCTION audit.moved() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF TG_OP = 'INSERT' THEN
			IF NEW.pass > 0 OR NEW.page > 0 THEN
				INSERT INTO audit.moves (job, work, was_pass, was_page, is_pass, is_page, completed)
				VALUES (NEW.job, NEW.work, 0, 0, NEW.pass, NEW.page, NEW.completed_at > 0);
			END IF;
		ELSIF (NEW.pass, NEW.page) <> (OLD.pass, OLD.page) THEN
			INSERT INTO audit.moves (job, work, was_pass, was_page, is_pass, is_page, completed)
			VALUES (NEW.job, NEW.work, OLD.pass, OLD.page, NEW.pass, NEW.page, NEW.completed_at <> OLD.completed_at);
		END IF;
		RETURN NULL;
	END $$`)
	r.exec(`CREATE TRIGGER moved AFTER INSERT OR UPDATE ON headroom_catalog.cursors FOR EACH ROW EXECUTE FUNCTION audit.moved()`)
}

// facts are what the database shows after a run of the rig.
type facts struct {
	ticks    int // rows
	twice    []string
	pages    int // that were saved
	passes   int // that ended
	restarts int // passes that were begun again
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
	f.ticks = r.number("SELECT count(*) FROM headroom_fleet.runs WHERE scheduled_at IS NOT NULL")
	for _, row := range r.rows(`SELECT job, scheduled_at, count(*) FROM headroom_catalog.runs WHERE scheduled_at > 0 GROUP BY 1, 2 HAVING count(*) > 1
		UNION ALL SELECT job, extract(epoch FROM scheduled_at)::bigint, count(*) FROM headroom_fleet.runs WHERE scheduled_at IS NOT NULL GROUP BY 1, 2 HAVING count(*) > 1`) {
		f.twice = append(f.twice, strings.Join(row, " "))
	}
	f.open = r.number("SELECT count(*) FROM headroom_fleet.runs WHERE ended_at IS NULL AND state IS NOT NULL")
	f.broken = r.number("SELECT count(*) FROM headroom_fleet.river_job WHERE state IN ('cancelled', 'discarded')")
	f.rescued = r.number("SELECT count(*) FROM headroom_fleet.works WHERE taken_from <> ''")

	// Each page is one move: the next page, or the end of the pass with it. All else was
	// written twice, or is missing.
	type place struct{ pass, page string }
	at := map[string]place{}
	for _, row := range r.rows("SELECT job, work, was_pass, was_page, is_pass, is_page, completed FROM audit.moves ORDER BY id") {
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
		case nextPass == pass+1 && nextPage == 0 && row[6] == "true":
			f.pages, f.passes = f.pages+1, f.passes+1
			if want := r.pages[row[0]]; want > 0 && page+1 != want {
				f.doubled = append(f.doubled, fmt.Sprintf("%s: pass %d has %d pages, not %d", name, pass, page+1, want))
			}
		case nextPage == 0:
			f.restarts++
		default:
			f.doubled = append(f.doubled, fmt.Sprintf("%s: from %v to %v", name, was, is))
		}
	}
	// The history of runs has each page once.
	if n := r.number("SELECT coalesce(sum(pages), 0) FROM headroom_catalog.run_work"); n != f.pages {
		f.lost = append(f.lost, fmt.Sprintf("the runs say %d pages, but %d were saved", n, f.pages))
	}
	for _, row := range r.rows(`SELECT c.region, c.category, count(*), max(e.rank) FROM headroom_catalog.charts c JOIN headroom_catalog.chart_entries e ON e.chart = c.id
		WHERE c.complete GROUP BY 1, 2 HAVING count(*) < $1::integer`, complete) {
		f.lost = append(f.lost, "a complete chart misses entries: "+strings.Join(row, " "))
	}
	return f
}
