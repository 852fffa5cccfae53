package month

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/meter"
)

// monthSeed replays what a program wants, and how long its calls are under way.
const monthSeed = "HEADROOM_TEST_SEED"

var pacific = func() *time.Location {
	zone, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		panic(err)
	}
	return zone
}()

// A program that wants more than there is, is started again at any moment, and has a
// search whose pages never end: in a month with a day of 25 hours, or of 23, the
// upstream refuses none of its calls, and what it gets is hardly less than an exact
// ledger would grant. Wherever the ledger is kept, the same is granted to the unit.
//
// With HEADROOM_SOAK=1 it is whole months, not two days of each, and SQLite beside
// memory, Redis and PostgreSQL. README.md of package quota shows what that prints.
func TestMonth(t *testing.T) {
	seed := rand.Uint64()
	if text := os.Getenv(monthSeed); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("again: %s=%d", monthSeed, seed)
	days, before, homes := 2, 1, []home{inMemory, inRedis, inPostgreSQL}
	soak := os.Getenv("HEADROOM_SOAK") == "1"
	if soak {
		days, before, homes = 30, 14, []home{inMemory, inSQLite, inRedis, inPostgreSQL}
	}
	long, short := time.Date(2026, time.November, 1, 0, 0, 0, 0, pacific), time.Date(2027, time.March, 14, 0, 0, 0, 0, pacific)
	periods := []struct {
		name  string
		from  time.Time
		calls int // in each region and run; the limit is 25
	}{
		// A program may spend its whole quota as soon as the day of 25 hours begins. A
		// window of 24 hours alone would let it start again in the day's last hour.
		{"from the day of 25 hours, six times what there is", long, 160},
		{"over the day of 23 hours", short.AddDate(0, 0, -before), 30},
		{"over the day of 25 hours", long.AddDate(0, 0, -before), 30},
	}
	if !soak {
		periods = periods[:2]
	}
	for i, period := range periods {
		if i > 0 && !soak {
			homes = homes[1:2] // the first period has shown that all agree
		}
		t.Run(period.name, func(t *testing.T) {
			m := &month{T: t, demand: newDemand(seed, period.from, days, period.calls), skew: time.Duration(seed%61)*time.Second - 30*time.Second}
			m.best = m.meet("oracle", byOracle)

			bare := m.meet("no ledger", byNobody)
			if least := int64(50 * days); bare.refused() < least {
				t.Errorf("without a ledger %d calls are refused, want %d at least: what is wanted is not enough to show anything", bare.refused(), least)
			}
			if soak {
				m.others(period.from.Equal(long))
			}
			var first *outcome
			for _, at := range homes {
				ours := m.meet("ring + calendar, "+at.name, byLedger("", at))
				m.check(ours)
				if first == nil {
					first = ours
				} else if !reflect.DeepEqual(ours.counts, first.counts) {
					t.Errorf("%s: %+v, but %s: %+v", at.name, ours.counts, homes[0].name, first.counts)
				}
			}
			if i == 0 || soak {
				m.check(m.meet("ring + calendar, "+inBlocks.name, byLedger(leasedPools, inBlocks)))
			}
			t.Logf("from %s, %d days\n%s", m.from.Format(time.DateOnly), m.days, strings.Join(m.rows, "\n"))
		})
	}
}

// check is what the ledger promises of a month.
func (m *month) check(o *outcome) {
	m.Helper()
	if n := o.refused(); n != 0 {
		m.Errorf("the upstream refused %d calls", n)
	}
	if o.worst > 9500 {
		m.Errorf("%d units in 24 hours, over the limit of 9500", o.worst)
	}
	if o.runaway > 20 || o.guarded == 0 {
		m.Errorf("a search that never ends made %d calls before it was stopped, want at most 20; its guard stopped %d", o.runaway, o.guarded)
	}
	if got, best := o.units(youtubesim.Default), m.best.units(youtubesim.Default); float64(got) < 0.97*float64(best) {
		m.Errorf("%d units, less than 0.97 of %d, which an exact ledger grants", got, best)
	}
	if o.restarts == 0 {
		m.Error("the program was never started again")
	}
}

// others are ledgers with less, and with an exact log.
func (m *month) others(greedyOnLongDay bool) {
	const day = "{per: day, zone: America/Los_Angeles}"
	m.meet("calendar alone", byLedger(onlyWindows(day), inMemory))
	alone := m.meet("24h ring alone", byLedger(onlyWindows("{per: 24h}"), inMemory))
	if greedyOnLongDay && alone.refused() == 0 {
		m.Error("24 hours alone were enough for a day of 25")
	}
	m.meet("exact log + calendar", byLedger(onlyWindows("{per: 24h, algorithm: log}, "+day), inMemory))
}

// metering is what stands between a program and the wire. It returns how a program
// that starts puts it there.
type metering func(t *testing.T, clock *quota.SimClock, w *wire) (open func() http.RoundTripper)

func byNobody(_ *testing.T, _ *quota.SimClock, w *wire) func() http.RoundTripper {
	return func() http.RoundTripper { return w }
}

func byOracle(_ *testing.T, clock *quota.SimClock, w *wire) func() http.RoundTripper {
	o := &oracle{clock, w, map[string]instants{}}
	return func() http.RoundTripper { return o }
}

