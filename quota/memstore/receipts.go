package memstore

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pagestore"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// receipts finds receipts by id, and forgets them once they are too old. They lie
// in batches, the newest last, and each batch goes as a whole. A batch has no
// pointers in it and an index of its own, so that neither making a receipt nor
// keeping many is work for the garbage collector.
type receipts struct {
	seed    maphash.Seed
	batches []*batch
	spare   *batch
	used    int64 // bytes
	clock   pagestore.Course
}

// A batch holds up to so many receipts, always a power of two, and of a quarter of their
// life only. Where the one before it was full it is twice as large, where that was
// almost empty half as large, and nothing is ever moved.
const (
	smallBatch = 1 << 2
	largeBatch = 1 << 14
)

type batch struct {
	heads    []uint32 // by hash: the number of the newest receipt, from 1; 0 for none
	receipts []receipt
	ids      []byte
	taken    []taken
	settled  []quota.Settlement
	began    window.Instant // when its first receipt was made
	newest   window.Instant // when one of them was made or renewed last
}

// receipt is what a grant leaves under the caller's id.
type receipt struct {
	hash     uint64
	older    uint32 // the next in the chain of its hash
	settled  uint32 // the number of its settlement in the batch, from 1; 0 for none
	released bool   // to nothing: the call never left, and its id may be tried again
	made     window.Instant
	nonce    quota.Nonce
	id       span // in the batch's ids
	taken    span // in the batch's taken
}

type span struct{ from, to uint32 }

// taken is one charge of a receipt.
type taken struct {
	units, recorded int64
	generation      int64
	at              window.Instant
	pool            int32 // index of the account's pool
	tally           int32 // of the pool's spend; -1: a slot, which leaves none
	key             span  // in the batch's ids: of a keyed pool, after a NUL if the key shared a page
}

// These are the bytes of a receipt without its id but with its place in the index, of each
// charge, and of a settlement.
const (
	receiptBytes = 64 + 4
	takenBytes   = 48
	settledBytes = 32
)

// find returns the receipt of an id, and its batch, or nil.
func (r *receipts) find(id string, now window.Instant) (*receipt, *batch) {
	if len(r.batches) == 0 {
		return nil, nil
	}
	hash := maphash.String(r.seed, id)
	for i := len(r.batches) - 1; i >= 0; i-- {
		b := r.batches[i]
		for n := b.heads[hash&uint64(len(b.heads)-1)]; n > 0; {
			got := &b.receipts[n-1]
			if got.hash == hash && string(b.ids[got.id.from:got.id.to]) == id {
				if now.Sub(got.made) > quota.ReceiptLife {
					return nil, nil
				}
				return got, b
			}
			n = got.older
		}
	}
	return nil, nil
}

// room sees to it that the last batch has room for a receipt.
func (r *receipts) room(now window.Instant, most int64) error {
	r.expire(now)
	if r.used >= most {
		return fmt.Errorf("%w: the receipts of the last hour take %d of %d bytes\nRaise memstore.Options.ReceiptBytes", quota.ErrOutage, r.used, most)
	}
	size := smallBatch
	last := len(r.batches) - 1
	if last >= 0 {
		b := r.batches[last]
		if len(b.receipts) == 0 {
			return nil
		}
		full := len(b.receipts) == len(b.heads)
		if age := now.Sub(b.began); !full && 0 <= age && age < quota.ReceiptLife/4 {
			return nil
		}
		if size = len(b.heads); full {
			size = min(2*size, largeBatch)
		} else if len(b.receipts) < size/4 {
			size = max(size/2, smallBatch)
		}
	}
	b := r.spare
	if b == nil || len(b.heads) != size {
		b = &batch{
			heads: make([]uint32, size), receipts: make([]receipt, 0, size),
			ids: make([]byte, 0, size*24), taken: make([]taken, 0, size),
		}
	}
	r.spare = nil
	if last < 0 {
		r.seed = maphash.MakeSeed()
	}
	r.batches = append(r.batches, b)
	return nil
}

func (b *batch) bytes() int64 {
	return int64(len(b.receipts)*receiptBytes + len(b.ids) + len(b.taken)*takenBytes + len(b.settled)*settledBytes)
}

