package pgstore

import (
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pagestore"
	"github.com/headroom-quota/headroom/quota/storekit"
)

// writes are what a transaction has to write. A page that several callers changed is
// written once.
type writes struct {
	births        []*entry
	zones         []*family
	dirty         []*entry
	dirtyMembers  []*entry
	dirtyFamilies []*family
	charges       charges
	parts         parts
	settled, kept [][]any // a row each
}

// numbers are columns of integers.
type numbers [5][]int64

func (n *numbers) add(values ...int64) {
	for i, v := range values {
		n[i] = append(n[i], v)
	}
}

func (n *numbers) args(count int) []any {
	all := make([]any, count)
	for i := range count {
		all[i] = n[i]
	}
	return all
}

// charges are the columns of new rows of the table reservations.
type charges struct {
	of      []*entry
	text    [11][]string // upstream, account, pool, id, day, method, job, region, class, reason, key
	nonces  [][]byte
	numbers numbers // made, at, units, reserved, generation
	shared  []bool
}

func (cs *charges) add(made int64, r *quota.Request, c *quota.Charge, e *pagestore.Entry, nonce []byte, day string) {
	l := &r.Labels
	cs.of = append(cs.of, e.Ref.(*entry))
	for i, s := range [...]string{
		e.Pool.Upstream, e.Pool.Account, e.Pool.Name, r.ID, day, l.Method, l.Job, l.Region, l.Class, l.Reason, c.Pool.Key,
	} {
		cs.text[i] = append(cs.text[i], s)
	}
	cs.nonces = append(cs.nonces, nonce)
	cs.numbers.add(made, int64(e.At), e.Units, c.Units, e.Page.Generation)
	cs.shared = append(cs.shared, e.Pool.Key != c.Pool.Key)
}

func (cs *charges) args() []any {
	t, n := &cs.text, &cs.numbers
	return []any{
		t[0], t[1], t[2], t[3], cs.nonces, n[0], n[1], t[4], n[2], n[3], n[4], t[5], t[6], t[7], t[8], t[9], t[10], cs.shared,
	}
}

// parts are the columns of settled parts of charges.
type parts struct {
	numbers, made, units, reserved, calls, back, left, charged []int64
	ids                                                        []string
	nonces                                                     [][]byte
}

func (ps *parts) add(made int64, of *quota.Token, c *pagestore.Taken, calls int64) {
	ps.numbers, ps.ids, ps.nonces = append(ps.numbers, c.Ref), append(ps.ids, of.ID), append(ps.nonces, of.Nonce[:])
	ps.made, ps.units, ps.reserved = append(ps.made, made), append(ps.units, c.Recorded-c.Units), append(ps.reserved, c.Units)
	ps.calls, ps.back = append(ps.calls, calls), append(ps.back, c.Done.Back)
	ps.left, ps.charged = append(ps.left, c.Done.Left), append(ps.charged, c.Done.Charged)
}

func (ps *parts) args() []any {
	return []any{ps.numbers, ps.ids, ps.nonces, ps.made, ps.units, ps.reserved, ps.calls, ps.back, ps.left, ps.charged}
}

// queue moves what waits into a batch. A charge needs the birth of its pool.
func (t *tx) queue(batch *pgx.Batch) error {
	w := &t.writes
	if len(w.births) > 0 {
		batch.Queue(t.b.sql["births_save"], birthArgs(w.births)...)
	}
	if len(w.zones) > 0 {
		batch.Queue(t.b.sql["zones_save"], zoneArgs(w.zones)...)
	}
	args, err := pageArgs(w.dirty)
	if err != nil {
		return err
	}
	switch one := w.single(); {
	case one != nil:
		args = append(append(first(args), one.number), first(w.charges.args()[3:16])...)
		batch.Queue(t.b.sql["charge_add"], args...).Exec(stored(1))
	default:
		if len(w.dirty) > 0 {
			batch.Queue(t.b.sql["pools_save"], args...)
		}
		if n := len(w.charges.of); n > 0 {
			batch.Queue(t.b.sql["charges_add"], w.charges.args()...).Exec(stored(n))
		}
	}
	for _, row := range w.settled {
		batch.Queue(t.b.sql["settle"], row...)
	}
	if len(w.parts.numbers) > 0 {
		batch.Queue(t.b.sql["settle_parts"], w.parts.args()...)
	}
	for _, row := range w.kept {
		batch.Queue(t.b.sql["keep"], row...)
	}
	var gone columns
	var stay []*entry
	for _, e := range w.dirtyMembers {
		if e.dirty = false; e.dropped {
			gone.add(e.Pool.Upstream, e.Pool.Account, e.Pool.Name, e.Pool.Key)
		} else {
			stay = append(stay, e)
		}
	}
	if len(gone[0]) > 0 {
		batch.Queue(t.b.sql["drop"], gone.args(4)...)
	}
	if len(stay) > 0 {
		args, err := memberArgs(stay)
		if err != nil {
			return err
		}
		batch.Queue(t.b.sql["members_save"], args...)
	}
	if len(w.dirtyFamilies) > 0 {
		batch.Queue(t.b.sql["families_save"], familyArgs(w.dirtyFamilies)...)
	}
	*w = writes{}
	return nil
}

