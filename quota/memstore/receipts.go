package memstore

import (
	"hash/maphash"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// maxReceipts bounds the receipts of one account; beyond it the oldest go early.
const maxReceipts = 1 << 13

// receipts finds receipts by id, and forgets them in the order in which they were
// made. They lie in chunks without a pointer, so that neither making one is an
// allocation nor keeping many is work for the garbage collector. The index is a
// hash table whose chains run through the receipts from newer to older: one that
// is forgotten need not be taken out, because a chain ends at the first number
// that is too old.
type receipts struct {
	seed   maphash.Seed
	heads  []uint64 // by hash: the number of the newest receipt, 0 for none
	chunks []*chunk
	spare  *chunk
	first  uint64         // the number of the oldest that is kept; numbers begin at 1
	next   uint64         // of the next one
	leapt  window.Instant // the clock was far behind until then
}

// chunkSize is how many receipts lie together.
const chunkSize = 64

type chunk struct {
	receipts [chunkSize]receipt
	ids      []byte
	taken    []taken
}

// receipt is what a grant leaves under the caller's id.
type receipt struct {
	hash       uint64
	older      uint64 // the next in the chain
	made       window.Instant
	nonce      [16]byte
	id         span // in the chunk's ids
	taken      span // in the chunk's taken
	settled    bool
	released   bool // to nothing: the call never left, and its id may be tried again
	settlement quota.Settlement
}

type span struct{ from, to uint32 }

// taken is one charge of a receipt.
type taken struct {
	quota.Taken
	recorded int64 // of the units: a correction gives back no more than was used
	pool     int32 // index of the account's pool
	tally    int32 // of the pool's spend
}

// get returns the receipt of an id, and the chunk it lies in.
func (r *receipts) get(id string, now time.Time) (*receipt, *chunk) {
	if id == "" || len(r.heads) == 0 {
		return nil, nil
	}
	hash := maphash.String(r.seed, id)
	for n := r.heads[hash%uint64(len(r.heads))]; n >= r.first && n > 0; {
		got, c := r.at(n)
		if got.hash == hash && string(c.ids[got.id.from:got.id.to]) == id {
			if window.At(now).Sub(got.made) > quota.ReceiptLife {
				return nil, nil
			}
			return got, c
		}
		n = got.older
	}
	return nil, nil
}

// at returns a receipt by its number.
func (r *receipts) at(n uint64) (*receipt, *chunk) {
	c := r.chunks[n/chunkSize-r.first/chunkSize]
	return &c.receipts[n%chunkSize], c
}

// put makes a receipt for an id.
func (r *receipts) put(id string, now time.Time) (*receipt, *chunk) {
	r.expire(now)
	if r.next-r.first >= uint64(len(r.heads)) {
		r.grow()
	}
	if r.next%chunkSize == 0 || len(r.chunks) == 0 {
		r.chunks = append(r.chunks, r.newChunk())
	}
	got, c := r.at(r.next)
	hash := maphash.String(r.seed, id)
	head := &r.heads[hash%uint64(len(r.heads))]
	ids, taken := uint32(len(c.ids)), uint32(len(c.taken))
	c.ids = append(c.ids, id...)
	*got = receipt{
		hash:  hash,
		older: *head,
		made:  window.At(now),
		id:    span{ids, ids + uint32(len(id))},
		taken: span{taken, taken},
	}
	*head = r.next
	r.next++
	return got, c
}

// grow doubles the index and finds every receipt its place again.
func (r *receipts) grow() {
	if r.next == 0 {
		r.seed, r.first, r.next = maphash.MakeSeed(), 1, 1
	}
	r.heads = make([]uint64, max(chunkSize, 2*len(r.heads)))
	for n := r.first; n < r.next; n++ {
		got, _ := r.at(n)
		head := &r.heads[got.hash%uint64(len(r.heads))]
		got.older, *head = *head, n
	}
}

func (r *receipts) newChunk() *chunk {
	if c := r.spare; c != nil {
		r.spare = nil
		c.ids, c.taken = c.ids[:0], c.taken[:0]
		return c
	}
	return &chunk{ids: make([]byte, 0, chunkSize*24), taken: make([]taken, 0, chunkSize)}
}

// leapRest is how long no receipt is too old once the clock was found far ahead of
// the newest: it may be set back.
const leapRest = time.Hour

// expire drops at most two receipts per new one, so that many go without a pause.
func (r *receipts) expire(clock time.Time) {
	if r.first == r.next {
		return
	}
	now := window.At(clock)
	if newest, _ := r.at(r.next - 1); now.Sub(newest.made) > quota.ReceiptLife {
		r.leapt = now
	}
	resting := r.leapt <= now && now.Sub(r.leapt) < leapRest
	for range 2 {
		if r.first == r.next {
			return
		}
		oldest, c := r.at(r.first)
		if r.next-r.first < maxReceipts && (resting || now.Sub(oldest.made) <= quota.ReceiptLife) {
			return
		}
		if r.first++; r.first%chunkSize == 0 {
			r.spare = c
			r.chunks = r.chunks[1:]
		}
	}
}

// add keeps a charge of the newest receipt.
func (c *chunk) add(r *receipt, t taken) {
	c.taken = append(c.taken, t)
	r.taken.to = uint32(len(c.taken))
}

// of returns the charges of a receipt.
func (c *chunk) of(r *receipt) []taken { return c.taken[r.taken.from:r.taken.to] }

// covers reports whether a receipt is for exactly these charges.
func (a *account) covers(all []taken, charges []quota.Charge) bool {
	if len(charges) != len(all) {
		return false
	}
	for i, t := range all {
		if a.pools[t.pool].name != charges[i].Pool.Name || t.Units != charges[i].Units {
			return false
		}
	}
	return true
}

// names are the pools of charges.
func (a *account) names(all []taken) []string {
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = a.pools[t.pool].name
	}
	return names
}

// charge counts the spend of one charge, of which units were recorded, and returns
// what its receipt says.
func (a *account) charge(pool int32, now, at window.Instant, c *quota.Charge, units int64, labels quota.Labels) taken {
	p := a.pools[pool]
	n := p.spend.find(now, at, c.Zone, labels)
	p.spend.tallies[n].units += units
	p.spend.tallies[n].calls++
	return taken{Taken: quota.Taken{Units: c.Units, At: at, Generation: p.page.Generation}, recorded: units, pool: pool, tally: n}
}

// settle corrects one charge and its spend.
func (a *account) settle(now time.Time, t taken, units int64) quota.Settlement {
	p := a.pools[t.pool]
	tally := &p.spend.tallies[t.tally]
	tally.units += units - t.Units
	if units == 0 && t.Units > 0 {
		tally.calls-- // released: the call never left
	}
	return quota.SettleIn(p.page, now, t.Taken, units)
}
