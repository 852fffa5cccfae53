package pages

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/testing/viewtest"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// TestWhoSpentWhatComesBackNext: what was spent in the hour in which the window begins
// still counts, and is named.
func TestWhoSpentWhatComesBackNext(t *testing.T) {
	r := viewtest.New(t, &viewtest.Options{Prices: "upstreams: {youtube: {pools: {units: {quota: 34, headroom: 2}}}}"})
	r.Clock.Set(viewtest.Noon.Add(5 * time.Minute))
	for range 32 {
		_, err := r.Ledger.Reserve(t.Context(), quota.Call{Method: "videos.list", Job: "python-etl"})
		r.Must(err)
	}
	for _, minutes := range []time.Duration{1, 3} {
		r.Clock.Set(viewtest.Noon.Add(day + minutes*time.Minute))
		h := hoursOf(r, byJob)
		if lines := told(h.legend()); lines != "[python-etl caller 32 100%]" || h.total != 32 || len(h.groups[0].hours) != 25 || h.groups[0].hours[0] != 32 {
			t.Errorf("it shows %s of %d: %+v", lines, h.total, h.groups)
		}
	}
	r.Clock.Set(viewtest.Noon.Add(day + 7*time.Minute))
	if h := hoursOf(r, byJob); len(h.legend()) != 0 || h.total != 0 {
		t.Errorf("they have come back, and it shows %+v", h)
	}
}

// TestOnlyTheFirstHourIsDivided: of later hours all is known.
func TestOnlyTheFirstHourIsDivided(t *testing.T) {
	r := viewtest.New(t, nil)
	for i, job := range []string{"early", "late", "night"} {
		r.Clock.Set(viewtest.Noon.Add([]time.Duration{5 * time.Minute, 50 * time.Minute, 16 * time.Hour}[i]))
		_, err := r.Ledger.Reserve(t.Context(), quota.Call{Upstream: "youtube", Charges: quota.Units{"units": 10}, Job: job})
		r.Must(err)
	}
	r.Clock.Set(viewtest.Noon.Add(day + 30*time.Minute))
	h := hoursOf(r, byJob)
	if got := told(h.legend()); !strings.Contains(got, "night caller 10 50%") || !strings.Contains(got, "early caller 5 25%") || !strings.Contains(got, "late caller 5 25%") {
		t.Errorf("it shows %s", got)
	}
}

func hoursOf(r *viewtest.Rig, by grouping) hours {
	r.Helper()
	b := New(r.Sources, onlyRead(r.Clock))
	s := b.read(r.Context())
	u := s.Pool("youtube/units")
	return s.hours(u, verdict.Shown(u), by)
}

