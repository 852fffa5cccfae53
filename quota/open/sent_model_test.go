package open_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/leasestore"
)

// TestSentModel has an upstream of its own, which counts what is sent, when it is sent. It
// does not ask what was charged. Several processes share one ledger: some take leased blocks, some hold, and
// some vanish with what they have. Price books, limits at run time, reports of answers,
// blocks and the store's clock change meanwhile. At any instant, at most the
// upstream's limit was sent in the last minute, and in the hour of its calendar. In the end
// all units come back.

// sentWindows are the windows of price books, and their leases. LATE and HOUR are filled in by the
// timeline: see sentKinds.
var sentWindows = []string{
	"windows: [{per: 1m LATE} HOUR]",
	"windows: [{per: 1m LATE} HOUR], lease: {life: 2s, most: 50%}",
	"windows: [{per: 1m, precision: 30s LATE} HOUR]",
	"windows: [{per: 1m, precision: 5s LATE} HOUR], lease: {life: 10s, most: 50%}",
	"windows: [{per: 1m, precision: 200ms LATE} HOUR]",
	"windows: [{per: 1m, algorithm: log} HOUR]", // not if calls leave late
	"windows: [{per: 1m LATE}, {per: 1h, quota: 1000} HOUR]",
	"windows: [{per: 1m, precision: 20s LATE}, {per: hour, zone: Asia/Tokyo, quota: 1000} HOUR]",
}

const (
	sentLog    = 5 // the log among sentWindows; those behind it have windows that the others have not
	sentQuota  = 40
	sentTokens = 10
	sentClient = 40 // so that its keys have blocks
	sentHour   = 100
	sentLate   = 3 * time.Second
)

// sentChecks are the timelines in `make test`.
var sentChecks = map[string]string{"memory": "200", "sqlite": "60", "redis": "60", "postgres": "20"}

type departure struct {
	at    time.Time
	units int64
}

// sentClock is the stores'. It is off by so much from the true time.
type sentClock struct {
	*quota.SimClock
	off atomic.Int64
}

func (c *sentClock) Now() time.Time { return c.SimClock.Now().Add(time.Duration(c.off.Load())) }

func TestSentModel(t *testing.T) {
	for _, name := range stores {
		t.Run(name, func(t *testing.T) {
			checks, seed := sentChecks[name], "1"
			if os.Getenv("HEADROOM_SOAK") == "1" {
				checks, seed = "4300", fmt.Sprint(rand.Uint64())
			}
			setFlag(t, "rapid.checks", checks)
			setFlag(t, "rapid.seed", seed)
			t.Logf("to see it again: -rapid.seed=%s", flag.Lookup("rapid.seed").Value)
			clock := &sentClock{SimClock: quota.NewSimClock(noon)}
			open := storeOf(t, name, clock)
			m := &sentModel{clock: clock, stores: [2]quota.Store{open(), open()}}
			rapid.Check(t, func(rt *rapid.T) {
				m.begin(rt)
				rt.Repeat(m.moves())
				m.heals(rt)
			})
			t.Logf("%d timelines, %d moves", m.timelines, m.steps)
		})
	}
}

// sentModel is one timeline after another, each with an account and keys of its own.
type sentModel struct {
	clock            *sentClock
	stores           [2]quota.Store
	timelines, steps int
	revision         int

	windows   []string // of the books of this timeline
	book      int
	late      time.Duration  // calls leave up to so long after they were granted
	zone      *time.Location // of the upstream's hours; nil: it has none
	learns    bool           // the pool takes limits at run time
	processes []*sentProcess
	upstream  map[string]*sentPool
	leaving   []sentCallOut // granted, and not sent yet
	revised   time.Time
}

type sentProcess struct {
	*quota.Ledger
	holds []*quota.Hold
}

// sentPool is what the upstream knows of a pool, or of one key.
type sentPool struct {
	left   []departure
	limits []departure // from when on
}

// sentCallOut is a call that is on its way.
type sentCallOut struct {
	at    time.Time
	pools []string
	units int64
}

