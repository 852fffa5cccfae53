package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
	"pgregory.net/rapid"
)

// testModelOfKeys runs random calls in flight of four keys, of which two have a page, on the
// store and on a model. So pages go to other keys while slots are lost, and come back.
//
// The model knows which slots count where. It leaves open which idle key loses its page, and
// whether a lost slot can be given back. A call that nobody has ended can always be renewed.
// The clock only goes forward.
func testModelOfKeys(t *testing.T, h Harness) {
	needClock(t, h)
	const steps = 100 // of two operations
	setFlag(t, "rapid.steps", steps)
	setFlag(t, "rapid.checks", uint64(h.part(2_000, 100_000))/steps/2+1)
	seed := suiteSeed(t)
	var made, again int
	rapid.Check(t, func(rt *rapid.T) {
		s := scope{TB: t}
		defer s.close()
		m := &keyTrial{tb: &s, h: h, stores: []quota.Store{h.Open(&s)}}
		if h.Share != nil {
			m.stores = append(m.stores, h.Share(&s, m.stores[0]))
		}
		m.setClock(start)
		defer func() { made, again = made+m.operations, again+m.again }()
		rt.Repeat(map[string]func(*rapid.T){
			"": m.check, "reserve": m.reserve, "reserve2": m.reserve, "reserve3": m.reserve,
			"renew": m.renew, "renew2": m.renew, "end": m.end, "settle": m.settle, "forward": m.forward,
		})
	})
	t.Logf("%d operations, %d slots taken again; to see them again: -rapid.seed=%s", made, again, seed)
}

const (
	keyPages = 2 // of the keyed pool
	keySlots = 3 // of a page
	keyTTL   = time.Minute
	noPage   = "" // is the name of the page that keys share which have none
)

// keyTrial is one timeline.
type keyTrial struct {
	tb         testing.TB
	h          Harness
	stores     []quota.Store
	now        time.Time
	calls      []*keyCall
	operations int
	again      int
	ids        int
}

// keyCall is a call whose receipt is there.
type keyCall struct {
	token quota.Token
	page  string
	slots int64
	at    time.Time // since when its slots count, for a ttl
	over  bool      // they were given back
}

func (c *keyCall) counts(at time.Time) bool { return !c.over && at.Sub(c.at) < keyTTL }

func (m *keyTrial) setClock(now time.Time) {
	m.now = now
	m.h.SetClock(m.tb, m.stores[0], now)
	m.calls = slices.DeleteFunc(m.calls, func(c *keyCall) bool { return now.Sub(c.at) >= quota.ReceiptLife-time.Second })
}

func (m *keyTrial) store(rt *rapid.T) quota.Store {
	m.operations++
	return m.stores[rapid.IntRange(0, len(m.stores)-1).Draw(rt, "process")]
}

// used returns how many slots of a page count at an instant.
func (m *keyTrial) used(page string, at time.Time) (n int64) {
	for _, c := range m.calls {
		if c.page == page && c.counts(at) {
			n += c.slots
		}
	}
	return n
}

var keyNames = []string{"a", "b", "c", "d"}

func keyCharge(key string, slots int64) quota.Charge {
	return quota.Charge{
		Pool:  quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: "tokens", Key: key},
		Units: slots, Windows: []window.Limit{inFlight(keySlots, keyTTL)}, Revision: 1, MaxKeys: keyPages,
	}
}

// look returns which keys have a page, and compares the slots of each.
func (m *keyTrial) look(rt *rapid.T) (known []string) {
	var charges []quota.Charge
	for _, key := range keyNames {
		charges = append(charges, keyCharge(key, 0))
	}
	pages, err := m.store(rt).Look(context.Background(), charges)
	if err != nil {
		rt.Fatal(err)
	}
	for i, key := range keyNames {
		want, got := m.used(key, m.now), pages[i].Windows[0].Used
		if got != want || want > 0 && !pages[i].Known {
			rt.Fatalf("at %s: %d slots of %s are taken (it has a page: %t), model %d", m.now, got, key, pages[i].Known, want)
		}
		if pages[i].Known {
			known = append(known, key)
		}
	}
	return known
}

func (m *keyTrial) check(rt *rapid.T) { m.look(rt) }

