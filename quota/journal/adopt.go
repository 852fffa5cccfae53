package journal

import (
	"context"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/internal/pattern"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
)

// Orphans reports whether the file was written before journals told ledgers apart,
// and no ledger has adopted what it holds.
func (j *Journal) Orphans(ctx context.Context) (yes bool, err error) {
	err = j.read(ctx, func(r sqlitefile.Row) error { return r.Scan(&yes) },
		`SELECT EXISTS (SELECT * FROM old_births) OR EXISTS (SELECT * FROM debts WHERE ledger = '')`)
	return yes, err
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
	err = j.write(ctx, func(tx *sqlitefile.Session) error {
		old, err := oldBirths(tx)
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
			_, err := tx.Exec(`INSERT INTO births (ledger, upstream, account, pool, identity, born, generation, latest, until)
				VALUES (?, ?, ?, ?, '', ?, 0, 0, ?) ON CONFLICT DO NOTHING`, // what is there was seen since
				j.ledger, pool.Upstream, pool.Account, pool.Name, b.Born, b.Until)
			if err != nil {
				return err
			}
		}
		for _, query := range []string{`DELETE FROM old_births`, `UPDATE OR IGNORE debts SET ledger = ?1 WHERE ledger = ''`} {
			n, err := tx.Exec(query, j.ledger)
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
func oldBirths(tx *sqlitefile.Session) (map[quota.Pool]storekit.Birth, error) {
	old := make(map[quota.Pool]storekit.Birth)
	return old, tx.Rows(`SELECT page, born, until FROM old_births`, nil, func(r sqlitefile.Row) error {
		if pool, ok := oldPage(r.Text(0)); ok {
			old[pool] = storekit.Birth{Born: r.Time(1), Until: r.Time(2)}
		}
		return nil
	})
}

// A page was remembered by its key in Redis: headroom:{youtube/default}:page:units.
var pageName = pattern.Of(`\{([^/}]+)/([^/}]+)\}:page:(.+)$`)

func oldPage(key string) (quota.Pool, bool) {
	m := pageName().FindStringSubmatch(key)
	if m == nil {
		return quota.Pool{}, false
	}
	plain := strings.NewReplacer("%7B", "{", "%7D", "}", "%2F", "/", "%25", "%")
	return quota.Pool{Upstream: plain.Replace(m[1]), Account: plain.Replace(m[2]), Name: m[3]}, true
}
