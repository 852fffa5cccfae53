package redisstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/lease"
	"github.com/redis/go-redis/v9"
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

	Until    time.Time `json:"until,omitzero"`     // when it ends by itself
	Headroom *int64    `json:"headroom,omitempty"` // of the quota; nil: the price book's share
}

// SetLimit implements [quota.LimitKeeper].
func (s *Store) SetLimit(ctx context.Context, l quota.KeyLimit) (quota.KeyLimit, error) {
	if err := s.ready(ctx); err != nil {
		return l, err
	}
	text, err := json.Marshal(storedLimit{l.Quota, l.By, l.Reason, l.Until, l.Headroom})
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
	changes, err := value(ctx, s, redis.NewStringSliceCmd(ctx, "lrange", s.limitKeys()[2], 0, 2*most-1))
	if err != nil {
		return nil, err
	}
	for pair := range slices.Chunk(changes, 2) {
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
	text, err := s.text(ctx, "hget", s.limitKeys()[0], field)
	if err != nil || text == "" {
		return nil, err
	}
	l, err := limitOf(field, text)
	return &l, err
}

// limitField returns the field of a limit. The names of families have no slash.
func limitField(family, key string) string { return family + "/" + key }

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
	l.Until, l.Headroom = kept.Until, kept.Headroom
	return l, nil
}

// Notes are in the hash prefix{notes}, by their names. They never expire.

var _ quota.NoteKeeper = (*Store)(nil)

// SwapNote implements [quota.NoteKeeper].
func (s *Store) SwapNote(ctx context.Context, name string, version int64, text string) (n quota.Note, swapped bool, err error) {
	if err := s.ready(ctx); err != nil {
		return n, false, err
	}
	if err := quota.CheckNote(name, version, text); err != nil {
		return n, false, err
	}
	reply, err := s.eval(ctx, s.scripts.noteSwap, []string{s.prefix + "{notes}"}, []any{name, version, text})
	if err != nil {
		return n, false, err
	}
	if len(reply) != 3 {
		return n, false, fmt.Errorf("write a note: redis answered %v", reply)
	}
	first, body, _ := strings.Cut(fmt.Sprint(reply[1]), " ")
	n.Text = body
	if n.Version, err = strconv.ParseInt(first, 10, 64); err != nil {
		return quota.Note{}, false, fmt.Errorf("read the note %s: %w", name, err)
	}
	now, err := strconv.ParseInt(fmt.Sprint(reply[2]), 10, 64)
	n.Now = time.UnixMicro(now).UTC()
	return n, fmt.Sprint(reply[0]) == "1", err
}

var _ lease.Server = (*Store)(nil)

// TakeLease implements [lease.Server], by the server's clock. [lease.Shared] locks with it.
func (s *Store) TakeLease(ctx context.Context, name, holder string, life time.Duration) (token int64, err error) {
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	reply, err := s.eval(ctx, s.scripts.leaseTake, []string{leaseKey(s.prefix, name)}, []any{holder, life.Microseconds()})
	switch {
	case err != nil:
		return 0, fmt.Errorf("lease %s: %w: %w", name, quota.ErrOutage, err)
	case len(reply) < 2:
		return 0, fmt.Errorf("lease %s: redis answered %v", name, reply)
	case integer(reply[0]) == 0 && len(reply) > 2:
		until := time.UnixMicro(integer(reply[2])).UTC().Format(time.TimeOnly)
		return 0, fmt.Errorf("%w: %s is held by %v, until %s UTC at the latest if it has died", lease.ErrHeld, name, reply[1], until)
	}
	return strconv.ParseInt(fmt.Sprint(reply[1]), 10, 64) // a script of ours wrote it
}

// KeepLease implements [lease.Server].
func (s *Store) KeepLease(ctx context.Context, name string, token int64, life time.Duration) (held bool, err error) {
	if err := s.ready(ctx); err != nil {
		return false, err
	}
	reply, err := s.eval(ctx, s.scripts.leaseKeep, []string{leaseKey(s.prefix, name)}, []any{token, life.Microseconds()})
	if err != nil {
		return false, err
	}
	return integer(reply[0]) == 1, nil
}
