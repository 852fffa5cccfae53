package pages

import (
	"net/http"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/fleet"
)

// fleetPage is the data of the template fleet.html.
type fleetPage struct {
	Page
	Notes  []note
	Counts string
	Daemon *table // nil without daemons
	Work   *table // nil without work
	All    bool   // whether it shows also the work that waits until its job is due
	// Ledgers are sentences about the ledgers that the fleet charges.
	Ledgers []string
	Behind  string // bytes that the slowest replica of the database lacks, or empty
}

// Fleet serves the page of the daemons and their work: /fleet, or /fleet?all=yes with the work
// that waits until its job is due.
func (b *Board) Fleet(w http.ResponseWriter, r *http.Request) {
	s := b.blank()
	if s.src.Fleet == nil {
		b.Problem(w, r, http.StatusNotFound, "There is no fleet: the catalog of this server is a file. A fleet needs the setting database")
		return
	}
	p := &fleetPage{Page: s.page("Fleet", "/fleet", true), All: r.URL.Query().Get("all") == "yes"}
	is, err := ask(r.Context(), b, s.src.Fleet.Status)
	if err != nil {
		if r.Context().Err() == nil {
			b.o.Log.Warn("show the fleet", "error", err)
		}
		p.Notes = verdict.OfFleet(nil, err, b.o.Facts.Typed)
		b.show(w, r, http.StatusOK, "fleet", p)
		return
	}
	if p.Notes, p.Counts = verdict.OfFleet(&is, nil, b.o.Facts.Typed), fleetCounts(&is); p.Notes == nil {
		p.Notes = []note{{Level: good, Says: say("A daemon leads, no job is paused, and the clocks agree")}}
	}
	if len(is.Daemons) > 0 {
		p.Daemon = s.table("The daemons", true, view.DaemonTable(&is))
	}
	if t := view.UnitTable(&is, p.All); len(t.Rows) > 0 {
		p.Work = s.table("The work of the daemons", true, t)
	}
	for _, l := range is.Ledgers {
		p.Ledgers = append(p.Ledgers, view.ChargedTo(l))
	}
	if is.Behind != nil {
		p.Behind = view.Number(*is.Behind)
	}
	b.show(w, r, http.StatusOK, "fleet", p)
}

// fleetCounts says how many daemons there are, and how much work in each state.
func fleetCounts(is *fleet.Status) string {
	alive, _, _ := is.Alive()
	by := map[fleet.UnitState]int64{}
	for i := range is.Units {
		by[is.Units[i].State]++
	}
	return count(int64(alive), "daemon") + ". Units of work: " + view.Number(by[fleet.UnitRunning]) + " running, " +
		view.Number(by[fleet.UnitQueued]) + " queued, " + view.Number(by[fleet.UnitDeferred]) + " deferred, " + view.Number(by[fleet.UnitIdle]) + " idle"
}
