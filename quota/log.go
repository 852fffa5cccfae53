package quota

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/headroom-quota/headroom/internal/stretch"
)

// LogObserver returns an observer that writes to a log; nil is slog.Default(). Grants
// and settlements are debugging, refusals are information, and what somebody should
// look at is a warning: outages and calls admitted in one, blocks, calls that no price
// or limit allows. Refusals that repeat, of one pool and method, are debugging until the
// first one's retry time, at least for a minute and at most for 15; the next line says how
// many there were. For metrics beside it, use an [ObserverFunc] that calls both.
func LogObserver(log *slog.Logger) Observer {
	return &logObserver{log: cmp.Or(log, slog.Default())}
}

type logObserver struct {
	log     *slog.Logger
	refused stretch.Set[refusedLine]
}

// refusedLine is what the lines of a stretch of refusals have in common.
type refusedLine struct {
	kind                       EventKind
	pool                       Pool
	window                     string
	method, job, region, class string
}

// sayings are how events read in a log.
var sayings = map[EventKind]struct {
	level slog.Level
	text  string
}{
	EventGranted:    {slog.LevelDebug, "granted"},
	EventDrawn:      {slog.LevelDebug, "drawn from a hold"},
	EventSettled:    {slog.LevelDebug, "settled"},
	EventRefused:    {slog.LevelInfo, "refused by the ledger"},
	EventBlocked:    {slog.LevelInfo, "refused: the pool is blocked"},
	EventObserved:   {slog.LevelInfo, "let through, though it would have been refused"},
	EventReplayed:   {slog.LevelInfo, "replayed from the journal"},
	EventAdjusted:   {slog.LevelInfo, "adjusted"},
	EventOpened:     {slog.LevelInfo, "pool opened"},
	EventAdmitted:   {slog.LevelWarn, "admitted in an outage of the ledger"},
	EventOutage:     {slog.LevelWarn, "refused: outage of the ledger"},
	EventShut:       {slog.LevelWarn, "pool blocked"},
	EventImpossible: {slog.LevelWarn, "impossible"},
	EventUnpriced:   {slog.LevelWarn, "no price"},
	EventFailed:     {slog.LevelWarn, "failed"},
	EventOthers:     {slog.LevelInfo, "the upstream has counted units of others"},
	EventLimit:      {slog.LevelWarn, "the upstream has another limit than the price book"},
	EventUnmetered:  {slog.LevelDebug, "not metered: no upstream lists the host"},
	EventSpilled:    {slog.LevelDebug, "spilled to another upstream"},
	EventRebased:    {slog.LevelWarn, "the ledger's clock was set back, or has returned: what was used counts from now"},
}

// Observe implements [Observer].
func (o *logObserver) Observe(ctx context.Context, e Event) {
	saying := sayings[e.Kind]
	if !o.log.Enabled(ctx, saying.level) {
		return
	}
	var before int64
	if e.Kind == EventRefused || e.Kind == EventBlocked {
		line, first := refusedLine{e.Kind, e.Pool, e.Verdict.Window, e.Call.Method, e.Call.Job, e.Call.Region, e.Call.Class}, false
		if before, first = o.refused.Begins(line, e.Verdict.At, e.Verdict.RetryAt); !first {
			saying.level = slog.LevelDebug
		}
	}
	attrs := e.attrs()
	add(&attrs, "refused_before", before)
	o.log.LogAttrs(ctx, saying.level, saying.text, attrs...)
}

// LogValue implements [slog.LogValuer]: a log gets what [LogObserver] writes, and no
// secret.
func (e Event) LogValue() slog.Value {
	return slog.GroupValue(append(attrs{slog.String("kind", string(e.Kind))}, e.attrs()...)...)
}

// attrs returns what an event says, for a log.
func (e *Event) attrs() (a attrs) {
	if e.Pool != (Pool{}) {
		add(&a, "pool", e.Pool.String())
	}
	add(&a, "host", e.Host)
	add(&a, "method", e.Call.Method)
	add(&a, "job", e.Call.Job)
	add(&a, "region", e.Call.Region)
	add(&a, "class", e.Call.Class)
	add(&a, "id", e.Verdict.ID)
	add(&a, "id", e.Token.ID)
	for _, units := range []int64{e.Verdict.Units, e.Units} {
		if units != 0 {
			a = append(a, e.Pool.Logged("units", units))
		}
	}
	if v := &e.Verdict; v.Window != "" {
		a = append(a, slog.String("window", v.Window), e.Pool.Logged("used", v.Used), e.Pool.Logged("limit", v.Limit))
	}
	of := e.Pool
	if of == (Pool{}) {
		of.Upstream = e.Token.Upstream
	}
	s := &e.Settlement
	for _, one := range []struct {
		name  string
		units int64
	}{{"back", s.Back}, {"left", s.Left}, {"charged", s.Charged}} {
		if one.units != 0 {
			a = append(a, of.Logged(one.name, one.units))
		}
	}
	add(&a, "retry_at", e.Verdict.RetryAt)
	add(&a, "until", e.Until)
	add(&a, "blocked_by", string(e.Verdict.BlockedBy))
	add(&a, "blocked_by", string(e.BlockedBy))
	add(&a, "reason", e.Verdict.Reason)
	add(&a, "reason", e.Reason)
	if e.Err != nil {
		add(&a, "err", e.Err.Error())
	}
	return a
}

// attrs leaves out what an event does not have.
type attrs []slog.Attr

func add[V comparable](a *attrs, key string, value V) {
	if value != *new(V) {
		*a = append(*a, slog.Any(key, value))
	}
}
