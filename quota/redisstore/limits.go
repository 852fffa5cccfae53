package redisstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/quota"
)

// Limits of keys of families that are set while programs run are in three keys of one slot,
// apart from the pages:
//
//	prefix{limits}:set       each limit, by its family and key
//	prefix{limits}:versions  the same fields, by the version of their last change
//	prefix{limits}:changes   the last changes, each a field and its limit, the latest first
//
// They never expire.

var _ quota.LimitKeeper = (*Store)(nil)

func (s *Store) limitKeys() []string {
	return []string{s.prefix + "{limits}:set", s.prefix + "{limits}:versions", s.prefix + "{limits}:changes"}
}

// storedLimit is a limit in Redis. Its time and version are in front of it.
type storedLimit struct {
	Quota int64  `json:"quota"`
	Who   string `json:"who"`
	Why   string `json:"why,omitempty"`
}

// SetLimit implements [quota.LimitKeeper].
func (s *Store) SetLimit(ctx context.Context, l quota.KeyLimit) (quota.KeyLimit, error) {
	if err := s.ready(ctx); err != nil {
		return l, err
	}
	text, err := json.Marshal(storedLimit{l.Quota, l.By, l.Reason})
	if err != nil {
		return l, err
	}
	reply, err := s.eval(ctx, s.scripts.limitSet, s.limitKeys(), []any{limitField(l.Family, l.Key), text, quota.MaxLimitChanges})
	if err != nil {
		return l, err
	}
	if len(reply) != 2 {
		return l, fmt.Errorf("set a limit: redis answered %v", reply)
	}
	return limitOf(limitField(l.Family, l.Key), fmt.Sprintf("%s %s %s", reply[0], reply[1], text))
}

// KeyLimits implements [quota.LimitKeeper].
func (s *Store) KeyLimits(ctx context.Context, after int64, most int) (all []quota.KeyLimit, err error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	reply, err := s.eval(ctx, s.scripts.limitsAfter, s.limitKeys()[:2], []any{after, most})
	if err != nil {
		return nil, err
	}
	for i := 1; i+1 < len(reply); i += 2 {
		l, err := limitOf(fmt.Sprint(reply[i]), fmt.Sprint(reply[i+1]))
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// LimitChanges implements [quota.LimitKeeper].
func (s *Store) LimitChanges(ctx context.Context, most int) (all []quota.KeyLimit, err error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	get := redis.NewStringSliceCmd(ctx, "lrange", s.limitKeys()[2], 0, 2*most-1)
	if err := s.do(ctx, get); err != nil {
		return nil, err
	}
	for pair := range slices.Chunk(get.Val(), 2) {
		l, err := limitOf(pair[0], pair[len(pair)-1])
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// KeyLimit implements [quota.LimitKeeper].
func (s *Store) KeyLimit(ctx context.Context, family, key string) (*quota.KeyLimit, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	field := limitField(family, key)
	get := redis.NewStringCmd(ctx, "hget", s.limitKeys()[0], field)
	err := s.do(ctx, get)
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case err != nil:
		return nil, err
	}
	l, err := limitOf(field, get.Val())
	return &l, err
}

// limitField returns the field of a limit. The names of families have no slash.
func limitField(family, key string) string { return family + "/" + key }

// limitOf reads a limit.
func limitOf(name, text string) (l quota.KeyLimit, err error) {
	var kept storedLimit
	first, rest, _ := strings.Cut(text, " ")
	second, body, _ := strings.Cut(rest, " ")
	made, err := strconv.ParseInt(first, 10, 64)
	if err == nil {
		l.Version, err = strconv.ParseInt(second, 10, 64)
	}
	if err == nil {
		err = json.Unmarshal([]byte(body), &kept)
	}
	if err != nil {
		return l, fmt.Errorf("read the limit %s: %w", name, err)
	}
	l.Family, l.Key, _ = strings.Cut(name, "/")
	l.Quota, l.By, l.Reason, l.At = kept.Quota, kept.Who, kept.Why, time.UnixMicro(made).UTC()
	return l, nil
}
