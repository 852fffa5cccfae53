package redisstore

import (
	"strconv"
	"strings"

	"github.com/headroom-quota/headroom/quota"
)

// Every key is made here. The part in braces is the hash tag: what stands in one
// of them lies in one slot of a cluster.
//
//	prefix{youtube/default}:page:units             the page of a pool
//	prefix{youtube/default}:page:a%3Ab             the page of a pool a:b
//	prefix{youtube/default}:page:units:log1        the entries of its first window, if that is an exact log
//	prefix{youtube/default}:page:units:key:a       the page of a key of a keyed pool
//	prefix{youtube/default}:page:units:key:a:log1  the entries of its first window
//	prefix{youtube/default}:page:units:key:a:reason why it is blocked
//	prefix{youtube/default}:seats:units            the keys of a keyed pool, by when they will be idle
//	prefix{youtube/default}:receipt:ID             the receipt of a call
//	prefix{youtube/default}:spend:units:2026-11-20.07 who spent what in an hour of a day; of earlier versions, on a day
//	prefix{youtube/default}:spend:units:2026-11-20.07:UTC the same by another zone than the pool's first one
//	prefix{youtube/default}:pools                  the names of the pools with their first zones, and units:UTC for others
//	prefix{youtube/default}:reasons                why pools are blocked
//	prefix{youtube/default}:identity               which ledger this is
//	prefix{client/default/3/64}:page::key:203.0.113.7 the page of a family's member, in partition 3 of 64
//	prefix{client/default/3/64}:seats:             how many members the partition has, by until when
//	prefix{client/default/3/64}:page::key:203.0.113.7:moved the same after it was brought to another partition
//	prefix{client/default}:partitions              how many partitions a family has, and had
//	prefix{client/default/203.0.113.7}:page:       the page of a member, of earlier versions
//	prefix{client/default}:members                 the members of a family, of earlier versions
//	prefix{lease/default/trending}                 who runs a job

// tag returns the beginning of every key of an account, or of a partition of a family.
func (s *Store) tag(p quota.Pool) string {
	return s.prefix + "{" + escape(p.Upstream) + "/" + escape(p.Account) + "}:"
}

// memberTag returns the beginning of every key of a member's partition.
func (s *Store) memberTag(p quota.Pool, parts int) string {
	return s.partitionTag(p, partition(p.Key, parts), parts)
}

// partitionTag returns the beginning of every key of a partition.
func (s *Store) partitionTag(p quota.Pool, index, parts int) string {
	tag := append(make([]byte, 0, 64), s.prefix...)
	tag = append(append(append(tag, '{'), escape(p.Upstream)...), '/')
	tag = append(append(tag, escape(p.Account)...), '/')
	tag = append(strconv.AppendInt(tag, int64(index), 10), '/')
	tag = append(strconv.AppendInt(tag, int64(parts), 10), "}:"...)
	return string(tag)
}

// formerTag returns what began every key of a member in earlier versions.
func (s *Store) formerTag(p quota.Pool) string {
	return s.prefix + "{" + escape(p.Upstream) + "/" + escape(p.Account) + "/" + escape(p.Key) + "}:"
}

// escape escapes braces and slashes in the names of a tag. A brace would end the tag, and
// slashes separate its names.
func escape(s string) string {
	if !strings.ContainsAny(s, "{}/%") {
		return s
	}
	return strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D", "/", "%2F").Replace(s)
}

// pageOf returns the key of a pool's page, or of the page of one of its keys.
func pageOf(tag string, p quota.Pool) string {
	if p.Key == "" {
		return pageKey(tag, p.Name)
	}
	return pageKey(tag, p.Name) + ":key:" + field(p.Key)
}

// field returns the name of a pool within a key, and in the hash of the pools. It escapes
// colons, because they separate the parts of a key. It escapes a % only where it could be
// read as an escape, so that older keys stay valid.
func field(pool string) string {
	if !strings.ContainsAny(pool, ":%") {
		return pool
	}
	return fields.Replace(pool)
}

func poolOf(field string) string { return pools.Replace(field) }

var (
	fields = strings.NewReplacer("%3A", "%253A", "%25", "%2525", ":", "%3A")
	pools  = strings.NewReplacer("%3A", ":", "%25", "%")
)

func pageKey(tag, pool string) string       { return tag + "page:" + field(pool) }
func seatsKey(tag, pool string) string      { return tag + "seats:" + field(pool) }
func reasonKey(page string) string          { return page + ":reason" }
func logKey(page string, window int) string { return page + ":log" + strconv.Itoa(window+1) }
func receiptKey(tag, id string) string      { return tag + "receipt:" + id }
func spendKey(tag, pool, day string) string { return tag + "spend:" + field(pool) + ":" + day }
func poolsKey(tag string) string            { return tag + "pools" }
func reasonsKey(tag string) string          { return tag + "reasons" }
func membersKey(tag string) string          { return tag + "members" }
func partitionsKey(tag string) string       { return tag + "partitions" }
func probeKey(tag string) string            { return tag + "probe" } // see [quota.ReadyID]

func leaseKey(prefix, name string) string {
	return prefix + "{lease/" + strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D").Replace(name) + "}"
}