func (m *keyTrial) reserve(rt *rapid.T) {
	key, n, known := rapid.SampledFrom(keyNames).Draw(rt, "key"), rapid.Int64Range(1, 2).Draw(rt, "slots"), m.look(rt)
	m.ids++
	units := quota.Charge{
		Pool:  quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: "units"},
		Units: 5, Windows: []window.Limit{exact(window.MaxUnits, time.Hour)}, Revision: 1,
	}
	v, err := m.store(rt).Reserve(context.Background(), quota.Request{ID: fmt.Sprint("call ", m.ids), Charges: []quota.Charge{keyCharge(key, n), units}})
	if err != nil {
		rt.Fatal(err)
	}
	rt.Logf("%s  reserve %d of %s: %s", m.now.Format(clockFormat), n, key, tell(v, nil))
	page, busy := key, 0
	for _, key := range keyNames {
		if m.used(key, m.now) > 0 {
			busy++
		}
	}
	has := slices.Contains(known, key)
	if v.Overflow {
		page = noPage
		// Slots that were taken again may have made pages too many. An idle one goes, also that of this key.
		goes := m.used(key, m.now) == 0 && busy >= keyPages
		if has && !goes || len(known) < keyPages {
			rt.Fatalf("%s shares a page, and has one of its own (%t), or has room: %v", key, has, known)
		}
	} else if !has && busy >= keyPages {
		rt.Fatalf("%s got a page, though %d keys have calls in flight", key, busy)
	}
	used := m.used(page, m.now)
	switch fits := used+n <= keySlots; {
	case v.Allowed != fits:
		rt.Fatalf("%d of the page %q: granted %t, but %d of %d are taken", n, page, v.Allowed, used, keySlots)
	case fits:
		if v.Used != used+n {
			rt.Fatalf("granted %d, and says that %d are taken, model %d", n, v.Used, used+n)
		}
		m.calls = append(m.calls, &keyCall{token: v.Token(), page: page, slots: n, at: m.now})
	default:
		late := first(window.At(m.now), func(at window.Instant) bool { return m.used(page, at.Time())+n <= keySlots }).Time()
		if v.Used != used || !v.RetryAt.Equal(late) {
			rt.Fatalf("refused %d: %d taken, retry at %s; model %d, %s", n, v.Used, v.RetryAt, used, late)
		}
	}
}

// some draws calls, also some that have ended.
func (m *keyTrial) some(rt *rapid.T) (calls []*keyCall, tokens []quota.Token) {
	if len(m.calls) == 0 {
		rt.SkipNow()
	}
	for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(m.calls)-1), 1, 3, rapid.ID[int]).Draw(rt, "calls") {
		calls = append(calls, m.calls[i])
		tokens = append(tokens, m.calls[i].token)
	}
	return calls, tokens
}

func (m *keyTrial) slots(rt *rapid.T, done bool, each func(c *keyCall, held bool)) {
	calls, tokens := m.some(rt)
	held, err := m.store(rt).Slots(context.Background(), tokens, done)
	if err != nil {
		rt.Fatal(err)
	}
	for i, c := range calls {
		rt.Logf("%s  slots of %s on %q, done %t: %t", m.now.Format(clockFormat), c.token.ID, c.page, done, held[i])
		each(c, held[i])
	}
}

func (m *keyTrial) renew(rt *rapid.T) {
	m.slots(rt, false, func(c *keyCall, held bool) {
		if held == c.over {
			rt.Fatalf("renewed %s: it has slots: %t, but it has ended: %t", c.token.ID, held, c.over)
		}
		if held && !c.counts(m.now) {
			m.again++
		}
		if held {
			c.at = m.now
		}
	})
}

func (m *keyTrial) end(rt *rapid.T) {
	m.slots(rt, true, func(c *keyCall, held bool) {
		if held && c.over || !held && c.counts(m.now) {
			rt.Fatalf("ended %s: it had slots: %t, but it has ended before: %t", c.token.ID, held, c.over)
		}
		c.over = c.over || held
	})
}

func (m *keyTrial) settle(rt *rapid.T) {
	calls, _ := m.some(rt)
	units := quota.Units{"units": rapid.Int64Range(0, 9).Draw(rt, "units")}
	if rapid.Bool().Draw(rt, "release") {
		units = nil
	}
	for _, c := range calls {
		s, err := m.store(rt).Settle(context.Background(), c.token, units)
		if err != nil {
			rt.Fatal(err)
		}
		rt.Logf("%s  settle %s to %v: %s", m.now.Format(clockFormat), c.token.ID, units, tellSettled(s, nil))
		c.over = c.over || units == nil && !s.Repeat
	}
}

func (m *keyTrial) forward(rt *rapid.T) {
	m.setClock(m.now.Add(rapid.SampledFrom([]time.Duration{
		time.Microsecond, time.Second, 10 * time.Second, 30 * time.Second, keyTTL - time.Microsecond, keyTTL, 90 * time.Second, 29 * time.Minute,
	}).Draw(rt, "by")))
}
