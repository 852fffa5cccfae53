package pgstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pagestore"
	"github.com/headroom-quota/headroom/quota/pgstore/pgschema"
	"github.com/headroom-quota/headroom/quota/window"
)

// query is a statement with what becomes of its rows.
type query struct {
	name string
	args []any
	into []any
	each func() error
}

// wanted is all that Load reads, each once.
type wanted struct {
	pools, families, members []quota.Pool
	receipts                 []pagestore.ReceiptID
	locks                    []int64
}

// add adds a name that PostgreSQL can hold, once.
func add[T comparable](all []T, one T, names ...string) []T {
	if slices.Contains(all, one) || slices.ContainsFunc(names, func(name string) bool { return !valid(name) }) {
		return all
	}
	return append(all, one)
}

func (t *tx) wants(s *pagestore.Scope) *wanted {
	w := &wanted{}
	lock := func(kind, upstream, account string) {
		// A family's requests do not wait for those of its account.
		text := t.b.schema.Name + "\x00" + kind + "\x00" + upstream + "\x00" + account
		sum := sha256.Sum256([]byte(text))
		w.locks = append(w.locks, int64(binary.BigEndian.Uint64(sum[:])))
	}
	for i := range s.Charges {
		p := s.Charges[i].Pool
		kind := "account"
		if p.Name == "" {
			kind = "family"
		}
		lock(kind, p.Upstream, p.Account)
		if p.Key == "" {
			w.pools = add(w.pools, p, p.Upstream, p.Account, p.Name)
			continue
		}
		w.members = add(w.members, p, p.Upstream, p.Account, p.Name, p.Key)
		if key := p.Key; valid(key) {
			p.Key = ""
			w.families = add(w.families, p, p.Upstream, p.Account, p.Name)
		}
	}
	for _, r := range s.Receipts {
		lock("account", r.Upstream, r.Account)
		w.receipts = add(w.receipts, r, r.Upstream, r.Account, r.ID)
	}
	slices.Sort(w.locks) // all in one order: no two transactions wait for each other
	w.locks = slices.Compact(w.locks)
	return w
}

// names are arguments for the names of pools, without their keys.
func names(pools []quota.Pool) rows {
	all := make(rows, len(pools))
	for i := range pools {
		all[i] = []any{pools[i].Upstream, pools[i].Account, pools[i].Name}
	}
	return all
}

// Load implements [pagestore.Tx]: one round trip. Its statements see what was committed
// before the locks were free, because each has its own snapshot.
func (t *tx) Load(s *pagestore.Scope) error {
	w := t.wants(s)
	err := t.begin(w)
	for tries := 0; retriable(err) && tries < 5 && t.ctx.Err() == nil; tries++ { // nothing was written
		t.conn.Release()
		if t.conn, err = t.b.pool.Acquire(t.ctx); err != nil {
			t.conn = nil
			break
		}
		err = t.begin(w)
	}
	if t.failed = t.b.fault("read", err); err != nil {
		return t.failed
	}
	t.notFound(w)
	return nil
}

// retriable reports whether a connection was lost, such as one that was idle when the
// server restarted.
func retriable(err error) bool {
	if err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return false
	}
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return !ok || refused.Code == "57P01" || refused.Code == "57P02" // the server is going down
}

// begin begins the transaction and reads. It may be called again if it failed.
func (t *tx) begin(w *wanted) error {
	t.now = time.Time{}
	clear(t.pools)
	clear(t.members)
	clear(t.families)
	clear(t.receipts)
	queries := []query{t.pages(w.pools...)}
	if len(w.receipts) > 0 {
		receipts := t.findReceipts(w.receipts...)
		queries = append(queries, receipts, t.pagesOf("receipt_pages", receipts.args))
	}
	if len(w.families) > 0 {
		queries = append(queries, t.findFamilies(w.families...), t.findKeys(w.members...))
		if !t.reads {
			queries = append(queries, t.findOldest(w.families...))
		}
	}
	batch := &pgx.Batch{}
	t.begun = !t.reads
	consistent := t.reads && len(queries) > 1
	switch {
	case !t.reads:
		batch.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
		for i, lock := range w.locks {
			if i > 0 {
				batch.Queue(t.b.sql["lock_more"], lock)
				continue
			}
			batch.Queue(t.b.sql["lock"], millis(t.lockTimeout()), millis(idleTimeout), lock)
		}
	case consistent:
		batch.Queue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	}
	for _, q := range queries {
		t.add(batch, q)
	}
	if consistent {
		batch.Queue("COMMIT")
	}
	return t.send(batch)
}

