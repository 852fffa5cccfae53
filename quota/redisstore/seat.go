package redisstore

import "github.com/headroom-quota/headroom/quota"

// The pages of a keyed pool are in the slot of their account, so the scripts themselves
// bound their number: see lua/seat.lua.

// page returns the key of a charge's page.
func (a *ask) page(i int) string {
	if a.pages != nil {
		return a.pages[i]
	}
	return pageOf(a.tag, a.charges[i].Pool)
}

// sharedPage returns the key of the page that new keys share if their pool is full.
func sharedPage(tag string, p quota.Pool) string {
	p.Key = overflowKey
	return pageOf(tag, p)
}

// What a charge says of its seat, where that is not the most that there may be. The
// prelude has the same numbers.
const (
	plain      = -1
	seated     = -2 // for a settlement: on the page of the key
	seatShared = -3 // and on the page that new keys share
)

func (a *ask) seats(i int) int64 {
	c := &a.charges[i]
	switch {
	case c.Pool.Name == "" || c.Pool.Key == "":
		return plain
	case a.pages == nil:
		return int64(c.MaxKeys)
	case a.pages[i] == sharedPage(a.tag, c.Pool):
		return seatShared
	}
	return seated
}
