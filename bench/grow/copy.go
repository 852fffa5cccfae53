package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
)

// A million pools take minutes to make by reservations. So one account is made by them, and
// what it has in Redis or SQLite is copied for all others. The store of Redis is told that it
// has seen the copies, as a journal would tell it.

// copied is what a store remembers of the pages of the first account: the same as of their
// copies.
type copied struct {
	mu    sync.Mutex
	known map[string]storekit.Birth
	done  bool // before that there are no copies
}

// Recall implements [storekit.BirthKeeper].
func (c *copied) Recall(_ context.Context, p quota.Pool) (storekit.Birth, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.done {
		return storekit.Birth{}, nil
	}
	return c.known[p.Name], nil
}

// Remember implements [storekit.BirthKeeper]. Later births are of single accounts.
func (c *copied) Remember(_ context.Context, p quota.Pool, b storekit.Birth) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.known[p.Name]; !known {
		c.known[p.Name] = b
	}
	return nil
}

// copyAccounts copies the keys of an account to those of a number of accounts.
var copyAccounts = redis.NewScript(`
for i = ARGV[1], ARGV[2] do
  local to = '{api/' .. string.format('project-%07d', i) .. '}'
  for _, key in ipairs(KEYS) do
    redis.call('COPY', key, (string.gsub(key, '{api/project%-0000000}', to, 1)))
  end
end`)

// copyPools fills a Redis with the pools of which the first account is there.
func (c *copied) copyPools(ctx context.Context, client *redis.Client, accounts int) error {
	keys, err := client.Keys(ctx, "*{api/project-0000000}*").Result()
	const each = 500
	for from := 1; from < accounts && err == nil; from += each {
		err = copyAccounts.Run(ctx, client, keys, from, min(from+each, accounts)-1).Err()
		if errors.Is(err, redis.Nil) { // the script returns nothing
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("copy the pools of an account: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = true
	return nil
}

// copyRows does the same in SQLite, and copyMembers copies the first member of a family. The
// copies have the numbers ?1 to ?2.
const numbers = "WITH RECURSIVE numbers (n) AS (VALUES (?1) UNION ALL SELECT n + 1 FROM numbers WHERE n < ?2) "

var (
	copyRows = []string{
		numbers + `INSERT INTO births (upstream, account, pool, zone, born, counts_until)
			SELECT upstream, printf('project-%07d', n), pool, zone, born, counts_until
			FROM numbers, births WHERE account = 'project-0000000'`,
		numbers + `INSERT INTO pools (upstream, account, pool, born, revision, written, blocked_until, reason, windows, used, stamp, page)
			SELECT upstream, printf('project-%07d', n), pool, born, revision, written, blocked_until, reason, windows, used, stamp, page
			FROM numbers, pools WHERE account = 'project-0000000'`,
		numbers + `INSERT INTO reservations (pool_id, made, at, day, units, reserved, calls, generation, method, job, region, class, reason)
			SELECT other.id, made, at, day, units, reserved, calls, generation, method, job, region, class, reason
			FROM reservations CROSS JOIN births AS first CROSS JOIN numbers CROSS JOIN births AS other
			WHERE number <= 10 AND first.id = pool_id AND first.account = 'project-0000000'
			AND other.upstream = first.upstream AND other.account = printf('project-%07d', n) AND other.pool = first.pool`,
	}
	copyMembers = []string{
		numbers + `INSERT INTO members (upstream, account, pool, key, windows, used, written, page, listed, reason)
			SELECT upstream, account, pool, printf('%032d', n), windows, used, written, page, listed, reason
			FROM numbers, members WHERE key = printf('%032d', 0)`,
		"UPDATE families SET members = members + 1 + ?2 - ?1",
	}
)

// copySQLite runs these statements, in transactions that are not too large.
func copySQLite(ctx context.Context, db *sql.DB, statements []string, copies int) error {
	const each = 2000
	for from := 1; from < copies; from += each {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		for _, statement := range statements {
			if _, err := tx.ExecContext(ctx, statement, from, min(from+each, copies)-1); err != nil {
				return errors.Join(err, tx.Rollback())
			}
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	return nil
}
