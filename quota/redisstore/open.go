package redisstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/headroom-quota/headroom/quota"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// Open is [New] for the servers that a URL names, as go-redis writes them:
//
//	redis://user:password@host:6379/0                              a single server
//	rediss://host:6379                                             with TLS
//	unix:///run/redis.sock?db=0
//	redis://host:26379?master_name=main&addr=host2:26379           behind Sentinels
//	redis://host:7001?addr=host2:7002&addr=host3:7003              a Cluster, by some of its nodes
//
// The store closes the connections.
func Open(address string, o *Options) (*Store, error) {
	client, err := Dial(address)
	if err != nil {
		return nil, err
	}
	s, err := New(client, o)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	s.opened = client
	return s, nil
}

// Dial returns a client for the servers of a URL, which it reads like [Open]. It is for
// programs that need more than a store. It does not connect yet. Errors never contain the
// URL's passwords. It silences the client's own messages on standard error, for all
// clients of the process.
func Dial(address string) (redis.UniversalClient, error) {
	silence()
	return dial(address)
}

// silence stops go-redis from writing its errors to standard error, since it returns them.
var silence = sync.OnceFunc(logging.Disable)

func dial(address string) (redis.UniversalClient, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("the address of redis is no URL; write redis://host:6379/0") // it may hold a password
	}
	if u.Scheme != "unix" && strings.Contains(u.EscapedPath()+u.RawQuery+u.EscapedFragment(), "@") {
		return nil, errors.New("the address of redis has an @ behind its host: in a password write / ? # @ as %2F %3F %23 %40") // likewise
	}
	fault := func(err error) error {
		text := err.Error()
		if u.User != nil {
			if password, ok := u.User.Password(); ok && password != "" {
				text = strings.ReplaceAll(text, password, "***")
			}
		}
		return fmt.Errorf("redis at %s: %s", &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}, text) // names and options may be secrets too
	}
	switch q := u.Query(); {
	case q.Has("master_name"):
		opt, err := redis.ParseFailoverURL(address)
		if err != nil {
			return nil, fault(err)
		}
		return redis.NewFailoverClient(opt), nil
	case q.Has("addr"):
		opt, err := redis.ParseClusterURL(address)
		if err != nil {
			return nil, fault(err)
		}
		if opt.DialerRetries == 0 {
			opt.DialerRetries = 1 // the store asks who is the master now before it dials again
		}
		opt.ContextTimeoutEnabled = true // or a node that hangs holds a connection that nobody waits for
		return redis.NewClusterClient(opt), nil
	default:
		opt, err := redis.ParseURL(address)
		if err != nil {
			return nil, fault(err)
		}
		return redis.NewClient(opt), nil
	}
}

// Close waits for the reservations whose callers have left. Then it saves what is known about
// the pages to [Options].Births, and closes the connections of a store that [Open] made. It
// leaves a client given to [New] open.
func (s *Store) Close() error {
	if s == nil || s.births == nil {
		return nil
	}
	s.apart.Wait()
	err := s.births.Keep(context.Background())
	if s.opened == nil {
		return err
	}
	return errors.Join(err, s.opened.Close())
}

var _ quota.Identified = (*Store)(nil)

// Identity implements [quota.Identified]. It is a key in the slot of the account's
// pages, without an expiry: whoever loses them loses it, too.
func (s *Store) Identity(ctx context.Context, upstream, account string) (string, error) {
	if err := s.ready(ctx); err != nil {
		return "", err
	}
	key := s.tag(quota.Pool{Upstream: upstream, Account: account}) + "identity"
	id, err := s.text(ctx, "get", key)
	if err == nil && id == "" {
		if _, err := s.number(ctx, "setnx", key, rand.Text()); err != nil {
			return "", fmt.Errorf("give the ledger an identity: %w", err)
		}
		id, err = s.text(ctx, "get", key) // another process may have been faster
	}
	if err != nil {
		return "", fmt.Errorf("ask the ledger for its identity: %w", err)
	}
	return id, nil
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
	named := url.Values{"db": {cmp.Or(db, "0")}}
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
		host = strings.Trim(address, "[]")
	}
	return net.JoinHostPort(strings.ToLower(cmp.Or(host, "localhost")), cmp.Or(port, "6379"))
}
