package view

import (
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

// Sources are what there is to be shown of.
type Sources struct {
	Ledger  *quota.Ledger
	Catalog *catalog.Catalog
	Runner  *ingest.Runner // says how fresh regions are, and when deferred work goes on; it never runs
	Jobs    []*ingest.Job
}