// begin starts a timeline.
func (m *sentModel) begin(rt *rapid.T) {
	m.timelines++
	m.clock.off.Store(0)
	m.clock.SimClock.Set(m.clock.SimClock.Now().Truncate(24 * time.Hour).Add(60*time.Hour - 90*time.Second).Add(time.Duration(rapid.IntRange(0, 180).Draw(rt, "start")) * time.Second))
	m.late, m.zone, m.learns = 0, nil, false
	m.windows = sentWindows
	switch rapid.SampledFrom([]string{"plain", "late", "hours", "limits"}).Draw(rt, "kind") {
	case "late":
		m.late = sentLate
		m.windows = append(append([]string(nil), sentWindows[:sentLog]...), sentWindows[sentLog+1:]...)
	case "hours":
		m.zone = rapid.SampledFrom([]*time.Location{time.UTC, mustLocation("Asia/Kolkata")}).Draw(rt, "zone")
	case "limits":
		m.learns = true
		m.windows = sentWindows[:sentLog+1]
	}
	late, hour := "", ""
	if m.late > 0 {
		late = ", late: 3s"
	}
	if m.zone != nil {
		hour = fmt.Sprintf(", {per: hour, zone: %s, quota: %d}", m.zone, sentHour)
	}
	fill := strings.NewReplacer(" LATE", late, " HOUR", hour)
	for i, w := range m.windows {
		if i == 0 {
			m.windows = append([]string(nil), m.windows...)
		}
		m.windows[i] = fill.Replace(w)
	}
	m.upstream, m.leaving, m.processes = map[string]*sentPool{}, nil, nil
	m.revision++
	m.book = m.anyBook(rt)
	for range 3 {
		m.processes = append(m.processes, m.start(rt))
	}
	m.revised = m.now().Add(-time.Hour)
}

func mustLocation(name string) *time.Location {
	l, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return l
}

func (m *sentModel) now() time.Time { return m.clock.SimClock.Now() }

func (m *sentModel) moves() map[string]func(*rapid.T) {
	moves := map[string]func(*rapid.T){"": func(*rapid.T) {}}
	for name, move := range map[string]func(*rapid.T){
		"reserve": m.reserve, "reserve2": m.reserve, "fill": m.fill, "fill2": m.fill, "hold": m.hold, "draw": m.draw,
		"release": m.release, "close": m.close, "crash": m.crash, "revise": m.revise, "send late": m.sendLate,
		"block": m.block, "unblock": m.unblock, "limit": m.limit, "report": m.report, "swing": m.swing,
		"forward": m.forward, "forward2": m.forward,
	} {
		moves[name] = func(rt *rapid.T) { m.steps++; move(rt) }
	}
	return moves
}

func (m *sentModel) account() string { return fmt.Sprint("a", m.timelines) }

func (m *sentModel) pool(name string) quota.Pool {
	return quota.Pool{Upstream: "api", Account: m.account(), Name: name}
}

func (m *sentModel) costs(rt *rapid.T) *quota.Book {
	learn := ""
	if m.learns {
		learn = "limit: learn, metric: api/units, "
	}
	costs, err := book.Parse("costs.yaml", fmt.Appendf(nil, `
revision: %d
upstreams:
  api:
    accounts: any
    pools:
      units: {quota: %d, headroom: 0, %s%s}
      tokens: {quota: %d, headroom: 0, by: {body: model, default: other}, max_keys: 1000000, %s}
    methods:
      ask: {charge: {units: 1, tokens: 1}}
families:
  client: {quota: %d, max_keys: 100000, %s}
`, m.revision, sentQuota, learn, m.windows[m.book], sentTokens, m.windows[m.book], sentClient, m.windows[m.book]), nil)
	if err != nil {
		rt.Fatal(err)
	}
	return costs
}

func (m *sentModel) start(rt *rapid.T) *sentProcess {
	s := leasestore.New(m.stores[rapid.IntRange(0, 1).Draw(rt, "store")], &leasestore.Options{Clock: m.clock.SimClock})
	l, err := quota.New(m.costs(rt), s, &quota.Options{Clock: m.clock.SimClock})
	if err != nil {
		rt.Fatal(err)
	}
	return &sentProcess{Ledger: l}
}

func (m *sentModel) process(rt *rapid.T) *sentProcess {
	return rapid.SampledFrom(m.processes).Draw(rt, "process")
}

