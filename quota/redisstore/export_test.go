package redisstore

import (
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// SetLocal gives this machine another clock than the server's.
func (s *Store) SetLocal(clock func() time.Time) { s.local = clock }

// Keys are all that a store makes of names, by what they are for.
func Keys(prefix string, p quota.Pool, id, day, lease string) map[string]string {
	tag := (&Store{prefix: prefix}).tag(p)
	page := pageKey(tag, p.Name)
	return map[string]string{
		"page": page, "log1": logKey(page, 0), "log11": logKey(page, 10),
		"receipt": receiptKey(tag, id), "spend": spendKey(tag, p.Name, day),
		"pools": poolsKey(tag), "reasons": reasonsKey(tag), "members": membersKey(tag),
		"lease": leaseKey(prefix, lease),
	}
}

// PoolField is the name of a pool as a hash has it, and back.
func PoolField(pool string) (field_, back string) { return field(pool), poolOf(field(pool)) }
