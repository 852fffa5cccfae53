package setup

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// TestCheckWarnsOfAnOldPriceBook tries the days around the limit.
func TestCheckWarnsOfAnOldPriceBook(t *testing.T) {
	b, err := book.Parse("costs.yaml", []byte(`
revision: 1
upstreams:
  told: {source: "https://maps.example.com/pricing", verified: "2026-01-01", pools: {units: {quota: 10, windows: [{per: 1h}]}}}
  bare: {verified: "2026-06-01", pools: {units: {quota: 10, windows: [{per: 1h}]}}}
  never: {pools: {units: {quota: 10, windows: [{per: 1h}]}}}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	verified := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	told := finding{"price book", "warning", "told was verified on 2026-01-01, 181 days ago, and may be out of date\nCompare it with https://maps.example.com/pricing"}
	for _, test := range []struct {
		name string
		days int
		want []finding
	}{
		{"is silent on the day", 0, nil},
		{"is silent after 180 days", 180, nil},
		{"warns after 181 days", 181, []finding{told}},
		{"is silent if the clock is behind", -400, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := &session.Session{Clock: quota.NewSimClock(verified.AddDate(0, 0, test.days))}
			f := &findings{}
			staleUpstreams(a, f, &settings.Settings{Book: b})
			if diff := cmp.Diff(test.want, f.all); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
