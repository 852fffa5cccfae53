package storekit

import (
	"crypto/sha256"
	"strconv"
	"strings"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// Part names a part of a reservation, which is settled by itself, and once. The whole was
// reserved for many calls. Its owner hands out the parts without telling the store, so a
// store first hears of a part when it is settled. The part's id says all that the store
// does not know from the receipt of the whole.
type Part struct {
	Of    string  // the id of the whole reservation
	Name  string  // tells the parts of one reservation apart
	Units []int64 // by charge of the reservation
	// Calls is how many more calls the spend counts if the part is settled to nothing. A
	// call that was never sent counts as one less. For the rest of a reservation, the
	// reservation itself counts as one call.
	Calls int64
}

// partMark separates the fields of a part's id.
const partMark = "~"

// MaxPartID is the longest id that [Part.ID] may have. Stores refuse longer ones.
const MaxPartID = 128

// ID returns the id of the part.
func (p *Part) ID() string {
	b := make([]byte, 0, MaxPartID)
	b = append(append(append(b, p.Of...), partMark...), p.Name...)
	b = strconv.AppendInt(append(b, partMark...), p.Calls, 10)
	for i, units := range p.Units {
		if i == 0 {
			b = append(b, partMark...)
		} else {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, units, 10)
	}
	return string(b)
}

// ReadPart reads what [Part.ID] wrote. It reports false for every other id.
func ReadPart(id string) (p Part, ok bool) {
	f := strings.Split(id, partMark)
	if len(f) != 4 || f[0] == "" {
		return p, false
	}
	p = Part{Of: f[0], Name: f[1]}
	var err error
	if p.Calls, err = strconv.ParseInt(f[2], 10, 64); err != nil {
		return Part{}, false
	}
	for text := range strings.SplitSeq(f[3], ",") {
		units, err := strconv.ParseInt(text, 10, 64)
		if err != nil || units < 0 || units > window.MaxUnits {
			return Part{}, false
		}
		p.Units = append(p.Units, units)
	}
	if p.ID() != id {
		return Part{}, false
	}
	return p, true
}

// PartNonce returns the nonce of a part with an id, from that of the whole reservation.
// The nonces of parts do not reveal another one.
func PartNonce(whole quota.Nonce, id string) (nonce quota.Nonce) {
	var b [len(whole) + MaxPartID]byte
	sum := sha256.Sum256(append(append(b[:0], whole[:]...), id...))
	copy(nonce[:], sum[:])
	return nonce
}

// Check returns an error unless a token for the part was made from the receipt of the
// whole reservation, which has so many charges.
func (p *Part) Check(t *quota.Token, whole quota.Nonce, charges int) error {
	if len(p.Units) != charges || PartNonce(whole, t.ID) != t.Nonce {
		return NoReceipt(*t)
	}
	return nil
}

// MoreCalls returns how many more calls the spend of a charge counts after the part was
// settled to units.
func (p *Part) MoreCalls(charge int, units int64) int64 {
	if units == 0 && (p.Units[charge] > 0 || p.Calls > 0) {
		return p.Calls
	}
	return 0
}
