package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
	"pgregory.net/rapid"
)

// testModelOfSpend compares Spend by the hour and by the day with a plain table of what was
// charged, while price books change the zones of pools, and blocks come before charges. The
// clock only goes forward, by less than the days that spend is kept.
func testModelOfSpend(t *testing.T, h Harness) {
	needClock(t, h)
	if h.GiveBack != nil {
		t.Skip("spend counts the units of blocks that are out")
	}
	const steps = 100
	setFlag(t, "rapid.steps", steps)
	setFlag(t, "rapid.checks", uint64(h.part(1_500, 100_000))/steps+1)
	seed := suiteSeed(t)
	made := 0
	rapid.Check(t, func(rt *rapid.T) {
		s := scope{TB: t}
		defer s.close()
		m := &spendTrial{tb: &s, h: h, stores: []quota.Store{h.Open(&s)}, revision: 1, table: map[quota.Spent]quota.Spent{}}
		if h.Share != nil {
			m.stores = append(m.stores, h.Share(&s, m.stores[0]))
		}
		m.setClock(start)
		for i := range m.pools {
			m.pools[i] = &spendPool{name: []string{"units", "searches"}[i], window: rapid.SampledFrom([]window.Limit{
				ring(window.MaxUnits, time.Hour, time.Minute), calendar(window.MaxUnits, window.Month, "UTC"), exact(window.MaxUnits, time.Minute),
			}).Draw(rt, "window")}
			m.pools[i].zone = m.drawZone(rt)
		}
		defer func() { made += m.operations }()
		rt.Repeat(map[string]func(*rapid.T){
			"reserve": m.reserve, "reserve2": m.reserve, "reserve3": m.reserve, "settle": m.settle, "settle2": m.settle,
			"record": m.record, "block": m.block, "open": m.open, "revise": m.revise,
			"forward": m.forward, "forward2": m.forward, "compare": m.compareSeldom,
		})
		m.compare(rt)
	})
	t.Logf("%d operations; to see them again: -rapid.seed=%s", made, seed)
}

// spendTrial is one timeline.
type spendTrial struct {
	tb         testing.TB
	h          Harness
	stores     []quota.Store
	now        time.Time
	revision   int64
	pools      [2]*spendPool
	calls      []*spentCall
	table      map[quota.Spent]quota.Spent // by all but its units and calls
	ids        int
	operations int
}

type spendPool struct {
	name   string
	window window.Limit
	zone   *time.Location
	shut   time.Time // blocked until then
}

// spentCall is a call with a receipt.
type spentCall struct {
	req     quota.Request
	token   quota.Token
	made    time.Time
	rows    []quota.Spent // by charge: where it counts
	settled bool
}

func (m *spendTrial) setClock(now time.Time) {
	m.now = now
	m.h.SetClock(m.tb, m.stores[0], now)
}

func (m *spendTrial) store(rt *rapid.T) quota.Store {
	m.operations++
	return m.stores[rapid.IntRange(0, len(m.stores)-1).Draw(rt, "process")]
}

func (m *spendTrial) drawZone(rt *rapid.T) *time.Location {
	name := rapid.SampledFrom([]string{"", "UTC", "America/Los_Angeles", "Asia/Kolkata", "Europe/Berlin", "Pacific/Auckland"}).Draw(rt, "zone")
	if name == "" {
		return nil
	}
	return zone(name)
}

// charges draws charges of one pool or both.
func (m *spendTrial) charges(rt *rapid.T) (all []quota.Charge, blocked bool) {
	for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, 1), 1, 2, rapid.ID[int]).Draw(rt, "pools") {
		p := m.pools[i]
		blocked = blocked || m.now.Before(p.shut)
		all = append(all, quota.Charge{
			Pool:    quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: p.name},
			Units:   rapid.Int64Range(1, 9).Draw(rt, "units"),
			Windows: []window.Limit{p.window}, Revision: m.revision, Zone: p.zone,
		})
	}
	return all, blocked
}

