package quota_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/leasestore"
)

// The upstream of this model counts what is sent, when it is sent. Several processes share
// one ledger: some take leased blocks, some hold, and some vanish with what they have. Now
// and then one of them gets a price book with other windows, and the others go on with
// theirs until they are told. All books promise the upstream's 40 a minute.

// sentBooks are the windows of books, and their leases.
var sentBooks = []string{
	"windows: [{per: 1m}]",
	"windows: [{per: 1m}], lease: {life: 2s, most: 50%}",
	"windows: [{per: 1m, precision: 30s}]",
	"windows: [{per: 1m, precision: 5s}], lease: {life: 10s, most: 50%}",
	"windows: [{per: 1m, algorithm: log}]",
	"windows: [{per: 1m}, {per: 1h, quota: 1000}]",
	"windows: [{per: 1m, precision: 20s, late: 3s}, {per: hour, quota: 1000}]",
}

const sentQuota = 40

type sentModel struct {
	passes
	clock     *quota.SimClock
	stores    [2]quota.Store
	revision  int
	book      int
	processes []*sentProcess
}

type sentProcess struct {
	*quota.Ledger
	revision int
	holds    []*quota.Hold
}

func TestSentModel(t *testing.T) {
	checks, seed := "60", "1"
	if os.Getenv("HEADROOM_SOAK") == "1" {
		checks, seed = "3000", fmt.Sprint(rand.Uint64()) // of 40 steps or so
	}
	setFlag(t, "rapid.checks", checks)
	setFlag(t, "rapid.seed", seed)
	t.Logf("to see it again: -rapid.seed=%s", flag.Lookup("rapid.seed").Value)
	for name, open := range map[string]func(testing.TB, quota.Clock) func(*rapid.T) [2]quota.Store{
		"memory": inMemory, "sqlite": inSQLite, "redis": inRedis,
	} {
		t.Run(name, func(t *testing.T) {
			clock := quota.NewSimClock(noon)
			pair := open(t, clock)
			rapid.Check(t, func(rt *rapid.T) {
				clock.Set(noon)
				m := &sentModel{clock: clock, stores: pair(rt), revision: 1}
				for range 3 {
					m.processes = append(m.processes, m.start(rt))
				}
				rt.Repeat(map[string]func(*rapid.T){
					"": m.check, "reserve": m.reserve, "reserve2": m.reserve, "reserve3": m.reserve, "hold": m.hold,
					"draw": m.draw, "draw2": m.draw, "close": m.close, "crash": m.crash, "revise": m.revise,
					"block": m.block, "forward": m.forward, "forward2": m.forward,
				})
				m.heals(rt)
			})
		})
	}
}

func (m *sentModel) costs(rt *rapid.T) *quota.Book {
	costs, err := book.Parse("costs.yaml", fmt.Appendf(nil, "revision: %d\nupstreams: {youtube: {pools: {units: {quota: %d, headroom: 0, %s}}}}", m.revision, sentQuota, sentBooks[m.book]), nil)
	if err != nil {
		rt.Fatal(err)
	}
	return costs
}

func (m *sentModel) start(rt *rapid.T) *sentProcess {
	s := leasestore.New(m.stores[rapid.IntRange(0, 1).Draw(rt, "store")], &leasestore.Options{Clock: m.clock})
	l, err := quota.New(m.costs(rt), s, &quota.Options{Clock: m.clock})
	if err != nil {
		rt.Fatal(err)
	}
	return &sentProcess{Ledger: l, revision: m.revision}
}

func (m *sentModel) process(rt *rapid.T) *sentProcess {
	return m.processes[rapid.IntRange(0, len(m.processes)-1).Draw(rt, "process")]
}

// call sends calls of one unit at once until one is not granted.
func (m *sentModel) call(rt *rapid.T, p *sentProcess, h *quota.Hold, n int) {
	ctx := rt.Context()
	if h != nil {
		ctx = h.Context(ctx)
	}
	for range n {
		_, err := p.Reserve(ctx, units(1))
		if errors.Is(err, quota.ErrStaleBook) {
			m.load(rt, p)
			continue
		}
		if errors.Is(err, quota.ErrRefused) {
			return
		}
		if err != nil {
			rt.Fatal(err)
		}
		m.left = append(m.left, departure{m.clock.Now(), 1})
	}
}

func (m *sentModel) load(rt *rapid.T, p *sentProcess) {
	if err := p.SetBook(m.costs(rt)); err != nil {
		rt.Fatal(err)
	}
	p.revision = m.revision
}

func (m *sentModel) reserve(rt *rapid.T) {
	m.call(rt, m.process(rt), nil, rapid.IntRange(1, 45).Draw(rt, "calls"))
}

func (m *sentModel) hold(rt *rapid.T) {
	p := m.process(rt)
	h, err := p.Hold(rt.Context(), units(1), rapid.IntRange(1, 30).Draw(rt, "calls"))
	if err == nil {
		p.holds = append(p.holds, h)
	} else if !errors.Is(err, quota.ErrRefused) && !errors.Is(err, quota.ErrStaleBook) {
		rt.Fatal(err)
	}
}

func (m *sentModel) draw(rt *rapid.T) {
	p := m.process(rt)
	if len(p.holds) == 0 {
		rt.SkipNow()
	}
	m.call(rt, p, p.holds[rapid.IntRange(0, len(p.holds)-1).Draw(rt, "hold")], rapid.IntRange(1, 30).Draw(rt, "calls"))
}

func (m *sentModel) close(rt *rapid.T) {
	p := m.process(rt)
	if len(p.holds) == 0 {
		rt.SkipNow()
	}
	if err := p.holds[len(p.holds)-1].Close(rt.Context()); err != nil {
		rt.Fatal(err)
	}
}

// crash ends a process with what it has; another one starts with the latest book.
func (m *sentModel) crash(rt *rapid.T) {
	m.processes[rapid.IntRange(0, len(m.processes)-1).Draw(rt, "process")] = m.start(rt)
}

func (m *sentModel) revise(rt *rapid.T) {
	m.revision++
	m.book = rapid.IntRange(0, len(sentBooks)-1).Draw(rt, "book")
	p := m.process(rt)
	m.load(rt, p)
	m.call(rt, p, nil, rapid.IntRange(1, 45).Draw(rt, "calls"))
}

func (m *sentModel) block(rt *rapid.T) {
	p := m.process(rt)
	if err := p.BlockFor(rt.Context(), quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}, 5*time.Second, "no"); err != nil && !errors.Is(err, quota.ErrStaleBook) {
		rt.Fatal(err)
	}
}

func (m *sentModel) forward(rt *rapid.T) {
	m.clock.Advance(time.Duration(rapid.SampledFrom([]int{1, 300, 1000, 1990, 5000, 20000, 28000, 31000, 58000, 61000}).Draw(rt, "ms")) * time.Millisecond)
}

func (m *sentModel) check(rt *rapid.T) {
	if most := m.worst(time.Minute); most > sentQuota {
		rt.Fatalf("%d were sent within a minute, the upstream allows %d", most, sentQuota)
	}
}

// heals checks that all comes back.
func (m *sentModel) heals(rt *rapid.T) {
	m.clock.Advance(2 * time.Hour)
	before := len(m.left)
	m.call(rt, m.start(rt), nil, sentQuota)
	if n := len(m.left) - before; n != sentQuota {
		rt.Fatalf("%d were granted after everything had left, want %d", n, sentQuota)
	}
}