// lockTimeout is how long the server waits for a lock. Without it, a session would wait for
// ever for a client that is gone.
func (t *tx) lockTimeout() time.Duration {
	most := transactionDeadline
	if end, ok := t.ctx.Deadline(); ok { // of the transaction, not of a caller; the rest is for its writes
		most = min(most, end.Sub(quota.SystemClock{}.Now())/2)
	}
	return max(most, time.Millisecond) // 0 is for ever
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }

// notFound notes what the server does not have, so that it is not asked again.
func (t *tx) notFound(w *wanted) {
	for _, key := range w.receipts {
		if _, ok := t.receipts[key]; !ok {
			t.receipts[key] = nil
		}
	}
	for _, p := range w.members {
		if t.members[p] == nil {
			t.member(p)
		}
	}
	for _, f := range t.families {
		f.none = f.oldest == nil
	}
}

func (t *tx) add(batch *pgx.Batch, q query) {
	batch.Queue(t.b.sql[q.name], q.args...).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, q.into, q.each)
		return err
	})
}

// send sends a batch in one round trip.
func (t *tx) send(batch *pgx.Batch) error { return t.conn.SendBatch(t.ctx, batch).Close() }

// ask runs a query that Load did not foresee, after the writes that wait.
func (t *tx) ask(q query) error {
	if t.failed != nil {
		return t.failed
	}
	batch := &pgx.Batch{}
	if t.failed = t.queue(batch); t.failed != nil {
		return t.failed
	}
	t.add(batch, q)
	t.failed = t.b.fault("read", t.send(batch))
	return t.failed
}

// read is ask for a query of few words.
func (t *tx) read(name string, args, into []any, each func() error) error {
	return t.ask(query{name: name, args: args, into: into, each: each})
}

// pages reads pools, and the clock.
func (t *tx) pages(pools ...quota.Pool) query {
	switch len(pools) {
	case 0:
		return t.pagesOf("pages", []any{[]string{}, []string{}, []string{}})
	case 1:
		return t.pagesOf("page", names(pools)[0])
	}
	return t.pagesOf("pages", pgschema.Arrays(names(pools)))
}

func (t *tx) pagesOf(name string, args []any) query {
	var clock, number, born, until int64
	var there bool
	var p quota.Pool
	var zone, reason string
	var page []byte
	into := []any{&clock, &there, &p.Upstream, &p.Account, &p.Name, &number, &born, &until, &zone, &reason, &page}
	return query{name, args, into, func() error {
		if clock != 0 && t.now.IsZero() {
			t.now = t.b.now(clock)
		}
		if !there || t.pools[p] != nil {
			return nil
		}
		e := t.entry(p)
		e.number, e.known, e.born, e.until, e.zone, e.Reason = number, number != 0, window.Instant(born), window.Instant(until), zone, reason
		t.unpack(e, page)
		return nil
	}}
}

// findReceipts reads receipts. The latest row of an id comes first.
func (t *tx) findReceipts(ids ...pagestore.ReceiptID) query {
	var args rows
	for _, id := range ids {
		args = append(args, []any{id.Upstream, id.Account, id.ID})
	}
	var key pagestore.ReceiptID
	var one pagestore.Taken
	var nonce []byte
	var made, at int64
	var settled bool
	done := &one.Done
	found := make(map[pagestore.ReceiptID]*pagestore.ReceiptRows)
	into := []any{
		&key.Upstream, &key.Account, &key.ID, &one.Ref, &one.Pool, &nonce, &made, &at, &one.Units, &one.Generation, &settled,
		&done.Back, &done.Left, &done.Charged, &one.Recorded, &one.Key, &one.Overflow, &one.Slot,
	}
	return query{"receipts", pgschema.Arrays(args), into, func() error {
		rows := found[key]
		if rows == nil {
			rows = &pagestore.ReceiptRows{}
			found[key] = rows
		}
		one.At = window.Instant(at)
		rows.Add(t.now, window.Instant(made), nonce, settled, one)
		t.receipts[key] = rows.Receipt
		return nil
	}}
}
