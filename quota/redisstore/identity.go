package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/quota"
)

var _ quota.Identified = (*Store)(nil)

// Identity implements [quota.Identified]. It is a key in the slot of the account's
// pages, without an expiry: whoever loses them loses it, too.
func (s *Store) Identity(ctx context.Context, upstream, account string) (string, error) {
	if err := s.ready(ctx); err != nil {
		return "", err
	}
	key := s.tag(quota.Pool{Upstream: upstream, Account: account}) + "identity"
	get := redis.NewStringCmd(ctx, "get", key)
	err := s.do(ctx, get)
	if errors.Is(err, redis.Nil) {
		set := redis.NewBoolCmd(ctx, "setnx", key, rand.Text())
		if err := s.do(ctx, set); err != nil {
			return "", fmt.Errorf("give the ledger an identity: %w", err)
		}
		get = redis.NewStringCmd(ctx, "get", key) // another process may have been faster
		err = s.do(ctx, get)
	}
	if err != nil {
		return "", fmt.Errorf("ask the ledger for its identity: %w", err)
	}
	return get.Val(), nil
}

// Canonical returns the one way to write where a ledger is: scheme, hosts in lower
// case with their ports, the number of the database and the prefix of the keys. Two
// addresses that are equal then are one ledger. Users, passwords and options are left
// out, so the result may be shown.
func Canonical(address, prefix string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", errors.New("the address of redis is no URL; write redis://host:6379/0") // it may hold a password
	}
	q := u.Query()
	where := url.URL{Scheme: u.Scheme}
	db := strings.Trim(u.Path, "/")
	if u.Scheme == "unix" {
		where.Path, db = u.Path, ""
	} else {
		hosts := []string{hostPort(u.Host)}
		for _, more := range q["addr"] {
			hosts = append(hosts, hostPort(more))
		}
		slices.Sort(hosts)
		where.Host = strings.Join(slices.Compact(hosts), ",")
	}
	if q.Has("db") {
		db = q.Get("db")
	}
	if db == "" {
		db = "0"
	}
	named := url.Values{"db": {db}}
	if name := q.Get("master_name"); name != "" {
		named.Set("master_name", name)
	}
	if prefix != "" && prefix != defaultPrefix {
		named.Set("prefix", prefix)
	}
	where.RawQuery = named.Encode()
	return where.String(), nil
}

// hostPort is a host and its port, as everybody may write them.
func hostPort(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = strings.Trim(address, "[]"), ""
	}
	if host == "" {
		host = "localhost"
	}
	if port == "" {
		port = "6379"
	}
	return net.JoinHostPort(strings.ToLower(host), port)
}
