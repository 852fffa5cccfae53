package redisstore

import (
	"cmp"
	"context"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// steady tries the short script, and returns nil if the long one is needed. It returns
// a reply in the form of the long one's.
func (a *ask) steady(ctx context.Context) ([]any, error) {
	c := &a.charges[0]
	if len(a.charges) > 1 || c.Units == 0 || a.id && a.noSpend || a.parts == 0 && a.seats(0) != plain {
		return nil, nil
	}
	keys, args := []string{pageOf(a.tag, c.Pool)}, []any{nil}
	n := packed{make([]byte, 0, 8*(8+3*len(c.Windows)))}
	is := identity(c.Revision, c.Windows)
	if a.parts > 0 {
		is += flag(c.MaxKeys == 0) // as the page of a key without a place has it
	}
	n.add(c.Units, is, a.known[0].Generation, flag(a.id)+flag(a.look))
	if a.noSpend {
		n.add(0, 0, 0, 0)
	} else {
		today, labels := a.store.thisHour(a.around[0], c.Zone), joinLabels(a.labels)
		spend := spendKey(a.tag, c.Pool.Name, today.name+a.mark(0))
		until := micros(a.known[0].Until)
		open := cmp.Or(min(int64(today.end), until-window.Span(c.Windows).Microseconds()), -1)
		n.add(int64(today.start), open, until, micros(a.known[0].Latest))
		keys = append(keys, spend, a.first)
		between, rest := packed{make([]byte, 0, 40)}, packed{make([]byte, 0, 8+len(c.Pool.Name)+len(labels)+len(spend)+2)}
		between.add(0, 0, 0, 0, c.Units)
		rest.add(a.known[0].Generation)
		rest.bytes = append(append(append(rest.bytes, c.Pool.Name+"\x1d"...), labels+"\x1d"...), spend...)
		args = append(args, c.Units, labels, a.nonce[:], between.bytes, rest.bytes, quota.ReceiptLife.Milliseconds())
	}
	for i := range c.Windows {
		w := &c.Windows[i]
		x, y, ok := steadyParameters(w.Spec)
		if !ok {
			return nil, nil
		}
		n.add(w.Limit, x, y)
	}
	args[0] = n.bytes
	reply, err := a.store.send(ctx, a.store.scripts.steady, keys, args)
	list, ok := reply.([]any)
	if err != nil || !ok {
		return nil, err
	}
	now, tight, used, limit, reset := list[0], list[1], list[2], list[3], list[4]
	a.store.tell(now)
	var granted, free, blocked, one, zero any = int64(1), int64(0), int64(0), int64(1), int64(0)
	if len(list) > 5 {
		granted, free, blocked = zero, list[5], list[6]
	} else if !a.noSpend {
		a.store.births.Grew(c.Pool, a.known[0].Generation, instant(now))
	}
	return []any{one, now, granted, one, tight, used, limit, free, reset, zero, now, blocked, ""}, nil
}