func (m *spendTrial) drawLabels(rt *rapid.T) quota.Labels {
	return quota.Labels{Method: rapid.SampledFrom([]string{"list", "get"}).Draw(rt, "method"), Job: rapid.SampledFrom([]string{"", "trends"}).Draw(rt, "job")}
}

// add counts units and calls in the row of a pool, an instant and labels, which it returns.
func (m *spendTrial) add(c *quota.Charge, at time.Time, labels quota.Labels, units int64) quota.Spent {
	in := time.UTC
	if c.Zone != nil {
		in = c.Zone
	}
	row := quota.Spent{Pool: c.Pool, Day: at.In(in).Format(time.DateOnly), Hour: at.UTC().Truncate(time.Hour), Labels: labels}
	m.count(row, units, 1)
	return row
}

func (m *spendTrial) count(row quota.Spent, units, calls int64) {
	sum := m.table[row]
	sum.Units, sum.Calls = sum.Units+units, sum.Calls+calls
	m.table[row] = sum
}

func (m *spendTrial) say(rt *rapid.T, format string, args ...any) {
	rt.Logf("%s  %s", m.now.Format(clockFormat), fmt.Sprintf(format, args...))
}

// reserve reserves, and at times the id of an earlier call, which spends nothing.
func (m *spendTrial) reserve(rt *rapid.T) {
	charges, blocked := m.charges(rt)
	req := quota.Request{Charges: charges, Labels: m.drawLabels(rt)}
	if rapid.Bool().Draw(rt, "receipt") {
		m.ids++
		req.ID = fmt.Sprint("call ", m.ids)
	}
	v, err := m.store(rt).Reserve(context.Background(), req)
	if err != nil || v.Allowed == blocked {
		rt.Fatalf("reserve: %s; a pool is blocked: %t", tell(v, err), blocked)
	}
	for i := range charges {
		m.say(rt, "reserve %d of %s, zone %v: %s", charges[i].Units, charges[i].Pool.Name, charges[i].Zone, tell(v, nil))
	}
	if blocked {
		return
	}
	c := &spentCall{req: req, token: v.Token(), made: m.now}
	for i := range charges {
		c.rows = append(c.rows, m.add(&charges[i], m.now, req.Labels, charges[i].Units))
	}
	if req.ID == "" {
		return
	}
	m.calls = append(m.calls, c)
	if rapid.IntRange(0, 3).Draw(rt, "again") == 0 {
		if v, err := m.store(rt).Reserve(context.Background(), req); err != nil || !v.Repeat {
			rt.Fatalf("an id again: %s", tell(v, err))
		}
	}
}

func (m *spendTrial) settle(rt *rapid.T) {
	var alive []*spentCall
	for _, c := range m.calls {
		if !c.settled && m.now.Sub(c.made) < quota.ReceiptLife-time.Second {
			alive = append(alive, c)
		}
	}
	if len(alive) == 0 {
		rt.SkipNow()
	}
	c, units := rapid.SampledFrom(alive).Draw(rt, "call"), quota.Units{}
	c.settled = true
	for i := range c.req.Charges {
		was, to := c.req.Charges[i].Units, rapid.Int64Range(0, 12).Draw(rt, "to")
		units[c.req.Charges[i].Pool.Name] = to
		calls := int64(0)
		if to == 0 { // it never left
			calls = -1
		}
		m.count(c.rows[i], to-was, calls)
	}
	s, err := m.store(rt).Settle(context.Background(), c.token, units)
	m.say(rt, "settle %s to %v: %s", c.token.ID, units, tellSettled(s, err))
	if err != nil {
		rt.Fatal(err)
	}
}

