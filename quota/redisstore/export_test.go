package redisstore

import (
	"crypto/sha1"
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// SetLocal gives this machine another clock than the server's.
func (s *Store) SetLocal(clock func() time.Time) { s.local = clock }

// Keys are all that a store makes of names, by what they are for.
func Keys(prefix string, p quota.Pool, id, day, lease string) map[string]string {
	s := &Store{prefix: prefix}
	tag := s.tag(p)
	if p.Name == "" {
		tag = s.memberTag(p, 1)
	}
	page := pageOf(tag, p)
	all := map[string]string{
		"page": page, "log1": logKey(page, 0), "log11": logKey(page, 10),
		"receipt": receiptKey(tag, id), "spend": spendKey(tag, p.Name, day),
		"pools": poolsKey(tag), "reasons": reasonsKey(tag), "members": membersKey(s.tag(p)),
		"lease": leaseKey(prefix, lease),
	}
	if p.Name == "" {
		all["former"] = pageKey(s.formerTag(p), "")
	}
	return all
}

// MemberUntil is when the page of a member expires, by the clock of the scripts.
func MemberUntil(page string) time.Time {
	return window.Instant(double(page, pageFirst+3*int(double(page, 4))+7)).Time()
}

// LongWay makes a store decide about members without the short script, by the long one.
func (s *Store) LongWay() {
	const nothing = "return 0"
	s.scripts.member = script{nothing, fmt.Sprintf("%x", sha1.Sum([]byte(nothing)))}
}

// PoolField is the name of a pool as a hash has it, and back.
func PoolField(pool string) (field_, back string) { return field(pool), poolOf(field(pool)) }
