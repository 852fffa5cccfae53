package quota

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
)

// Call says what is about to be spent, and by whom. It names a Method of the
// price book, or explicit Charges, or the Key of a Family.
type Call struct {
	Upstream string // "" is the price book's only one
	Account  string // "" is DefaultAccount
	Method   string // priced by the book; beside Charges it only labels the spend
	Charges  Units  // by pool, where no method has the price

	Family string // a limit per key
	Key    string // whose; above 64 bytes it is hashed
	Units  int64  // asked of the family's member; zero is 1

	Class  string // "" is an ordinary caller
	Job    string // labels of the spend, as is Method
	Region string

	ID     string // names the call across retries: 1 to 128 printable bytes; "" makes one
	Outage Policy // what to do when the ledger cannot be reached; "" is the class's or the method's
}

func (c *Call) labels() Labels {
	return Labels{Method: c.Method, Job: c.Job, Region: c.Region, Class: c.Class}
}

// ids makes ids that no other call has, in this process or another. They need not
// be secret: the receipt's nonce is. They are cut from a block of many, so that
// not each of them is an allocation.
type ids struct {
	mu     sync.Mutex
	prefix string // random, of this ledger
	blocks uint64 // made so far
	block  string // what is left of the last one
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

// pageKey is the key under which a store knows a family's member. What could be the
// hash of another key is hashed, too: nobody can choose a key that is another's page.
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
