package redisstore_test

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// The keys of a family expire by the server's clock, seconds after their last charge
// stops counting.
func TestMembersExpireWithTheirWindow(t *testing.T) {
	c, p := dial(t, server.Addr), prefix()
	s := open(t, c, p)
	const span = 20 * time.Minute
	spec, err := window.Spec{Per: span, Algorithm: window.Exact}.Normal()
	if err != nil {
		t.Fatal(err)
	}
	reserve := func(key string, most int, units int64) {
		t.Helper()
		_, err := s.Reserve(bg, quota.Request{Charges: []quota.Charge{{
			Pool:  quota.Pool{Upstream: "client", Account: quota.DefaultAccount, Key: key},
			Units: units, Windows: []window.Limit{window.NewLimit(spec, 5)}, Revision: 1, MaxKeys: most,
		}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	reserve("enrolled", 1, 1)
	reserve("listed", 0, 1)
	reserve("shared", 1, 1)
	for range 2 { // also where it is not the first time
		reserve("enrolled", 1, 1)
		reserve("listed", 0, 1)
		reserve("shared", 1, 1)
		reserve("enrolled", 1, 5) // refused
	}
	keys, err := c.Keys(bg, p+"{client/default/0/1}*").Result()
	if err != nil || len(keys) != 7 {
		t.Fatalf("%q, %v; want the places of the members, and of three a page and a log", keys, err)
	}
	for _, key := range keys {
		left, err := c.PTTL(bg, key).Result()
		if err != nil || left <= span-time.Minute || left > span+time.Minute {
			t.Errorf("%s expires in %s, %v; want about %s", key, left, err, span)
		}
	}
}

// A page may have a later expiry, from an older version or from a clock that was ahead.
// After its next charge it expires as soon as any other page.
func TestMembersExpireSoonerThanTheyDid(t *testing.T) {
	c, p := dial(t, server.Addr), prefix()
	s := open(t, c, p)
	spec, err := window.Spec{Per: time.Minute, Precision: time.Second}.Normal()
	if err != nil {
		t.Fatal(err)
	}
	charge := quota.Charge{
		Pool:  quota.Pool{Upstream: "client", Account: quota.DefaultAccount, Key: "a"},
		Units: 1, Windows: []window.Limit{window.NewLimit(spec, 5)}, Revision: 1,
	}
	reserve := func() {
		t.Helper()
		if _, err := s.Reserve(bg, quota.Request{Charges: []quota.Charge{charge}}); err != nil {
			t.Fatal(err)
		}
	}
	reserve()
	key := p + "{client/default/0/1}:page::key:a"
	// An older version kept the page until two hours after its window. The eighth double
	// of the header says so. Steady may use the page until an hour before that.
	for _, at := range []int64{1, 6 + 3 + 6} {
		double, err := c.GetRange(bg, key, 8*at, 8*at+7).Bytes()
		if err != nil {
			t.Fatal(err)
		}
		c.SetRange(bg, key, 8*at, string(later(double, 2*time.Hour)))
	}
	c.PExpire(bg, key, 2*time.Hour)
	charge.Revision++ // past steady
	reserve()
	if left := c.PTTL(bg, key).Val(); left > 2*time.Minute {
		t.Errorf("expires in %s", left)
	}
}

// later adds to an instant, as a page has it.
func later(double []byte, d time.Duration) []byte {
	at := math.Float64frombits(binary.LittleEndian.Uint64(double))
	return binary.LittleEndian.AppendUint64(nil, math.Float64bits(at+float64(d.Microseconds())))
}

// A page is kept for as long as its bucket needs to drain, however far above its limit
// the level is.
func TestAPageOutlivesItsBucket(t *testing.T) {
	c, p := dial(t, server.Addr), prefix()
	s := open(t, c, p)
	spec, err := window.Spec{Per: time.Second, Algorithm: window.Leaky, Rate: 1}.Normal()
	if err != nil {
		t.Fatal(err)
	}
	charge := units(100_000, 0) // that takes 100,000 seconds
	charge.Windows = []window.Limit{window.NewLimit(spec, 10)}
	if _, err := s.Record(bg, quota.Request{Charges: []quota.Charge{charge}}); err != nil {
		t.Fatal(err)
	}
	left, err := c.PTTL(bg, p+"{api/default}:page:units").Result()
	if err != nil || left < 100_000*time.Second {
		t.Errorf("it is kept for %s (%v), and counts for %s", left, err, 100_000*time.Second)
	}
}
