package journal

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
)

// Recall implements [storekit.BirthKeeper].
func (j *Journal) Recall(ctx context.Context, pool quota.Pool) (storekit.Birth, error) {
	if !j.made() {
		return storekit.Birth{}, errNotMade
	}
	var b storekit.Birth
	var born, latest, until int64
	err := j.db.QueryRowContext(ctx, `SELECT identity, born, generation, latest, until FROM births
		WHERE ledger = ? AND upstream = ? AND account = ? AND pool = ?`,
		j.ledger, pool.Upstream, pool.Account, pool.Name).Scan(&b.Identity, &born, &b.Generation, &latest, &until)
	if errors.Is(err, sql.ErrNoRows) {
		return storekit.Birth{}, nil
	}
	b.Born, b.Latest, b.Until = instant(born), instant(latest), instant(until)
	return b, j.fault("read", err)
}

// Remember implements [storekit.BirthKeeper].
func (j *Journal) Remember(ctx context.Context, pool quota.Pool, b storekit.Birth) error {
	return j.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO births (ledger, upstream, account, pool, identity, born, generation, latest, until)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET identity = excluded.identity, born = excluded.born, generation = excluded.generation,
			latest = CASE WHEN born = excluded.born AND generation = excluded.generation THEN max(latest, excluded.latest) ELSE excluded.latest END,
			until = CASE WHEN born = excluded.born AND generation = excluded.generation THEN max(until, excluded.until) ELSE excluded.until END
			WHERE born <> excluded.born OR generation <= excluded.generation`, // processes overtake each other
			j.ledger, pool.Upstream, pool.Account, pool.Name, b.Identity,
			b.Born.UnixMicro(), b.Generation, b.Latest.UnixMicro(), b.Until.UnixMicro())
		return err
	})
}

// Forget forgets all that is remembered of the ledger's pages, so that it is trusted
// as it is found.
func (j *Journal) Forget(ctx context.Context) error {
	return j.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM births WHERE ledger = ?`, j.ledger)
		return err
	})
}

// Remembers reports whether anything is remembered of the ledger.
func (j *Journal) Remembers(ctx context.Context) (yes bool, err error) {
	if !j.made() {
		return false, errNotMade
	}
	err = j.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT * FROM births WHERE ledger = ?)`, j.ledger).Scan(&yes)
	return yes, j.fault("read", err)
}

// Copies returns the addresses of other ledgers with an identity of this one's, whose
// units still count: one is a copy of the other, and neither counts what is spent of
// the other one.
func (j *Journal) Copies(ctx context.Context, now time.Time) (addresses []string, err error) {
	err = j.each(ctx, func(rows *sql.Rows) error {
		var address string
		err := rows.Scan(&address)
		addresses = append(addresses, address)
		return err
	}, `SELECT DISTINCT other.ledger FROM births mine JOIN births other USING (upstream, account, identity)
		WHERE mine.ledger = ?1 AND other.ledger <> ?1 AND identity <> '' AND other.until > ?2 ORDER BY 1`, j.Ledger(), now.UnixMicro())
	return addresses, err
}

// each reads rows one by one.
func (j *Journal) each(ctx context.Context, row func(*sql.Rows) error, query string, args ...any) (err error) {
	if !j.made() {
		return errNotMade
	}
	rows, err := j.db.QueryContext(ctx, query, args...)
	if err != nil {
		return j.fault("read", err)
	}
	defer func() { err = errors.Join(err, j.fault("read", rows.Close())) }()
	for rows.Next() {
		if err := row(rows); err != nil {
			return j.fault("read", err)
		}
	}
	return j.fault("read", rows.Err())
}

func instant(micros int64) time.Time { return time.UnixMicro(micros).UTC() }
