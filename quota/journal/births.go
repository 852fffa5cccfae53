package journal

import (
	"context"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
)

func (j *Journal) Recall(ctx context.Context, pool quota.Pool) (b storekit.Birth, err error) {
	err = j.read(ctx, func(r sqlitefile.Row) error {
		return r.Scan(&b.Identity, &b.Born, &b.Generation, &b.Latest, &b.Until)
	}, `SELECT identity, born, generation, latest, until FROM births
		WHERE ledger = ? AND upstream = ? AND account = ? AND pool = ?`, j.Ledger(), pool.Upstream, pool.Account, pool.Name)
	return b, err
}

func (j *Journal) Remember(ctx context.Context, pool quota.Pool, b storekit.Birth) error {
	return j.write(ctx, func(tx *sqlitefile.Session) error {
		_, err := tx.Exec(`INSERT INTO births (ledger, upstream, account, pool, identity, born, generation, latest, until)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET identity = excluded.identity, born = excluded.born, generation = excluded.generation,
			latest = CASE WHEN born = excluded.born AND generation = excluded.generation THEN max(latest, excluded.latest) ELSE excluded.latest END,
			until = CASE WHEN born = excluded.born AND generation = excluded.generation THEN max(until, excluded.until) ELSE excluded.until END
			WHERE born <> excluded.born OR generation <= excluded.generation`, // processes overtake each other
			j.ledger, pool.Upstream, pool.Account, pool.Name, b.Identity, b.Born, b.Generation, b.Latest, b.Until)
		return err
	})
}

// Forget forgets all that is remembered of the ledger's pages, so that it is trusted
// as it is found.
func (j *Journal) Forget(ctx context.Context) error {
	return j.write(ctx, func(tx *sqlitefile.Session) error {
		_, err := tx.Exec(`DELETE FROM births WHERE ledger = ?`, j.ledger)
		return err
	})
}

// Remembers reports whether anything is remembered of the ledger.
func (j *Journal) Remembers(ctx context.Context) (yes bool, err error) {
	err = j.read(ctx, func(r sqlitefile.Row) error { return r.Scan(&yes) }, `SELECT EXISTS (SELECT * FROM births WHERE ledger = ?)`, j.Ledger())
	return yes, err
}

// Copies returns the addresses of other ledgers with an identity of this one's, whose
// units still count: one is a copy of the other, and neither counts what is spent of
// the other one.
func (j *Journal) Copies(ctx context.Context, now time.Time) (addresses []string, err error) {
	err = j.read(ctx, func(r sqlitefile.Row) error {
		addresses = append(addresses, r.Text(0))
		return nil
	}, `SELECT DISTINCT other.ledger FROM births mine JOIN births other USING (upstream, account, identity)
		WHERE mine.ledger = ?1 AND other.ledger <> ?1 AND identity <> '' AND other.until > ?2 ORDER BY 1`, j.Ledger(), now)
	return addresses, err
}
