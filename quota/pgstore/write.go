package pgstore

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pgstore/pgschema"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// writes are what a transaction has to write. A page that several callers changed is
// written once.
type writes struct {
	births        []*entry
	zones         []*family
	dirty         []*entry
	dirtyMembers  []*entry
	dirtyFamilies []*family
	charges       rows
	charged       []*entry // by charge
	parts         rows
	settled, kept rows
}

// rows are the arguments of a statement, a row each: strings, integers, bytes and bools.
type rows [][]any

// queue moves what waits into a batch. A charge needs the birth of its pool.
func (t *tx) queue(batch *pgx.Batch) error {
	w := &t.writes
	save := func(name string, rs rows) *pgx.QueuedQuery {
		if len(rs) == 0 {
			return nil
		}
		return batch.Queue(t.b.sql[name], pgschema.Arrays(rs)...)
	}
	var births, zones, pages, members, gone, families rows
	for _, e := range w.births {
		e.birth = false
		births = append(births, []any{e.Pool.Upstream, e.Pool.Account, e.Pool.Name, e.zone, int64(e.born), int64(e.until)})
	}
	for _, f := range w.zones {
		f.birth = false
		zones = append(zones, []any{f.Upstream, f.Account, f.Pool, f.zone})
	}
	for _, e := range w.dirty {
		e.dirty = false
		p := e.Page
		bytes, err := p.AppendBinary(nil)
		if err != nil {
			return err
		}
		pages = append(pages, []any{
			e.Pool.Upstream, e.Pool.Account, e.Pool.Name, int64(p.Born), p.Revision, int64(p.Latest), int64(p.Blocked),
			e.Reason, e.names, storekit.UsedText(p), bytes,
		})
	}
	save("births_save", births)
	save("zones_save", zones)
	if one := w.single(); one != nil {
		args := append(append(pages[0], one.number), w.charges[0][3:16]...)
		batch.Queue(t.b.sql["charge_add"], args...).Exec(stored(1))
	} else {
		save("pools_save", pages)
		if q := save("charges_add", w.charges); q != nil {
			q.Exec(stored(len(w.charges)))
		}
	}
	for _, row := range w.settled {
		batch.Queue(t.b.sql["settle"], row...)
	}
	save("settle_parts", w.parts)
	for _, row := range w.kept {
		batch.Queue(t.b.sql["keep"], row...)
	}
	for _, e := range w.dirtyMembers {
		e.dirty = false
		name := []any{e.Pool.Upstream, e.Pool.Account, e.Pool.Name, e.Pool.Key}
		if e.dropped {
			gone = append(gone, name)
			continue
		}
		bytes, err := e.Page.AppendBinary(nil)
		if err != nil {
			return err
		}
		members = append(members, append(name, e.names, storekit.UsedText(e.Page), int64(max(e.Page.Latest, e.Behind)), bytes, e.Listed, e.Reason))
	}
	save("drop", gone)
	save("members_save", members)
	for _, f := range w.dirtyFamilies {
		f.dirty = false
		families = append(families, []any{f.Upstream, f.Account, f.Pool, int64(f.Members), int64(f.Called), int64(f.Leapt), int64(f.Proven)})
	}
	save("families_save", families)
	*w = writes{}
	return nil
}

// single returns the pool if all that is charged is one pool once, and its page and its birth
// have rows.
func (w *writes) single() *entry {
	if len(w.dirty) == 1 && len(w.charged) == 1 && w.dirty[0] == w.charged[0] && w.dirty[0].stored && w.dirty[0].number != 0 {
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

const (
	// pruneEvery is the time between searches for charges that are too old.
	pruneEvery = time.Hour
	// prunedAtOnce bounds the charges that one transaction deletes.
	prunedAtOnce = 2000
)

// pruneSoon deletes charges that are too old, in the background, once an hour. It is beside the
// calls, whose locks it does not need.
func (b *server) pruneSoon(now time.Time) {
	const busy = math.MaxInt64
	this, last := int64(window.At(now)), b.pruned.Load()
	ago := window.Instant(this).Sub(window.Instant(last))
	if last == busy || last != 0 && ago >= 0 && ago < pruneEvery || !b.pruned.CompareAndSwap(last, busy) {
		return
	}
	b.pruning.Go(func() {
		for b.pruneSome(window.Instant(this)) == prunedAtOnce {
		}
		b.pruned.Store(this)
	})
}

// pruneSome returns how many charges it deleted. If it fails, the next hour tries again.
func (b *server) pruneSome(now window.Instant) (n int64) {
	ctx, cancel := context.WithTimeout(b.living, time.Minute)
	defer cancel()
	select {
	case b.slow <- struct{}{}:
		defer func() { <-b.slow }()
	case <-ctx.Done():
		return 0
	}
	oldest := now.Add(-storekit.KeptFor)
	if err := b.pool.QueryRow(ctx, b.sql["prune"], int64(oldest), int64(now.Add(-quota.ReceiptLife)), int64(prunedAtOnce)).Scan(&n); err != nil {
		return 0
	}
	return n
}