// year is how far ahead of the clock a receipt may be. Those of a clock that had been further ahead
// live for as long as if they were made now.
const year = 366 * 24 * time.Hour

// expire drops the batches of which all is too old. It looks at the clock once a second.
func (r *receipts) expire(now window.Instant) {
	if ago := now.Sub(r.clock.Called); 0 <= ago && ago < time.Second {
		return
	}
	r.clock.See(now)
	r.batches = slices.DeleteFunc(r.batches, func(b *batch) bool {
		if b.newest.Sub(now) > year {
			b.newest = now
		}
		at := r.clock.Proven
		if r.clock.Leapt != 0 && b.began >= r.clock.Leapt {
			at = now // all of it came after the leap
		}
		if len(b.receipts) == 0 || at.Sub(b.newest) <= quota.ReceiptLife {
			return false
		}
		r.used -= b.bytes()
		r.spare = b
		return true
	})
	if b := r.spare; b != nil && len(b.receipts) > 0 {
		clear(b.heads)
		*b = batch{heads: b.heads, receipts: b.receipts[:0], ids: b.ids[:0], taken: b.taken[:0], settled: b.settled[:0]}
	}
}

// add makes a receipt in the newest batch, in which room has seen to a place for it.
func (r *receipts) add(id string, nonce quota.Nonce, now window.Instant) (*receipt, *batch) {
	b := r.batches[len(r.batches)-1]
	ids, taken := uint32(len(b.ids)), uint32(len(b.taken))
	b.ids = append(b.ids, id...)
	hash := maphash.String(r.seed, id)
	head := &b.heads[hash&uint64(len(b.heads)-1)]
	if len(b.receipts) == 0 {
		b.began, b.newest = now, now
	}
	b.newest = max(b.newest, now)
	b.receipts = append(b.receipts, receipt{
		hash: hash, older: *head, made: now, nonce: nonce,
		id: span{ids, ids + uint32(len(id))}, taken: span{taken, taken},
	})
	*head = uint32(len(b.receipts))
	r.used += int64(receiptBytes + len(id))
	return &b.receipts[*head-1], b
}

// take writes down a charge of the newest receipt of a batch, with the key of its page.
func (r *receipts) take(b *batch, t *taken, prefix, key string) {
	t.key = span{}
	if key != "" {
		from := len(b.ids)
		b.ids = append(append(b.ids, prefix...), key...)
		t.key = span{uint32(from), uint32(len(b.ids))}
		r.used += int64(len(b.ids) - from)
	}
	b.taken = append(b.taken, *t)
	b.receipts[len(b.receipts)-1].taken.to++
	r.used += takenBytes
}

func (b *batch) text(s span) string { return string(b.ids[s.from:s.to]) }

// settle notes how a receipt of the batch was settled.
func (r *receipts) settle(b *batch, got *receipt, done quota.Settlement) {
	if got.settled == 0 {
		b.settled = append(b.settled, done)
		got.settled = uint32(len(b.settled))
		r.used += settledBytes
	}
	b.settled[got.settled-1] = done
}

// found is the receipt that was last asked for.
type found struct {
	account *account
	in      *batch
	receipt *receipt
	taken   []taken
}

func (b *backend) Receipt(upstream, name, id string) (*pagestore.Receipt, error) {
	a := b.account(upstream, name)
	if a == nil {
		return nil, nil
	}
	got, in := a.receipts.find(id, b.at)
	if got == nil {
		return nil, nil
	}
	b.found = found{a, in, got, in.taken[got.taken.from:got.taken.to]}
	r := &b.got
	*r = pagestore.Receipt{Nonce: got.nonce, Settled: got.settled > 0, Released: got.released, Taken: r.Taken[:0]}
	if r.Settled {
		r.Done = in.settled[got.settled-1]
	}
	for _, t := range b.found.taken {
		key, overflow := strings.CutPrefix(in.text(t.key), shared)
		r.Taken = append(r.Taken, pagestore.Taken{
			Slot: t.tally < 0, Pool: a.pools[t.pool].Pool.Name, Key: key, Overflow: overflow,
			Units: t.units, Recorded: t.recorded, At: t.at, Generation: t.generation,
		})
	}
	return r, nil
}

