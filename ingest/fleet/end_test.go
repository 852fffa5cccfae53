package fleet_test

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
)

// TestTheEndIsLostOnce breaks the transaction off that records the end of work, as a kill at
// that moment does. The pages are saved, so none may be fetched again, and the run reports
// them.
func TestTheEndIsLostOnce(t *testing.T) {
	t.Parallel()
	const pages = 3
	for name, c := range map[string]struct {
		uploads bool
		why     ingest.Occasion
		want    catalog.State
	}{
		"by hand":   {want: catalog.Done},
		"scheduled": {want: catalog.Done, why: ingest.Occasion{Scheduled: time.Now().Add(-time.Second).Truncate(time.Second)}},
		"more":      {want: catalog.Deferred, uploads: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 10_000, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: []string{"US"}, Pages: pages}})
			r.sim.Inject(youtubesim.Fault{Do: youtubesim.Endless})
			cat, job, calls := r.catalog(), r.job("charts"), pages
			if c.uploads { // they go on in the next run
				_, err := r.fleet(cat, quick).Once(t.Context(), job, ingest.Occasion{})
				r.must(err)
				var channel string
				r.must(cat.Pool().QueryRow(t.Context(), "SELECT channel_id FROM headroom_catalog.videos LIMIT 1").Scan(&channel))
				r.config.Jobs["uploads"] = ingest.Job{Kind: ingest.Uploads, Cron: "0 0 1 1 *", Channels: []string{channel}, Pages: pages}
				for _, fault := range r.config.Prepare() {
					t.Fatal(fault)
				}
				job, calls = r.job("uploads"), calls+1+pages // one asks for the channel
			}
			_, err := cat.Pool().Exec(t.Context(), `
CREATE SEQUENCE headroom_fleet.ends;
CREATE FUNCTION headroom_fleet.lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF nextval('headroom_fleet.ends') = 1 THEN RAISE 'lost'; END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER lose BEFORE UPDATE ON headroom_fleet.units FOR EACH ROW
	WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL) EXECUTE FUNCTION headroom_fleet.lose();`)
			r.must(err)
			rep, err := r.fleet(cat, quick).Once(t.Context(), job, c.why)
			r.must(err)
			if n := r.number(cat, "SELECT last_value FROM headroom_fleet.ends"); n != 2 {
				t.Fatalf("the end was recorded %d times, want 2", n)
			}
			if len(rep.Work) != 1 || rep.Work[0].Pages != pages || rep.Work[0].State != c.want {
				t.Errorf("reported %+v, want %d pages and %s", rep.Work, pages, c.want)
			}
			if n := r.number(cat, "SELECT coalesce(sum(pages), 0) FROM headroom_catalog.run_work w JOIN headroom_catalog.runs r ON r.id = w.run WHERE job = '"+job.Name+"' AND w.state = '"+string(c.want)+"'"); n != pages {
				t.Errorf("the history has %d pages, want %d", n, pages)
			}
			if n := int(r.sim.Counts().Total().Calls); n != calls {
				t.Errorf("made %d calls, want %d", n, calls)
			}
		})
	}
}