// byLedger is the transport, with a ledger that spends by a book; "" is the built-in
// one.
func byLedger(text string, at home) metering {
	return func(t *testing.T, clock *quota.SimClock, w *wire) func() http.RoundTripper {
		open := at.open(t, clock)
		prices, err := book.Parse("costs.yaml", []byte(cmp.Or(text, "extends: builtin")), &book.Options{Builtins: headroom.ReadBuiltin})
		if err != nil {
			t.Fatal(err)
		}
		return func() http.RoundTripper {
			ledger, err := quota.New(prices, open(), &quota.Options{Clock: clock})
			if err != nil {
				t.Fatal(err)
			}
			transport, err := meter.New(ledger, &meter.Options{Base: w, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			return transport
		}
	}
}

// onlyWindows is the built-in book with other windows beside its guards.
func onlyWindows(windows string) string {
	return fmt.Sprintf(`
extends: builtin
upstreams:
  youtube:
    pools:
      units: {windows: [%[1]s, {per: 10m, quota: 2000, headroom: 0}]}
      searches: {windows: [%[1]s, {per: 10m, quota: 20, headroom: 0}]}
`, windows)
}

// leasedPools is the built-in book with leases.
const leasedPools = `
extends: builtin
upstreams:
  youtube:
    pools:
      units: {lease: {life: 2s, most: 5%}}
      searches: {lease: {life: 2s, most: 5%}}
`

// month is a demand that is met in several ways, and the table of what came of it.
type month struct {
	*testing.T
	*demand
	skew time.Duration // of the upstream's clock
	best *outcome
	rows []string
}

// outcome is what the upstream counted of a demand.
type outcome struct {
	counts   youtubesim.Counts
	worst    int // units in any 24 hours
	runaway  int // calls of a search that never ends, at most
	guarded  int // such searches that their guard stopped
	restarts int
}

func (o *outcome) refused() int64 { return o.counts.Total().Refused }
func (o *outcome) units(p youtubesim.Pool) int64 {
	return o.counts.Where(youtubesim.Count{Pool: p}).Total().Units
}

// meet makes the calls of the demand, as far as they are granted.
func (m *month) meet(name string, by metering) *outcome {
	m.Helper()
	clock := quota.NewSimClock(m.from)
	w := newWire(clock, m.skew)
	open := by(m.T, clock, w)
	client := &http.Client{Transport: open()}
	o := &outcome{}
	for i, run := range m.runs {
		if due := m.from.Add(time.Duration(i) * betweenRuns); clock.Now().Before(due) {
			clock.Set(due)
		}
		for _, work := range run {
			if work.restart {
				client.Transport = open()
				o.restarts++
			}
			w.flights = rand.New(rand.NewPCG(work.flights, 0))
			made, err := work.do(m.T, client)
			if work.job == runaway {
				o.runaway = max(o.runaway, made)
				var refused *quota.RefusedError
				if errors.As(err, &refused) && refused.Window == "10m" {
					o.guarded++
				}
			}
		}
	}
	o.counts, o.worst = w.sim.Counts(), w.worst
	m.row(name, o)
	return o
}

// row adds to the table, which is Markdown.
func (m *month) row(name string, o *outcome) {
	if m.rows == nil {
		m.rows = []string{
			"| | calls refused by the upstream | most units in 24 hours | units per day | ratio to the oracle | searches per day | most calls of an endless search |",
			"|---|---|---|---|---|---|---|",
		}
	}
	best := cmp.Or(m.best, o) // the oracle's is the first
	days, units := float64(m.days), float64(o.units(youtubesim.Default))
	m.rows = append(m.rows, fmt.Sprintf("| %s | %d | %d | %.0f | %.3f | %.1f | %d |",
		name, o.refused(), o.worst, units/days, units/float64(best.units(youtubesim.Default)),
		float64(o.units(youtubesim.SearchList))/days, o.runaway))
}

// do makes the calls of a work until one fails, and says how many did not.
func (w *work) do(t *testing.T, client *http.Client) (made int, err error) {
	t.Helper()
	ctx := meter.WithJob(meter.WithClass(context.WithValue(t.Context(), workKey{}, w), w.class), w.job)
	if w.region != "" {
		ctx = meter.WithRegion(ctx, w.region)
	}
	page := ""
	for w.calls == 0 || made < w.calls {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://youtube.googleapis.com/youtube/v3/"+w.path+page, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Goog-Api-Key", "AIzaKeyOfTheMonth")
		resp, err := client.Do(r)
		if errors.Is(err, quota.ErrRefused) {
			return made, err
		}
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		switch resp.StatusCode {
		case http.StatusOK:
			made++
		case http.StatusForbidden, http.StatusTooManyRequests:
			return made, nil
		default:
			t.Fatalf("%s: %s\n%s", w.path, resp.Status, body)
		}
		if w.calls == 0 {
			var l struct{ NextPageToken string }
			if err := json.Unmarshal(body, &l); err != nil || l.NextPageToken == "" {
				t.Fatalf("%s ends: %s", w.path, body)
			}
			page = "&pageToken=" + l.NextPageToken
		}
	}
	return made, nil
}
