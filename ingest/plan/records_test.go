package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/plan"
)

func TestRecorded(t *testing.T) {
	type runs []catalog.WorkRecord // the latest first
	done := func(pages int) catalog.WorkRecord {
		return catalog.WorkRecord{Work: "US", Pages: pages, State: catalog.Done}
	}
	deferred := catalog.WorkRecord{Work: "US", Pages: 3, State: catalog.Deferred}
	failed := catalog.WorkRecord{Work: "US", State: catalog.Failed}
	for name, tt := range map[string]struct {
		runs runs
		want plan.Record
	}{
		"nothing is known":                    {},
		"the median counts":                   {runs{done(4), done(9), done(1), done(4), done(5)}, plan.Record{Pages: 4}},
		"a pass may take several runs":        {runs{done(1), deferred}, plan.Record{Pages: 4}},
		"what found nothing new says nothing": {runs{done(0), done(2)}, plan.Record{Pages: 2}},
		"of many the latest count": {runs{
			done(2), done(2), done(2), done(2), done(2), done(2), done(2), done(2), done(2), done(2), done(9), done(9), done(9), done(9), done(9),
			done(9), done(9), done(9), done(9), done(9), done(9), done(9),
		}, plan.Record{Pages: 2}},
		"it fails each time":       {runs{failed, failed, failed, done(4)}, plan.Record{Pages: 4, Failing: true}},
		"it never went well":       {runs{failed, failed, failed}, plan.Record{Failing: true}},
		"it went well again":       {runs{done(4), failed, failed, failed}, plan.Record{Pages: 4}},
		"it has failed once":       {runs{failed, done(4)}, plan.Record{Pages: 4}},
		"a deferral is no success": {runs{failed, deferred, failed, failed}, plan.Record{Failing: true}},
	} {
		t.Run(name, func(t *testing.T) {
			var all []catalog.RunRecord
			for _, w := range tt.runs {
				all = append(all, catalog.RunRecord{Job: "charts", Work: []catalog.WorkRecord{w}})
			}
			if diff := cmp.Diff(tt.want, plan.ReadRecords(all)[plan.Work{Job: "charts", Work: "US"}]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