// call is one of n units of a kind, and the upstream's pools that count it.
func (m *sentModel) call(kind string, n int64) (quota.Call, []string) {
	switch {
	case kind == "units":
		return quota.Call{Account: m.account(), Charges: quota.Units{"units": n}}, []string{"units"}
	case strings.HasPrefix(kind, "client "):
		key := kind + m.account()
		return quota.Call{Family: "client", Key: key, Units: n}, []string{key}
	}
	return quota.Call{Account: m.account(), Charges: quota.Units{"units": n, "tokens": n}, Keys: map[string]string{"tokens": kind}}, []string{"units", kind}
}

func (m *sentModel) kind(rt *rapid.T) string {
	return rapid.SampledFrom([]string{"units", "units", "units", "model a", "model b", "client x", "client y"}).Draw(rt, "kind")
}

// send makes a call, and reports whether it was granted. It leaves now, or late.
func (m *sentModel) send(rt *rapid.T, p *sentProcess, h *quota.Hold, kind string, n int64, late time.Duration) bool {
	ctx := rt.Context()
	if h != nil {
		ctx = h.Context(ctx)
	}
	c, pools := m.call(kind, n)
	_, err := p.Reserve(ctx, c)
	if errors.Is(err, quota.ErrStaleBook) {
		m.load(rt, p)
		_, err = p.Reserve(ctx, c)
	}
	if err != nil {
		if !errors.Is(err, quota.ErrRefused) && !errors.Is(err, quota.ErrImpossible) {
			rt.Fatal(err)
		}
		return false
	}
	m.leaving = append(m.leaving, sentCallOut{m.now().Add(late), pools, n})
	m.advance(rt, 0)
	return true
}