// TestSharesAddUp has callers, corrections and settlements over days: at any time the
// groups add up to what the window counts, no group is negative, and what is unnamed is 1%
// at most.
func TestSharesAddUp(t *testing.T) {
	rig := viewtest.New(t, &viewtest.Options{Prices: "upstreams: {youtube: {pools: {units: {quota: 1000, headroom: 0}}}}"})
	rapid.Check(t, func(rt *rapid.T) {
		clock := quota.NewSimClock(viewtest.Noon)
		ledger, err := quota.New(rig.Ledger.Book(), memstore.New(&memstore.Options{Clock: clock}), &quota.Options{Clock: clock})
		rig.Must(err)
		units := quota.Pool{Upstream: "youtube", Account: quota.DefaultAccount, Name: "units"}
		for range rapid.IntRange(1, 60).Draw(rt, "events") {
			clock.Advance(time.Duration(rapid.IntRange(0, 150).Draw(rt, "minutes")) * time.Minute)
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0:
				_, err := ledger.Admin().Adjust(t.Context(), units, rapid.Int64Range(1, 30).Draw(rt, "more"), "seen in the console")
				rig.Must(err)
			default:
				job := rapid.SampledFrom([]string{"a", "b", "c", ""}).Draw(rt, "job")
				v, err := ledger.Reserve(t.Context(), quota.Call{Charges: quota.Units{"units": rapid.Int64Range(1, 40).Draw(rt, "units")}, Upstream: "youtube", Job: job})
				if err == nil && rapid.Bool().Draw(rt, "settles") {
					_, err = ledger.Settle(t.Context(), v.Token(), quota.Units{"units": rapid.Int64Range(0, 50).Draw(rt, "cost")})
				}
				if err != nil && !strings.Contains(err.Error(), "left") && !strings.Contains(err.Error(), "refused") {
					rt.Logf("%v", err)
				}
			}
		}
		for _, by := range []grouping{byJob, byMethod} {
			s := &state{src: view.Sources{Ledger: ledger}}
			s.State = verdict.NewReader(&verdict.Options{Clock: clock}).Read(t.Context(), &s.src)
			rig.Must(s.readSpend(t.Context()))
			u := s.Pool("youtube/units")
			h := s.hours(u, verdict.Shown(u), by)
			sum := h.unnamed
			for _, g := range h.groups {
				var hourly int64
				for _, n := range g.hours {
					hourly += n
				}
				if sum += g.units; g.units <= 0 || hourly != g.units {
					rt.Errorf("%s has %d units, and %d by the hour", g.name, g.units, hourly)
				}
			}
			if sum != h.total || h.unnamed < 0 || h.unnamed*100 > h.total {
				rt.Errorf("%d of %d are named, %d unnamed", sum-h.unnamed, h.total, h.unnamed)
			}
			percent := 0
			for _, l := range h.legend() {
				var n int
				_, err := fmt.Sscanf(l.Share, "%d%%", &n)
				rig.Must(err)
				percent += n
			}
			if h.total > 0 && percent != 100 {
				rt.Errorf("the shares add up to %d%%: %v", percent, h.legend())
			}
		}
	})
}

// TestSpendOfEarlierVersions is known by the day only.
func TestSpendOfEarlierVersions(t *testing.T) {
	r := viewtest.New(t, nil)
	_, err := r.Ledger.Reserve(t.Context(), quota.Call{Method: "search.list", Job: "new"})
	r.Must(err)
	b := New(r.Sources, onlyRead(r.Clock))
	s := b.read(t.Context())
	u := s.Pool("youtube/units")
	if u.Allowances[0].Used == 0 {
		u = s.Pool("youtube/searches")
	}
	w := verdict.Shown(u)
	w.Used = 10
	for i := range s.spend {
		s.spend[i].Units = 4
	}
	s.spend = append(s.spend, quota.Spent{Pool: u.Pool, Day: "2026-11-20", Labels: quota.Labels{Job: "old"}, Units: 5})
	h := s.hours(u, w, byJob)
	if got := told(h.legend()); !strings.Contains(got, "old caller 5 50%") || !strings.Contains(got, "new caller 4 40%") || !strings.Contains(got, "not named  1 10%") {
		t.Errorf("it shows %s", got)
	}
}

func TestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole, weights := rapid.Int64Range(0, 1<<40).Draw(t, "whole"), rapid.SliceOfN(rapid.Int64Range(0, 1<<50), 1, 40).Draw(t, "weights")
		var sum, all int64
		for _, w := range weights {
			all += w
		}
		for i, p := range split(whole, weights) {
			exact := float64(whole) * (float64(weights[i]) / float64(max(all, 1)))
			if p < 0 || float64(p) < exact-1.001 || float64(p) > exact+1.001 {
				t.Errorf("%d of %v is %d, not %f", whole, weights, p, exact)
			}
			sum += p
		}
		if sum != whole && all > 0 {
			t.Errorf("%d is split into %d", whole, sum)
		}
	})
}

// told returns the lines of a legend without their colours.
func told(lines []legend) string {
	all := make([]string, len(lines))
	for i, l := range lines {
		all[i] = fmt.Sprintf("%s %s %s %s", l.Name, l.Kind, l.Units, l.Share)
	}
	return fmt.Sprint(all)
}

// onlyRead are the options of a board on which nobody acts.
func onlyRead(clock quota.Clock) *Options {
	return &Options{Clock: clock, Facts: verdict.NewReader(&verdict.Options{Clock: clock}), Operated: func() bool { return false }}
}