func (b *backend) Amend(r *pagestore.Receipt) error {
	got := b.found.receipt
	got.released = r.Released
	b.found.account.receipts.settle(b.found.in, got, r.Done)
	for i, t := range b.found.taken {
		if b.found.taken[i].recorded = r.Taken[i].Recorded; t.tally < 0 {
			continue
		}
		tally := &b.found.account.pools[t.pool].spend.tallies[t.tally]
		tally.units += r.Taken[i].Recorded - t.units
		if r.Taken[i].Recorded == 0 && t.units > 0 {
			tally.calls-- // released: the call never left
		}
	}
	return nil
}

func (b *backend) AmendPart(r *pagestore.Receipt, t *quota.Token, p *storekit.Part) error {
	f := &b.found
	all := &f.account.receipts
	got, in := all.add(t.ID, t.Nonce, b.at)
	got.released = r.Released
	all.settle(in, got, r.Done)
	for i, of := range f.taken {
		of.units, of.recorded = r.Taken[i].Units, r.Taken[i].Recorded
		all.take(in, &of, "", f.in.text(of.key))
		tally := &f.account.pools[of.pool].spend.tallies[of.tally]
		tally.units += of.recorded - of.units
		tally.calls += p.MoreCalls(i, of.recorded)
	}
	return nil
}

// Keep implements [pagestore.Tx]. A batch goes as a whole. So a receipt of a batch that is
// no longer young is copied into the newest one, where it is found first.
func (b *backend) Keep(r *pagestore.Receipt) error {
	f := &b.found
	if b.at.Sub(f.in.began) > quota.ReceiptLife/2 {
		all := &f.account.receipts
		if err := all.room(b.at, b.maxReceiptBytes); err != nil {
			return err
		}
		kept, in := all.add(f.in.text(f.receipt.id), f.receipt.nonce, b.at)
		if f.receipt.settled > 0 {
			all.settle(in, kept, f.in.settled[f.receipt.settled-1])
		}
		for _, t := range f.taken {
			all.take(in, &t, "", f.in.text(t.key))
		}
		*f = found{f.account, in, kept, in.taken[kept.taken.from:kept.taken.to]}
	}
	for i := range f.taken {
		t, is := &f.taken[i], &r.Taken[i]
		t.recorded, t.at, t.generation = is.Recorded, is.At, is.Generation
	}
	f.receipt.released = r.Released
	f.receipt.made = b.at
	f.in.newest = max(f.in.newest, b.at)
	return nil
}

func (b *backend) Room(r *quota.Request) error {
	if r.ID == "" {
		return nil
	}
	return b.makeAccount(r.Charges[0].Pool).receipts.room(b.at, b.maxReceiptBytes)
}

func (b *backend) Charge(r *quota.Request, entries []*pagestore.Entry, nonce quota.Nonce) error {
	a := b.poolOf(entries[0]).in
	var in *batch // of the receipt
	if r.ID != "" {
		_, in = a.receipts.add(r.ID, nonce, b.at)
	}
	for i, e := range entries {
		p, c := b.poolOf(e), &r.Charges[i]
		if r.AtLeast && e.Units == 0 {
			continue
		}
		n := int32(-1)
		if !c.Windows[0].Spec.InFlight() {
			n = p.spend.find(b.at, e.At, c.Zone, &r.Labels)
			t := &p.spend.tallies[n]
			t.units = min(t.units+e.Units, window.MaxUnits)
			t.calls++
		}
		if in == nil {
			continue
		}
		of := taken{units: c.Units, recorded: e.Units, generation: e.Page.Generation, at: e.At, pool: p.index, tally: n}
		prefix := ""
		if e.Pool.Key != c.Pool.Key {
			prefix = shared
		}
		a.receipts.take(in, &of, prefix, c.Pool.Key)
	}
	return nil
}

// shared is what a receipt has before the key of a charge on the page that new keys share.
const shared = "\x00"
