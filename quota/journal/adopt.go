package journal

import (
	"context"
	"database/sql"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
)

// Orphans reports whether the file was written before journals told ledgers apart,
// and no ledger has adopted what it holds.
func (j *Journal) Orphans(ctx context.Context) (yes bool, err error) {
	if !j.made() {
		return false, errNotMade
	}
	err = j.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT * FROM old_births) OR EXISTS (SELECT * FROM debts WHERE ledger = '')`).Scan(&yes)
	return yes, j.fault("read", err)
}

// Adopt gives what has no ledger to this one if it matches: if one of its pages, as
// [quota.View.Usage] finds them now, was born when one of those was that are remembered. If nothing
// that is remembered counts any more, the first ledger matches. It reports whether
// anything was adopted.
func (j *Journal) Adopt(ctx context.Context, now time.Time, pages []quota.Usage) (adopted bool, err error) {
	found := make(map[quota.Pool]int64)
	for i := range pages {
		found[pages[i].Pool] = pages[i].Born.UnixMicro()
	}
	err = j.write(ctx, func(tx *sql.Tx) error {
		old, err := oldBirths(ctx, tx)
		if err != nil {
			return err
		}
		matches, counts := false, false
		for pool, b := range old {
			matches = matches || found[pool] == b.Born.UnixMicro()
			counts = counts || now.Before(b.Until)
		}
		if counts && !matches {
			return nil
		}
		for pool, b := range old {
			_, err := tx.ExecContext(ctx, `INSERT INTO births (ledger, upstream, account, pool, identity, born, generation, latest, until)
				VALUES (?, ?, ?, ?, '', ?, 0, 0, ?) ON CONFLICT DO NOTHING`, // what is there was seen since
				j.ledger, pool.Upstream, pool.Account, pool.Name, b.Born.UnixMicro(), b.Until.UnixMicro())
			if err != nil {
				return err
			}
		}
		for _, query := range []string{`DELETE FROM old_births`, `UPDATE OR IGNORE debts SET ledger = ?1 WHERE ledger = ''`} {
			done, err := tx.ExecContext(ctx, query, j.ledger)
			if err != nil {
				return err
			}
			n, err := done.RowsAffected()
			if err != nil {
				return err
			}
			adopted = adopted || n > 0
		}
		return nil
	})
	return adopted && err == nil, err
}

// oldBirths reads what a journal of schema 1 remembers.
func oldBirths(ctx context.Context, tx *sql.Tx) (_ map[quota.Pool]storekit.Birth, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT page, born, until FROM old_births`)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	old := make(map[quota.Pool]storekit.Birth)
	for rows.Next() {
		var page string
		var born, until int64
		if err := rows.Scan(&page, &born, &until); err != nil {
			return nil, err
		}
		if pool, ok := oldPage(page); ok {
			old[pool] = storekit.Birth{Born: instant(born), Until: instant(until)}
		}
	}
	return old, rows.Err()
}

// A page was remembered by its key in Redis: headroom:{youtube/default}:page:units.
var pageName = regexp.MustCompile(`\{([^/}]+)/([^/}]+)\}:page:(.+)$`)

func oldPage(key string) (quota.Pool, bool) {
	m := pageName.FindStringSubmatch(key)
	if m == nil {
		return quota.Pool{}, false
	}
	plain := strings.NewReplacer("%7B", "{", "%7D", "}", "%2F", "/", "%25", "%")
	return quota.Pool{Upstream: plain.Replace(m[1]), Account: plain.Replace(m[2]), Name: m[3]}, true
}