// advance moves the true time. The upstream counts what is sent meanwhile.
func (m *sentModel) advance(rt *rapid.T, d time.Duration) {
	to := m.now().Add(d)
	for {
		next := -1
		for i, c := range m.leaving {
			if !c.at.After(to) && (next < 0 || c.at.Before(m.leaving[next].at)) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		c := m.leaving[next]
		m.leaving = append(m.leaving[:next], m.leaving[next+1:]...)
		for _, pool := range c.pools {
			m.counts(rt, pool, departure{c.at, c.units})
		}
	}
	m.clock.SimClock.Set(to)
}

func (m *sentModel) at(pool string) *sentPool {
	if m.upstream[pool] == nil {
		limit := int64(sentQuota)
		switch {
		case strings.HasPrefix(pool, "client "):
			limit = sentClient
		case pool != "units":
			limit = sentTokens
		}
		m.upstream[pool] = &sentPool{limits: []departure{{m.now().Add(-24 * time.Hour), limit}}}
	}
	return m.upstream[pool]
}

// counts is the upstream's check of one more call. After a limit was lowered, a hold that was made
// before may last for a window, and another process may not have heard of it for 2 s.
func (m *sentModel) counts(rt *rapid.T, pool string, d departure) {
	u := m.at(pool)
	u.left = append(u.left, d)
	var minute, hour, most int64
	for _, l := range u.left {
		if l.at.Add(time.Minute).After(d.at) {
			minute += l.units
		}
		if m.zone != nil && hourOf(l.at, m.zone).Equal(hourOf(d.at, m.zone)) {
			hour += l.units
		}
	}
	for i, l := range u.limits {
		if i+1 == len(u.limits) || u.limits[i+1].at.Add(time.Minute+2*time.Second+m.late).After(d.at) {
			most = max(most, l.units)
		}
	}
	if minute > most {
		rt.Fatalf("%d of %s were sent within a minute until %s, the upstream allows %d", minute, pool, d.at.Format(time.StampMicro), most)
	}
	if m.zone != nil && !strings.HasPrefix(pool, "client ") && hour > sentHour {
		rt.Fatalf("%d of %s were sent in the hour of %s in %s, the upstream allows %d", hour, pool, d.at.Format(time.StampMicro), m.zone, sentHour)
	}
}

// hourOf is when the hour of an instant began.
func hourOf(at time.Time, zone *time.Location) time.Time {
	at = at.In(zone)
	return at.Add(-time.Duration(at.Minute())*time.Minute - time.Duration(at.Second())*time.Second - time.Duration(at.Nanosecond()))
}

func (m *sentModel) load(rt *rapid.T, p *sentProcess) {
	if err := p.SetBook(m.costs(rt)); err != nil {
		rt.Fatal(err)
	}
}

// calls makes calls of one unit: from the second one on they take leased blocks.
func (m *sentModel) calls(rt *rapid.T, p *sentProcess, h *quota.Hold, kind string, n int) {
	late := time.Duration(0)
	if m.late > 0 {
		late = rapid.SampledFrom([]time.Duration{0, m.late / 2, m.late - time.Microsecond}).Draw(rt, "late")
	}
	for ; n > 0 && m.send(rt, p, h, kind, 1, late); n-- {
	}
}

// fills takes all that is left, in few calls.
func (m *sentModel) fills(rt *rapid.T, p *sentProcess, kind string) (sent int64) {
	for n := int64(64); n > 0; n /= 2 {
		for m.send(rt, p, nil, kind, n, 0) {
			sent += n
		}
	}
	return sent
}

func (m *sentModel) reserve(rt *rapid.T) {
	m.calls(rt, m.process(rt), nil, m.kind(rt), rapid.IntRange(1, 12).Draw(rt, "calls"))
}

func (m *sentModel) fill(rt *rapid.T) { m.fills(rt, m.process(rt), m.kind(rt)) }

// release takes units and gives them back: that call is not sent.
func (m *sentModel) release(rt *rapid.T) {
	c, _ := m.call(m.kind(rt), rapid.Int64Range(1, 10).Draw(rt, "units"))
	r, err := m.process(rt).Reserve(rt.Context(), c)
	if errors.Is(err, quota.ErrRefused) || errors.Is(err, quota.ErrImpossible) || errors.Is(err, quota.ErrStaleBook) {
		return
	}
	if err == nil && c.Family == "" {
		m.advance(rt, m.short(rt))
		_, err = r.Release(rt.Context())
	}
	if err != nil {
		rt.Fatal(err)
	}
}

func (m *sentModel) holds(rt *rapid.T, p *sentProcess, n int) *quota.Hold {
	c, _ := m.call("units", 1)
	h, err := p.Hold(rt.Context(), c, n)
	if err == nil {
		p.holds = append(p.holds, h)
	} else if !errors.Is(err, quota.ErrRefused) && !errors.Is(err, quota.ErrStaleBook) && !errors.Is(err, quota.ErrImpossible) {
		rt.Fatal(err)
	}
	return h
}

func (m *sentModel) hold(rt *rapid.T) {
	m.holds(rt, m.process(rt), rapid.IntRange(1, 30).Draw(rt, "calls"))
}

// held is a process with a hold.
func (m *sentModel) held(rt *rapid.T) (*sentProcess, *quota.Hold) {
	p := m.process(rt)
	if len(p.holds) == 0 {
		rt.SkipNow()
	}
	return p, rapid.SampledFrom(p.holds).Draw(rt, "hold")
}

func (m *sentModel) draw(rt *rapid.T) {
	p, h := m.held(rt)
	m.calls(rt, p, h, "units", rapid.IntRange(1, 30).Draw(rt, "calls"))
}

func (m *sentModel) close(rt *rapid.T) {
	_, h := m.held(rt)
	if err := h.Close(rt.Context()); err != nil {
		rt.Fatal(err)
	}
}

// crash ends a process with what it has; another one starts with the latest book.
func (m *sentModel) crash(rt *rapid.T) {
	m.processes[rapid.IntRange(0, len(m.processes)-1).Draw(rt, "process")] = m.start(rt)
}

// revises gives a process another book. The others go on with theirs until they are told.
func (m *sentModel) revises(rt *rapid.T, p *sentProcess, book int) {
	m.revision++
	m.book = book
	m.revised = m.now()
	m.load(rt, p)
}

func (m *sentModel) revise(rt *rapid.T) {
	p := m.process(rt)
	m.revises(rt, p, m.anyBook(rt))
	m.fills(rt, p, m.kind(rt))
}

// sendLate has one process take units, another one fill the pool, often after it has revised
// the book, the first one send late what it has, and the second one fill the pool again, as
// soon as it may.
func (m *sentModel) sendLate(rt *rapid.T) {
	a, b := m.processes[0], m.processes[1]
	for _, c := range []*sentProcess{a, b} {
		m.load(rt, c)
	}
	late := rapid.SampledFrom([]struct {
		windows string
		life    time.Duration
	}{
		{"life: 2s", 2 * time.Second}, {"precision: 30s", 30 * time.Second}, {"life: 10s", 10 * time.Second}, {"precision: 5s", 5 * time.Second}, {"precision: 20s", 20 * time.Second},
	}).Draw(rt, "of")
	book := slices.IndexFunc(m.windows, func(w string) bool { return strings.Contains(w, late.windows) })
	if book < 0 {
		rt.SkipNow() // this timeline has none like it
	}
	m.revises(rt, a, book)
	m.advance(rt, m.now().Truncate(time.Minute).Add(time.Minute).Sub(m.now())) // when buckets begin
	if rapid.Bool().Draw(rt, "all has left") {
		m.advance(rt, 2*time.Minute)
	}
	from := m.now()
	var h *quota.Hold
	kind := "units"
	if rapid.Bool().Draw(rt, "holds") {
		h = m.holds(rt, a, rapid.IntRange(5, 40).Draw(rt, "calls"))
	} else {
		kind = rapid.SampledFrom([]string{"units", "client x"}).Draw(rt, "kind")
		for range 3 { // of its rate, it takes blocks
			m.calls(rt, a, nil, kind, rapid.IntRange(2, 6).Draw(rt, "calls"))
			m.advance(rt, 10*time.Millisecond)
		}
	}
	m.advance(rt, min(m.short(rt), late.life/2))
	if rapid.Bool().Draw(rt, "revises") {
		m.revises(rt, b, m.anyBook(rt))
	}
	m.fills(rt, b, kind)
	wait := late.life - m.little(rt)
	if rapid.IntRange(0, 2).Draw(rt, "too late") == 0 {
		wait = late.life + late.life*9/10
	}
	if last := from.Add(wait); last.After(m.now()) {
		m.advance(rt, last.Sub(m.now()))
	}
	m.calls(rt, a, h, kind, 40)
	for range 3 { // as soon as it may
		c, _ := m.call(kind, 1)
		var refused *quota.RefusedError
		if _, err := b.Check(rt.Context(), c); errors.As(err, &refused) {
			m.advance(rt, min(refused.RetryAfter, 2*time.Minute))
		}
		m.fills(rt, b, kind)
	}
}

func (m *sentModel) allowed(rt *rapid.T, err error) {
	if err != nil && !errors.Is(err, quota.ErrStaleBook) {
		rt.Fatal(err)
	}
}

func (m *sentModel) block(rt *rapid.T) {
	m.allowed(rt, m.process(rt).BlockFor(rt.Context(), m.pool("units"), 5*time.Second, "no"))
}

func (m *sentModel) unblock(rt *rapid.T) {
	m.allowed(rt, m.process(rt).Admin().Unblock(rt.Context(), m.pool("units")))
}

// limit sets a limit at run time, below or above the book's, or removes it. The upstream has it, too.
func (m *sentModel) limit(rt *rapid.T) {
	k := quota.KeyLimit{By: "test", Quota: rapid.SampledFrom([]int64{0, 1, 3, 20, 60}).Draw(rt, "limit")}
	pool, quotaOf := "client x"+m.account(), int64(sentClient)
	k.Family, k.Key = "client", pool
	if m.learns && rapid.Bool().Draw(rt, "of the pool") {
		pool, quotaOf = "units", sentQuota
		k.Family, k.Key = quota.LimitsOfUpstream+"api", "units@"+m.account()
	}
	u := m.at(pool)
	if _, err := m.process(rt).Admin().SetLimit(rt.Context(), k); err != nil {
		if k.Quota == 0 && errors.Is(err, quota.ErrBadInput) {
			return // there is none
		}
		rt.Fatal(err)
	}
	if k.Quota == 0 {
		k.Quota = quotaOf
	}
	u.limits = append(u.limits, departure{m.now(), k.Quota})
}

// report is one of an answer: true, or false by too many or too few. A false limit is never
// above the upstream's.
func (m *sentModel) report(rt *rapid.T) {
	u := m.at("units")
	limit := u.limits[len(u.limits)-1].units
	var used int64
	for _, d := range u.left {
		if d.at.Add(time.Minute).After(m.now()) {
			used += d.units
		}
	}
	o := quota.Observation{
		Pool: m.pool("units"), Per: time.Minute,
		ResetIn: rapid.SampledFrom([]time.Duration{0, time.Second, 30 * time.Second, time.Minute}).Draw(rt, "reset"),
	}
	if !m.learns { // a learned limit stays
		o.Limit = rapid.SampledFrom([]int64{0, 1, limit / 2, limit}).Draw(rt, "limit")
	}
	used = max(used+rapid.SampledFrom([]int64{0, 0, -100, -1, 5, 1000}).Draw(rt, "false by"), 0)
	remaining := max(limit-used, 0)
	if rapid.Bool().Draw(rt, "remaining") {
		o.Remaining = &remaining
	} else {
		o.Used = &used
	}
	if _, err := m.process(rt).Observe(rt.Context(), o); err != nil {
		m.allowed(rt, err)
	}
}

// swing sets the store's clock back by more than the longest window, and lets it return. A
// page that is ahead because of a new book forgets by how much: so not right after one.
func (m *sentModel) swing(rt *rapid.T) {
	if m.now().Sub(m.revised) < 70*time.Second {
		rt.SkipNow()
	}
	p, kind := m.process(rt), m.kind(rt)
	if !m.send(rt, p, nil, "units", 1, 0) || !m.send(rt, p, nil, kind, 1, 0) {
		return // a page that has not seen the time before cannot know
	}
	m.clock.off.Store(int64(-3*time.Hour - 3*time.Minute - time.Duration(rapid.IntRange(0, 7200).Draw(rt, "back"))*time.Second))
	for _, kind := range []string{"units", kind} {
		m.fills(rt, m.process(rt), kind)
		m.advance(rt, m.short(rt))
		m.fills(rt, m.process(rt), kind)
	}
	m.clock.off.Store(0)
	m.fills(rt, m.process(rt), kind)
}

func (m *sentModel) anyBook(rt *rapid.T) int {
	return rapid.IntRange(0, len(m.windows)-1).Draw(rt, "book")
}

func (m *sentModel) little(rt *rapid.T) time.Duration {
	return time.Duration(rapid.SampledFrom([]int{1, 15, 100, 1000}).Draw(rt, "little ms")) * time.Millisecond
}

func (m *sentModel) forward(rt *rapid.T) { m.advance(rt, m.wait(rt)) }

func (m *sentModel) short(rt *rapid.T) time.Duration {
	return time.Duration(rapid.SampledFrom([]int{0, 1, 150, 990, 1990, 2010, 5000}).Draw(rt, "short ms")) * time.Millisecond
}

// wait is near the ends of slack, leases and windows.
func (m *sentModel) wait(rt *rapid.T) time.Duration {
	return time.Duration(rapid.SampledFrom([]int{1, 300, 990, 1990, 5000, 9990, 19900, 28000, 29900, 31000, 58000, 59990, 60100, 61000}).Draw(rt, "ms")) * time.Millisecond
}

// heals checks that all comes back. A pool whose clock was set back may take time that
// passes for its return, so it has two tries.
func (m *sentModel) heals(rt *rapid.T) {
	p := m.start(rt)
	for _, kind := range []string{"units", "model a", "client x"} {
		_, pools := m.call(kind, 1)
		u := m.at(pools[len(pools)-1])
		want := u.limits[len(u.limits)-1].units
		var got int64
		for range 3 {
			m.advance(rt, 3*time.Hour)
			if got = m.fills(rt, p, kind); got == want {
				break
			}
		}
		if kind == "model a" {
			want = min(want, m.at("units").limits[len(m.at("units").limits)-1].units)
		}
		if got != want {
			rt.Fatalf("%d of %s were granted after everything had left, want %d", got, kind, want)
		}
	}
}
