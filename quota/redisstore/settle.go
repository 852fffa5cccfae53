package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

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
	if t.ID == quota.ReadyID { // a server may answer and refuse all writes: its memory or its disk is full, or a replica is missing
		if _, err := s.text(ctx, "set", probeKey(tag), "1", "ex", 60); err != nil {
			return quota.Settlement{}, err
		}
	}
	key := receiptKey(tag, t.ID)
	receipt, err := s.text(ctx, "get", key)
	var part storekit.Part
	whole, is := t, err == nil && receipt == ""
	if is {
		part, whole, receipt, err = s.whole(ctx, tag, &t)
	}
	if err != nil {
		return quota.Settlement{}, err
	}
	all, labels := chargesOf(tag, whole, receipt)
	if all == nil {
		return quota.Settlement{}, storekit.NoReceipt(t)
	}
	var pools []string
	var reserved []int64
	for i := range all {
		if isSlot(all[i].day) {
			continue
		}
		if is {
			all[i].units = part.Units[i]
		}
		pools, reserved = append(pools, all[i].pool.Name), append(reserved, all[i].units)
	}
	settled, err := units.InOrder(pools)
	if err != nil {
		return quota.Settlement{}, err
	}
	if double(receipt[16:], 2) == 0 { // it was not settled yet
		if err := t.CheckCost(pools, reserved, settled); err != nil {
			return quota.Settlement{}, err
		}
	}
	a := &ask{store: s, script: s.scripts.settle, tag: tag, first: receiptKey(tag, whole.ID), id: true, nonce: whole.Nonce, labels: labels, kept: true, extra: []any{"", ""}}
	var atEnd, of packed
	for i := range all {
		c, err := s.laidOut(ctx, &all[i])
		if _, gone := errors.AsType[*quota.ForgottenError](err); gone && c.Pool.Key != "" {
			err = nil // it was idle: nothing of it counts
		}
		if err != nil {
			return quota.Settlement{}, err
		}
		var days []string
		if isSlot(all[i].day) { // it is not named: it is given back if the call is released, and else it stays
			c.Units = flag(units != nil)
			atEnd.add(0)
		} else {
			c.Units, settled, days = settled[0], settled[1:], []string{all[i].day}
			atEnd.add(flag(c.Units > 0 && t.AtEnd(c.Pool.Name)))
		}
		if is {
			of.add(part.Units[i], part.MoreCalls(i, c.Units))
		}
		a.charges, a.days = append(a.charges, c), append(a.days, days)
	}
	if is {
		a.more, a.extra = []string{key}, []any{of.bytes, t.Nonce[:]}
	}
	a.extra = append(a.extra, atEnd.bytes)
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

// whole reads the receipt of the reservation that a token is a part of.
func (s *Store) whole(ctx context.Context, tag string, t *quota.Token) (part storekit.Part, whole quota.Token, receipt string, err error) {
	part, is := storekit.ReadPart(t.ID)
	if !is {
		return part, whole, "", storekit.NoReceipt(*t)
	}
	if receipt, err = s.text(ctx, "get", receiptKey(tag, part.Of)); err != nil {
		return part, whole, "", err
	}
	whole = *t
	whole.ID = part.Of
	if copy(whole.Nonce[:], receipt) < len(whole.Nonce) { // it is missing
		return part, whole, "", storekit.NoReceipt(*t)
	}
	all, _ := chargesOf(tag, whole, receipt)
	return part, whole, receipt, part.Check(t, whole.Nonce, len(all))
}

// A slot has one of these in a receipt, in the place of its spend key: TAKEN and BACK of
// request.lua.
const slotTaken, slotBack = "slot", "back"

func isSlot(day string) bool { return day == slotTaken || day == slotBack }

// charged is a charge of a receipt.
type charged struct {
	pool  quota.Pool // of a key that has no seat, that of the page that such keys share
	page  string
	day   string    // the key of its spend, or what a slot has in its place
	units int64     // that were reserved
	born  time.Time // its page, or later
}

// chargesOf reads the receipt of a token; nil if it is another one's.
func chargesOf(tag string, t quota.Token, receipt string) (all []charged, labels quota.Labels) {
	if !strings.HasPrefix(receipt, string(t.Nonce[:])) {
		return nil, labels
	}
	var pools, days []string
	for n := 1; len(pools) == 0; n++ {
		texts := 16 + 8*(5+3*n) // before them are 5 doubles, and 3 for each of n pools
		if texts > len(receipt) {
			return nil, labels
		}
		if f := strings.Split(receipt[texts:], "\x1d"); len(f) == 3 && strings.Count(f[0], "\x1e") == n-1 && strings.Count(f[2], "\x1e") == n-1 {
			pools, labels, days = strings.Split(f[0], "\x1e"), splitLabels(f[1]), strings.Split(f[2], "\x1e")
		}
	}
	for i := range pools {
		c := charged{pool: quota.Pool{Upstream: t.Upstream, Account: t.Account}}
		c.pool.Name, c.pool.Key, _ = strings.Cut(pools[i], "\x1f")
		shared := false
		if c.day, shared = strings.CutSuffix(days[i], "\x1f"); shared {
			c.pool.Key = overflowKey
		}
		c.page = pageOf(tag, c.pool)
		c.units = double(receipt[16:], 3+3*(i+1))
		c.born = window.Instant(double(receipt[16:], 5+3*(i+1))).Time() // a generation begins with a birth
		all = append(all, c)
	}
	return all, labels
}

// laidOut returns a charge with the windows and the revision of its page.
func (s *Store) laidOut(ctx context.Context, of *charged) (quota.Charge, error) {
	page, pool, c := of.page, of.pool, quota.Charge{Pool: of.pool}
	head, err := s.text(ctx, "getrange", page, 0, 4095)
	if err != nil {
		return c, err
	}
	foreign := fmt.Errorf("%s holds something else, not the page of %s: delete it, or give the store a prefix of its own", page, pool)
	if len(head) == 0 {
		return c, &quota.ForgottenError{Pool: pool, Born: of.born}
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
