package pages_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/quota"
)

// TestManyPools: for 36 pools, a page draws eight charts and folds up the healthy pools after the
// first twelve. It never folds up a pool in trouble.
func TestManyPools(t *testing.T) {
	var b strings.Builder
	b.WriteString("upstreams: {")
	for i := range 36 {
		fmt.Fprintf(&b, "api-%02d: {hosts: [a%d.example.com], pools: {requests: {quota: 100, windows: [{per: 24h}]}}, methods: {m%d: {route: GET /x, charge: {requests: 1}}}}, ", i, i, i)
	}
	r := newRig(t, b.String()+"}", nil)
	for i := range 36 {
		units := int64(1)
		if i < 14 {
			units = 90
		}
		_, err := r.Ledger.Reserve(t.Context(), quota.Call{Upstream: fmt.Sprintf("api-%02d", i), Charges: quota.Units{"requests": units}, Job: "etl"})
		r.Must(err)
	}
	source, text := r.page("/")
	if charts := strings.Count(source, "by the hour</title>"); charts != 2*8 {
		t.Errorf("%d charts are drawn", charts)
	}
	open, folded, _ := strings.Cut(source, `<details id="more-pools"><summary>23 more pools, available</summary>`)
	if cards, lines := strings.Count(open, `<article class="card pool"`), strings.Count(folded, `<details class="card pool line"`); cards != 14 || lines != 23 {
		t.Errorf("%d cards are open, and %d lines folded:\n%s", cards, lines, text)
	}
	if len(source) > 150_000 {
		t.Errorf("the page has %d bytes", len(source))
	}
	history, _ := r.page("/history?pool=api-35%2Frequests&range=30d&by=caller")
	for _, want := range []string{"<option selected>api-35/requests</option>", "<option>api-00/requests</option>", `name="range" value="30d"`, `name="by" value="caller"`, "<button>Show</button>"} {
		if !strings.Contains(history, want) {
			t.Errorf("the history does not have %s", want)
		}
	}
	if strings.Contains(history, "href=\"/history?by=caller&amp;pool=api-00") {
		t.Error("the history has a link for each pool")
	}
}

// TestDaysOfTheHistory: today has a label however narrow the picture is, and hours have no
// midnight.
func TestDaysOfTheHistory(t *testing.T) {
	r := newRig(t, "", nil)
	r.Run("trending")
	const path = "/history?pool=youtube%2Funits&range="
	for _, span := range []string{"7d", "30d", "1y"} {
		source, _ := r.page(path + span)
		if n := strings.Count(source, ">20 Nov</text>"); n != 2 {
			t.Errorf("%s: in the two pictures today has %d labels", span, n)
		}
		r.reads(path+span, "Days begin at midnight Pacific")
	}
	source, text := r.page(path + "24h")
	if strings.Contains(text, "Days begin") || strings.Count(source, `data-at="2026-11-20T20:00:00Z">20:00</text>`) != 2 {
		t.Errorf("of hours it shows %s", text)
	}
}