// single returns the pool if all that is charged is one pool once, and its page and its birth
// have rows.
func (w *writes) single() *entry {
	if len(w.dirty) == 1 && len(w.charges.of) == 1 && w.dirty[0] == w.charges.of[0] && w.dirty[0].stored && w.dirty[0].number != 0 {
		return w.dirty[0]
	}
	return nil
}

// stored returns an error if another number of charges was stored.
func stored(want int) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		if got := tag.RowsAffected(); got != int64(want) {
			return fmt.Errorf("%d of %d charges were stored: rows of headroom_ledger.births or pools are missing", got, want)
		}
		return nil
	}
}

// first returns the first element of each argument, for statements that take no arrays.
func first(args []any) []any {
	for i := range args {
		switch all := args[i].(type) {
		case []string:
			args[i] = all[0]
		case []int64:
			args[i] = all[0]
		case [][]byte:
			args[i] = all[0]
		}
	}
	return args
}

func birthArgs(all []*entry) []any {
	var names columns
	var times numbers
	for _, e := range all {
		e.birth = false
		names.add(e.Pool.Upstream, e.Pool.Account, e.Pool.Name, e.zone)
		times.add(int64(e.born), int64(e.until))
	}
	return append(names.args(4), times.args(2)...)
}

func zoneArgs(all []*family) []any {
	var names columns
	for _, f := range all {
		f.birth = false
		names.add(f.Upstream, f.Account, f.Pool, f.zone)
	}
	return names.args(4)
}

func pageArgs(all []*entry) ([]any, error) {
	var names, words columns
	var times numbers
	var pages [][]byte
	for _, e := range all {
		e.dirty = false
		p := e.Page
		names.add(e.Pool.Upstream, e.Pool.Account, e.Pool.Name)
		times.add(int64(p.Born), p.Revision, int64(p.Latest), int64(p.Blocked))
		words.add(e.Reason, e.names, storekit.UsedText(p))
		bytes, err := p.AppendBinary(nil)
		if err != nil {
			return nil, err
		}
		pages = append(pages, bytes)
	}
	return append(append(append(names.args(3), times.args(4)...), words.args(3)...), pages), nil
}

func memberArgs(all []*entry) ([]any, error) {
	var names, words columns
	var times numbers
	var pages [][]byte
	var listed []bool
	for _, e := range all {
		p := e.Page
		names.add(e.Pool.Upstream, e.Pool.Account, e.Pool.Name, e.Pool.Key)
		words.add(e.names, storekit.UsedText(p), e.Reason)
		times.add(int64(max(p.Latest, e.Behind)))
		bytes, err := p.AppendBinary(nil)
		if err != nil {
			return nil, err
		}
		pages = append(pages, bytes)
		listed = append(listed, e.Listed)
	}
	return append(names.args(4), words[0], words[1], times[0], pages, listed, words[2]), nil
}

func familyArgs(all []*family) []any {
	var names columns
	var values numbers
	for _, f := range all {
		f.dirty = false
		names.add(f.Upstream, f.Account, f.Pool)
		values.add(int64(f.Members), int64(f.Called), int64(f.Leapt), int64(f.Proven))
	}
	return append(names.args(3), values.args(4)...)
}
