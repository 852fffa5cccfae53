package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// Settle implements [quota.Store]. It is the rare case, so it may take three round
// trips: the receipt says which pages, the pages say how they are laid out.
func (s *Store) Settle(ctx context.Context, t quota.Token, units quota.Units) (quota.Settlement, error) {
	if err := s.ready(ctx); err != nil {
		return quota.Settlement{}, err
	}
	tag := s.tag(quota.Pool{Upstream: t.Upstream, Account: t.Account})
	key := receiptKey(tag, t.ID)
	get := redis.NewStringCmd(ctx, "get", key)
	if err := s.do(ctx, get); errors.Is(err, redis.Nil) {
		return quota.Settlement{}, storekit.NoReceipt(t)
	} else if err != nil {
		return quota.Settlement{}, err
	}
	fields, labels, days := readReceipt(get.Val())
	if fields == nil || get.Val()[:16] != string(t.Nonce[:]) {
		return quota.Settlement{}, storekit.NoReceipt(t)
	}
	pools, keys, shared := make([]string, len(fields)), make([]string, len(fields)), make([]bool, len(fields))
	for i, f := range fields {
		pools[i], keys[i], _ = strings.Cut(f, "\x1f")
		days[i], shared[i] = strings.CutSuffix(days[i], "\x1f")
	}
	settled, err := inOrder(units, pools, days)
	if err != nil {
		return quota.Settlement{}, err
	}
	a := &ask{store: s, script: s.scripts.settle, tag: tag, first: key, id: true, nonce: t.Nonce, labels: labels}
	for i, name := range pools {
		born := window.Instant(double(get.Val()[16:], 5+3*(i+1))) // a generation begins with a birth
		pool := quota.Pool{Upstream: t.Upstream, Account: t.Account, Name: name, Key: keys[i]}
		page := pageOf(tag, pool)
		if shared[i] {
			page = sharedPage(tag, pool)
		}
		c, err := s.laidOut(ctx, page, pool)
		if forgotten, gone := errors.AsType[*quota.ForgottenError](err); gone {
			forgotten.Born = born.Time()
			if pool.Key != "" { // it was idle: nothing of it counts
				c, err = quota.Charge{Pool: pool}, nil
			}
		}
		if err != nil {
			return quota.Settlement{}, err
		}
		a.pages = append(a.pages, page)
		c.Units = settled[i]
		a.charges = append(a.charges, c)
		if isSlot(days[i]) {
			a.days = append(a.days, nil)
		} else {
			a.days = append(a.days, []string{days[i]})
		}
	}
	reply, err := a.run(ctx)
	if err != nil {
		return quota.Settlement{}, err
	}
	if integer(reply[0]) == replyGone {
		return quota.Settlement{}, storekit.NoReceipt(t)
	}
	return quota.Settlement{
		Back: integer(reply[2]), Left: integer(reply[3]), Charged: integer(reply[4]), Repeat: integer(reply[5]) == 1,
	}, s.remember(ctx, a, reply[6:])
}

// inOrder is [quota.Units.InOrder] of a receipt. A slot is not named: it is settled to 0 if
// the call is released, else to 1, which means that it stays.
func inOrder(units quota.Units, pools, days []string) (all []int64, err error) {
	var named []string
	for i := range pools {
		if !isSlot(days[i]) {
			named = append(named, pools[i])
		}
	}
	settled, err := units.InOrder(named)
	if err != nil {
		return nil, err
	}
	for i := range pools {
		if isSlot(days[i]) {
			all = append(all, flag(units != nil))
		} else {
			all, settled = append(all, settled[0]), settled[1:]
		}
	}
	return all, nil
}

// A slot has one of these in a receipt, in the place of its spend key: TAKEN and BACK of
// request.lua.
const slotTaken, slotBack = "slot", "back"

func isSlot(day string) bool { return day == slotTaken || day == slotBack }

// readReceipt reads the text of a receipt: pools, labels and spend keys.
func readReceipt(s string) (pools []string, labels quota.Labels, days []string) {
	// the numbers before it are 5 doubles and 3 per pool
	for n := 1; 16+8*(5+3*n) <= len(s); n++ {
		f := strings.Split(s[16+8*(5+3*n):], "\x1d")
		if len(f) != 3 {
			continue
		}
		pools, days = strings.Split(f[0], "\x1e"), strings.Split(f[2], "\x1e")
		if len(pools) == n && len(days) == n {
			return pools, splitLabels(f[1]), days
		}
	}
	return nil, quota.Labels{}, nil
}

// laidOut returns a charge with the windows and the revision of a page.
func (s *Store) laidOut(ctx context.Context, page string, pool quota.Pool) (quota.Charge, error) {
	c := quota.Charge{Pool: pool}
	get := redis.NewStringCmd(ctx, "getrange", page, 0, 4095)
	if err := s.do(ctx, get); err != nil {
		return c, err
	}
	head := get.Val()
	foreign := fmt.Errorf("%s holds something else, not the page of %s: delete it, or give the store a prefix of its own", page, pool)
	if len(head) == 0 {
		return c, &quota.ForgottenError{Pool: pool}
	}
	if len(head) < 8*4 {
		return c, foreign
	}
	n := int(double(head, 4))
	if n < 1 || n > maxWindows {
		return c, foreign
	}
	from := pageFirst + 3*n // where the header begins
	at := 8 * (from + pageHead + pageState*n)
	if len(head) < at+2 {
		return c, foreign
	}
	c.Revision = double(head, from+4)
	end := at + 2 + int(binary.LittleEndian.Uint16([]byte(head[at:at+2])))
	if len(head) < end {
		return c, foreign
	}
	var err error
	c.Windows, err = parseLayouts(head[at+2 : end])
	return c, err
}

// The numbers of doubles in each part of a page, as the prelude lays them out.
const (
	pageFirst = 6 // and 3 per window
	pageHead  = 10
	pageState = 7 // per window

	maxWindows = 1000
)

// double reads one of a page's doubles, the first being 1.
func double(page string, i int) int64 {
	return int64(math.Float64frombits(binary.LittleEndian.Uint64([]byte(page[8*(i-1) : 8*i]))))
}
