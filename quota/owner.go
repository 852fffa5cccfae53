package quota

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// A store knows the call "a" of the owner "etl" as "@etl/a". No owner has a slash or a # in its
// name, so no choice of names and ids makes two of these equal. An id that becomes too long is
// hashed: "@etl#9f86d0...". An id without an owner is as the caller wrote it, unless that looks
// like one of an owner: then its owner is "".

// ownerMark begins the id of an owner's call.
const ownerMark = "@"

// own gives the id of a call its owner.
func (c *Call) own() error {
	if c.Owner != "" && (len(c.Owner) > 40 || strings.Trim(c.Owner, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "") {
		return BadInput("owner %.40q of the call must be 1 to 40 of the characters a-z, 0-9, - and _", c.Owner)
	}
	if c.ID == "" {
		return nil
	}
	if !validID(c.ID) {
		return BadInput("id %.40q must be 1 to %d printable bytes", c.ID, maxIDBytes)
	}
	if c.Owner != "" || strings.HasPrefix(c.ID, ownerMark) {
		c.ID = ownedID(c.Owner, c.ID)
	}
	return nil
}

func ownedID(owner, id string) string {
	if all := ownerMark + owner + "/" + id; len(all) <= maxIDBytes {
		return all
	}
	sum := sha256.Sum256([]byte(id))
	return ownerMark + owner + "#" + hex.EncodeToString(sum[:])
}

// SplitID returns the owner and the caller's own id of an id as a store knows it, or the hash
// of an own id that was too long. The owner is "" for calls of a process itself.
func SplitID(id string) (owner, own string) {
	if marked, is := strings.CutPrefix(id, ownerMark); is {
		if end := strings.IndexAny(marked, "/#"); end >= 0 {
			return marked[:end], marked[end+1:]
		}
	}
	if part := strings.Split(id, "~"); len(part) == 4 { // storekit.Part: its name ends with the owner
		_, owner, _ = strings.Cut(part[1], ownerMark)
	}
	return owner, id
}

// Owner returns the [Call.Owner] of the reservation, or "".
func (t *Token) Owner() string {
	owner, _ := SplitID(t.ID)
	return owner
}
