package redisstore_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/redisclock"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storetest"
	"github.com/headroom-quota/headroom/quota/window"
)

// A refusal takes only the short script, both in the bucket of the last grant and hours
// later. Refused callers retry often, so refusals must be cheap.
func TestARefusalTakesOneScript(t *testing.T) {
	server := start(t)
	clock := storetest.NewClock()
	redisclock.Set(clock.Now)
	t.Cleanup(func() { redisclock.Set(nil) })
	s := open(t, dial(t, server.Addr), prefix())
	full := quota.Request{ID: "full", Fresh: true, Charges: []quota.Charge{units(100, 100)}}
	granted(t, "all there is", s, full)
	granted(t, "again, so that the births are known", s, quota.Request{ID: "full", Charges: full.Charges})
	for i, later := range []time.Duration{0, time.Second, time.Minute, 5 * time.Hour, 18 * time.Hour, 48 * time.Hour} {
		clock.Advance(later)
		used := int64(100)
		if i == 4 {
			if err := s.Block(bg, quota.BlockRequest{Charges: full.Charges, For: 1000 * time.Hour}); err != nil {
				t.Fatal(err)
			}
		} else if i == 5 {
			used = 0 // and yet there is the block
		}
		run(t, server, "config", "resetstat")
		v, err := s.Reserve(bg, quota.Request{ID: fmt.Sprint(i), Fresh: true, Charges: []quota.Charge{units(1, 100)}})
		if err != nil || v.Allowed || v.Used != used || v.Blocked != (i >= 4) || v.RetryAfter <= 0 {
			t.Errorf("%s later: %+v, %v; want a refusal", later, v, err)
		}
		stats, _ := run(t, server, "info", "commandstats").(string)
		if _, stats, _ = strings.Cut(stats, "cmdstat_evalsha:calls="); !strings.HasPrefix(stats, "1,") {
			t.Errorf("%s later: %.20q scripts, want 1", later, stats)
		}
	}
}

// The short script and the long one return the same refusal. A process that does not know
// the page yet uses the long one.
func TestARefusalIsTheSameEitherWay(t *testing.T) {
	clock := storetest.NewClock()
	redisclock.Set(clock.Now)
	t.Cleanup(func() { redisclock.Set(nil) })
	c := dial(t, server.Addr)
	const limit = 100
	for i, windows := range [][]window.Spec{
		{{Per: time.Hour}},
		{{Per: time.Hour}, {Per: 10 * time.Minute}},
		{{Per: time.Hour, Wide: true}},
		{{Per: time.Hour, Wide: true, Late: time.Minute}, {Per: 2 * time.Hour}},
		{{Per: time.Hour, Algorithm: window.Estimate}},
		{{Period: window.Day}, {Per: time.Hour}},
		{{Per: time.Hour, Algorithm: window.Estimate}, {Per: 24 * time.Hour}, {Period: window.Hour}},
	} {
		random := rand.New(rand.NewPCG(2, uint64(i)))
		charge := units(0, limit)
		charge.Windows = nil
		for _, spec := range windows {
			spec, err := spec.Normal()
			if err != nil {
				t.Fatal(err)
			}
			charge.Windows = append(charge.Windows, window.NewLimit(spec, limit-int64(len(charge.Windows))))
		}
		p := prefix()
		s := open(t, c, p)
		var refused, blocked int
		for range scaled(150, 10_000) {
			clock.Advance(time.Duration(random.IntN(600_000)) * time.Millisecond)
			if random.IntN(10) == 0 {
				b := quota.BlockRequest{Charges: []quota.Charge{charge}, For: time.Duration(1+random.IntN(48)) * time.Hour}
				b.Open = random.IntN(2) == 0
				if err := s.Block(bg, b); err != nil {
					t.Fatal(err)
				}
			}
			charge.Units = 1 + random.Int64N(limit/2)
			r := quota.Request{Charges: []quota.Charge{charge}}
			v, err := s.Reserve(bg, r)
			if err != nil {
				t.Fatal(err)
			}
			if v.Allowed {
				continue
			}
			refused++
			if v.Blocked {
				blocked++
			}
			if long, err := open(t, c, p).Reserve(bg, r); err != nil || long != v {
				t.Fatalf("%v:\nthe short way %+v\n the long way %+v, %v", charge.Windows, v, long, err)
			}
		}
		if refused-blocked < 5 || blocked < 5 {
			t.Errorf("%v: %d refusals, %d of them blocks, are too few to tell", charge.Windows, refused, blocked)
		}
	}
}

// A refusal reads the ring from its oldest units on, until enough of them come back. Most of
// the ring is not read, wherever the units are.
func TestARefusalReadsLittle(t *testing.T) {
	server := start(t)
	clock := movedClock(t)
	s := open(t, dial(t, server.Addr), prefix())
	charge := units(1, 1000)
	charge.Windows = charge.Windows[:1]
	for i := range 500 { // two units a minute, but for the first hours
		if i == 1 {
			clock.Advance(12 * time.Hour)
		}
		clock.Advance(time.Minute)
		charge.Units = 2
		granted(t, "a grant", s, quota.Request{Charges: []quota.Charge{charge}})
	}
	charge.Units = 20
	conn, err := net.Dial("tcp", server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	if _, err := fmt.Fprint(conn, "MONITOR\r\n"); err != nil || !lines.Scan() || lines.Text() != "+OK" {
		t.Fatal(lines.Text(), err)
	}
	v, err := s.Reserve(bg, quota.Request{Charges: []quota.Charge{charge}})
	if err != nil || v.Allowed || v.RetryAfter <= 0 {
		t.Fatalf("%+v, %v; want a refusal", v, err)
	}
	run(t, server, "echo", "done")
	read := 0
	for lines.Scan() && !strings.Contains(lines.Text(), `"done"`) {
		f := strings.Fields(lines.Text()) // +time [0 lua] "GETRANGE" "key" "from" "to"
		if !strings.Contains(strings.ToUpper(lines.Text()), `LUA] "GETRANGE"`) || len(f) < 7 {
			continue
		}
		from, err := strconv.Atoi(strings.Trim(f[5], `"`))
		to, wrong := strconv.Atoi(strings.Trim(f[6], `"`))
		if err != nil || wrong != nil {
			t.Fatal(lines.Text(), err, wrong)
		}
		read += to - from + 1
	}
	if read == 0 || read > 600 {
		t.Errorf("a refusal read %d bytes of a page with a ring of 5,764, want a few hundred", read)
	}
}