// record charges units that are already spent, at times earlier ones, or gives some back. What is
// given back has a reason, as the ledger's corrections have. So its sum may be below 0, and settling
// takes nothing from that sum.
func (m *spendTrial) record(rt *rapid.T) {
	charges, _ := m.charges(rt)
	req, at := quota.Request{Charges: charges[:1], Labels: m.drawLabels(rt)}, m.now
	switch rapid.IntRange(0, 2).Draw(rt, "how") {
	case 0:
		at = m.now.Add(-time.Duration(rapid.Int64Range(0, int64(30*time.Hour/time.Second)).Draw(rt, "ago")) * time.Second)
		req.At = at
	case 1:
		req.Charges[0].Units, req.Labels.Reason = -req.Charges[0].Units, "a correction"
	}
	c := &req.Charges[0]
	got, err := m.store(rt).Record(context.Background(), req)
	units := got[c.Pool.Name]
	m.say(rt, "record %d of %s, zone %v%s: %d %v", c.Units, c.Pool.Name, c.Zone, when(" at ", req.At), units, err)
	if err != nil || c.Units > 0 && units != c.Units || units < c.Units {
		rt.Fatalf("recorded %d of %d: %v", units, c.Units, err)
	}
	m.add(c, at, req.Labels, units) // only what was counted is given back
}

func (m *spendTrial) block(rt *rapid.T) {
	d := time.Duration(rapid.IntRange(1, 3*3600).Draw(rt, "seconds")) * time.Second
	m.blockOrOpen(rt, quota.BlockRequest{For: d, Reason: "the upstream said no"}, m.now.Add(d))
}

func (m *spendTrial) open(rt *rapid.T) {
	m.blockOrOpen(rt, quota.BlockRequest{Open: true}, time.Time{})
}

func (m *spendTrial) blockOrOpen(rt *rapid.T, b quota.BlockRequest, until time.Time) {
	b.Charges, _ = m.charges(rt)
	for i := range b.Charges {
		b.Charges[i].Units = 0
		for _, p := range m.pools {
			if p.name == b.Charges[i].Pool.Name && (b.Open || until.After(p.shut)) {
				p.shut = until
			}
		}
		m.say(rt, "block %s%s", b.Charges[i].Pool.Name, when(" until ", until))
	}
	if err := m.store(rt).Block(context.Background(), b); err != nil {
		rt.Fatal(err)
	}
}

// revise changes the zones of the pools by a price book of a higher revision.
func (m *spendTrial) revise(rt *rapid.T) {
	m.revision++
	for _, p := range m.pools {
		p.zone = m.drawZone(rt)
		m.say(rt, "the zone of %s is %v", p.name, p.zone)
	}
}

func (m *spendTrial) forward(rt *rapid.T) {
	by := rapid.SampledFrom([]time.Duration{time.Second, 29 * time.Minute, 31 * time.Minute, time.Hour, 7 * time.Hour, 26 * time.Hour}).Draw(rt, "by")
	if m.now.Add(by).Sub(start) > 25*24*time.Hour {
		rt.SkipNow()
	}
	m.setClock(m.now.Add(by))
}

// compareSeldom saves time: a store may read the spend of a month for it.
func (m *spendTrial) compareSeldom(rt *rapid.T) {
	if rapid.IntRange(0, 4).Draw(rt, "compare") == 0 {
		m.compare(rt)
	}
}

func (m *spendTrial) compare(rt *rapid.T) {
	for _, hours := range []bool{true, false} {
		want, got := map[quota.Spent]quota.Spent{}, map[quota.Spent]quota.Spent{}
		for row, sum := range m.table {
			if !hours {
				row.Hour = time.Time{}
			}
			all := want[row]
			all.Units, all.Calls = all.Units+sum.Units, all.Calls+sum.Calls
			want[row] = all
		}
		for row, sum := range want {
			if sum == (quota.Spent{}) {
				delete(want, row)
			}
		}
		rows, err := m.store(rt).Spend(context.Background(), quota.SpendQuery{Upstream: "api", Account: quota.DefaultAccount, Hours: hours})
		if err != nil {
			rt.Fatal(err)
		}
		for _, row := range rows {
			sum := quota.Spent{Units: row.Units, Calls: row.Calls}
			if row.Units, row.Calls, row.Hour = 0, 0, row.Hour.UTC(); got[row] != (quota.Spent{}) {
				rt.Fatalf("two rows for %+v", row)
			}
			got[row] = sum
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("at %s: spend, by hours: %t (-model +store):\n%s", m.now, hours, diff)
		}
	}
}
