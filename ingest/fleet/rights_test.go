package fleet_test

import (
	"net/url"
	"testing"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
)

// TestRights gives an ordinary user the rights that are missing, and nothing else. Then it makes
// a run, which needs River's tables and their sequences.
func TestRights(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, oneChart())
	owner := r.catalog()
	pgtest.Role(t, "fleet_user")
	other, err := url.Parse(r.url)
	r.must(err)
	other.User = url.User("fleet_user")
	kinds := map[string]bool{}
	for missing := []string{""}; len(missing) > 0; {
		missing, err = pgcatalog.Missing(t.Context(), other.String(), pgcatalog.Schema, fleet.Schema)
		r.must(err)
		for _, grant := range missing {
			kinds[grant] = true
			_, err := owner.Pool().Exec(t.Context(), grant)
			r.must(err)
		}
	}
	for _, want := range []string{
		"GRANT USAGE ON SCHEMA headroom_fleet TO fleet_user;", "GRANT USAGE ON SEQUENCE headroom_fleet.river_job_id_seq TO fleet_user;",
		"GRANT SELECT ON headroom_fleet.river_migration TO fleet_user;", "GRANT SELECT, INSERT, UPDATE, DELETE ON headroom_fleet.river_job TO fleet_user;",
	} {
		if !kinds[want] {
			t.Errorf("there was no %q", want)
		}
	}
	r.url = other.String()
	rep, err := r.fleet(r.catalog(), quick).Once(t.Context(), r.job("charts"), ingest.Occasion{})
	r.must(err)
	if rep.State != "done" {
		t.Errorf("%s: %v", rep.State, states(rep))
	}
	_, err = owner.Pool().Exec(t.Context(), "DROP OWNED BY fleet_user")
	r.must(err)
}
