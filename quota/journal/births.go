package journal

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// Recall implements [quota.Births].
func (j *Journal) Recall(ctx context.Context, page string) (quota.Birth, error) {
	if j.db == nil {
		return quota.Birth{}, errNotMade
	}
	var born, until int64
	err := j.db.QueryRowContext(ctx, `SELECT born, until FROM births WHERE page = ?`, page).Scan(&born, &until)
	if errors.Is(err, sql.ErrNoRows) {
		return quota.Birth{}, nil
	}
	return quota.Birth{Born: time.UnixMicro(born).UTC(), Until: time.UnixMicro(until).UTC()}, j.fault("read", err)
}

// Remember implements [quota.Births].
func (j *Journal) Remember(ctx context.Context, page string, b quota.Birth) error {
	return j.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO births (page, born, until) VALUES (?, ?, ?)
			ON CONFLICT (page) DO UPDATE SET born = excluded.born,
			until = CASE born WHEN excluded.born THEN max(until, excluded.until) ELSE excluded.until END`, // processes overtake each other
			page, b.Born.UnixMicro(), b.Until.UnixMicro())
		return err
	})
}
