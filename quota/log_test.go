package quota_test

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// logTo is a log without times.
func logTo(b *strings.Builder, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "id" && strings.Contains(a.Value.String(), "-") {
			return slog.Attr{}
		}
		return a
	}}))
}

func TestLogObserver(t *testing.T) {
	pool := quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}
	run := func(level slog.Level) []string {
		var b strings.Builder
		clock := quota.NewSimClock(noon)
		l, err := quota.New(mustParse(t, testBook), memstore.New(&memstore.Options{Clock: clock}), &quota.Options{
			Clock: clock, Observer: quota.LogObserver(logTo(&b, level)),
		})
		if err != nil {
			t.Fatal(err)
		}
		r := must(t, l, quota.Call{Upstream: "youtube", Method: "videos.list", Job: "trending", Region: "DE", ID: "one"})
		r.Release(t.Context())
		l.Reserve(t.Context(), quota.Call{Upstream: "youtube", Method: "video.list"})
		must(t, l, units(60))
		l.Reserve(t.Context(), units(1))
		l.BlockFor(t.Context(), pool, time.Minute, "quotaExceeded")
		l.Admin().Unblock(t.Context(), pool)
		l.Admin().Adjust(t.Context(), pool, 3, "by hand")
		return strings.Split(strings.TrimSpace(b.String()), "\n")
	}
	warnings := []string{
		`level=WARN msg="no price" method=video.list err="youtube has no price for \"video.list\"; did you mean \"videos.list\"?"`,
		`level=WARN msg="pool blocked" pool=youtube/units until=2026-11-20T20:01:00.000Z blocked_by=upstream reason=quotaExceeded`,
	}
	if diff := cmp.Diff(warnings, run(slog.LevelWarn)); diff != "" {
		t.Error(diff)
	}
	all := []string{
		`level=DEBUG msg=granted pool=youtube/units method=videos.list job=trending region=DE id=one units=1 window=10m used=1 limit=60`,
		`level=DEBUG msg=settled id=one back=1`,
		warnings[0],
		`level=DEBUG msg=granted pool=youtube/units units=60 window=10m used=60 limit=60`,
		`level=INFO msg="refused by the ledger" pool=youtube/units units=1 window=10m used=60 limit=60 retry_at=2026-11-20T20:10:01.000Z`,
		warnings[1],
		`level=INFO msg="pool opened" pool=youtube/units`,
		`level=INFO msg=adjusted pool=youtube/units units=3 reason="by hand"`,
	}
	if diff := cmp.Diff(all, run(slog.LevelDebug)); diff != "" {
		t.Error(diff)
	}
}

// An outage is seen in the log: what was refused, and why.
// The units of a budget are logged as money.
func TestLogOfABudget(t *testing.T) {
	var b strings.Builder
	pool, verdict := quota.Pool{Upstream: "budgets", Account: "default", Name: "team"}, quota.Verdict{Window: "month UTC", Units: 20_000, Used: 19_990_000, Limit: 20_000_000}
	quota.LogObserver(logTo(&b, slog.LevelInfo)).Observe(t.Context(), quota.Event{Kind: quota.EventRefused, Pool: pool, Verdict: verdict})
	if want := `pool=budgets/team units="0.02 USD" window="month UTC" used="19.99 USD" limit="20.00 USD"`; !strings.Contains(b.String(), want) {
		t.Errorf("%s does not have %s", b.String(), want)
	}
}

func TestLogOfAnOutage(t *testing.T) {
	var b strings.Builder
	l, err := quota.New(mustParse(t, testBook), failing{}, &quota.Options{Observer: quota.LogObserver(logTo(&b, slog.LevelInfo))})
	if err != nil {
		t.Fatal(err)
	}
	l.Reserve(t.Context(), quota.Call{Upstream: "youtube", Method: "videos.list"})
	want := `level=WARN msg="refused: outage of the ledger" method=videos.list err="reserve youtube/units: ledger outage, and there is no journal to record the call in: connection refused"` + "\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

// Every kind of event has a saying of its own.
func TestEveryEventIsLogged(t *testing.T) {
	source, err := os.ReadFile("observer.go")
	if err != nil {
		t.Fatal(err)
	}
	said := make(map[string]quota.EventKind)
	for line := range strings.Lines(string(source)) {
		_, kind, ok := strings.Cut(line, `EventKind = "`)
		if !ok {
			continue
		}
		kind, _, _ = strings.Cut(kind, `"`)
		var b strings.Builder
		quota.LogObserver(logTo(&b, slog.LevelDebug)).Observe(t.Context(), quota.Event{Kind: quota.EventKind(kind)})
		msg := strings.TrimSpace(b.String())
		if other, twice := said[msg]; twice || strings.HasSuffix(msg, `msg=""`) {
			t.Errorf("%s is logged as %s, as is %q", kind, msg, other)
		}
		said[msg] = quota.EventKind(kind)
	}
	if len(said) < 15 {
		t.Errorf("found %d kinds of events", len(said))
	}
	quota.LogObserver(nil).Observe(t.Context(), quota.Event{Kind: quota.EventGranted}) // to the default log
}

// The host of a request that no upstream lists is in the log.
func TestLogOfAHost(t *testing.T) {
	var b strings.Builder
	e := quota.Event{Kind: quota.EventUnmetered, Host: "api.example.com"}
	quota.LogObserver(logTo(&b, slog.LevelDebug)).Observe(t.Context(), e)
	logTo(&b, slog.LevelDebug).Info("mine", "event", e)
	want := `level=DEBUG msg="not metered: no upstream lists the host" host=api.example.com
level=INFO msg=mine event.kind=unmetered event.host=api.example.com
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}
