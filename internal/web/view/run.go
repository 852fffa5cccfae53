package view

import "github.com/headroom-quota/headroom/ingest/catalog"

// Runs shows history: none is an empty list, and so is the work of a run that had none.
func Runs(all []catalog.RunRecord) []catalog.RunRecord {
	if all == nil {
		all = []catalog.RunRecord{}
	}
	for i := range all {
		if all[i].Work == nil {
			all[i].Work = []catalog.WorkRecord{}
		}
	}
	return all
}
