package quota

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
)

// Call names the cost of a call and its caller. The cost is that of a Method of the
// price book, or explicit Charges, or Units of the Key of a Family.
type Call struct {
	Upstream string // may be "" if the price book has only one
	Account  string // "" is DefaultAccount
	Method   string // priced by the book; beside Charges it only labels the spend
	Charges  Units  // by pool, if no method has the price

	// Estimate has what the caller knows of the cost beforehand, by pool. It replaces the
	// units of the method for these pools. More than the smallest limit of a pool counts
	// as that limit, so that an estimate is never impossible.
	Estimate Units

	// Keys are the keys of the keyed pools that the call charges, by pool: {"tokens":
	// "model-x"}. A key above 64 bytes is hashed. A missing key is bad input, unless the
	// pool's by has a default.
	Keys map[string]string

	Family string // of limits per key
	Key    string // of the family; a key above 64 bytes is hashed
	Units  int64  // for the key; zero is 1

	Class  string // "" is an ordinary caller
	Job    string // a label of the spend, as are Method and Region
	Region string
	Model  string // a label of the spend of budgets: the case of the prices that its bill has, such as a model

	ID string // names the call across retries: 1 to 128 printable bytes; "" makes one
	// Owner says whose call it is, if this process reserves for programs that do not know each
	// other: the ids of two owners never meet, and [Token.Owner] tells whose a receipt is. It
	// is "" for calls of the process itself, else 1 to 40 of the characters a-z, 0-9, - and _.
	Owner  string
	Outage Policy // what to do while the ledger is down; "" is the policy of the class or method

	// TellsAnswer is that the caller says with [Reservation.Answered] that the upstream has not
	// refused the call. Otherwise settling the call says so.
	TellsAnswer bool

	turn     *turn // of one that waits
	billTurn *turn // the same for its budgets

	stepOf string // the budget whose step has given the class
}

func (c *Call) labels() Labels {
	return Labels{Method: c.Method, Job: c.Job, Region: c.Region, Class: c.Class}
}

// ids makes ids that are unique across processes. They need not be secret, because the
// receipt's nonce is. They are cut from a block of many, which saves allocations.
type ids struct {
	mu     sync.Mutex
	prefix string // random, of this ledger
	blocks uint64 // number of blocks made
	block  string // the rest of the last one
	length int    // of an id in it
}

func newIDs() *ids { return &ids{prefix: rand.Text()[:16]} }

func (i *ids) next() string {
	i.mu.Lock()
	if i.block == "" {
		i.fill()
	}
	id := i.block[:i.length]
	i.block = i.block[i.length:]
	i.mu.Unlock()
	return id
}

// fill makes the next block: the ids prefix-N-aa to prefix-N-hh.
func (i *ids) fill() {
	const many = 64
	i.blocks++
	head := i.prefix + "-" + strconv.FormatUint(i.blocks, 32) + "-"
	i.length = len(head) + 2
	var b strings.Builder
	b.Grow(many * i.length)
	for n := range byte(many) {
		b.WriteString(head)
		b.WriteByte('a' + n/8)
		b.WriteByte('a' + n%8)
	}
	i.block = b.String()
}

// pageKey returns the key under which a store knows a family's member or a page of a
// keyed pool. A key that could be the hash of another key is hashed, too, so no client can
// choose another's page.
func pageKey(key string) string {
	if len(key) <= maxKeyBytes && printable(key, maxKeyBytes) && !hashed(key) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// hashed reports whether a key looks like what pageKey makes of long ones.
func hashed(key string) bool {
	if len(key) != 2*sha256.Size {
		return false
	}
	_, err := hex.DecodeString(key)
	return err == nil
}
