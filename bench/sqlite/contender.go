package main

import (
	"context"
	"database/sql/driver"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/headroom-quota/headroom/bench/duel"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// ours reserve in a ledger.
var ours = duel.Ours(func(ctx context.Context, path string) (quota.Store, func() error, error) {
	s, err := sqlitestore.Open(ctx, path, nil)
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
})

// contenders are compared with the first.
var contenders = slices.Concat([]duel.Contender{
	{Name: "bare UPDATE of one row", Open: bare("BEGIN IMMEDIATE", update, "COMMIT")},
	{Name: "bare UPDATE, without BEGIN and COMMIT", Open: bare(update)},
}, ours, []duel.Contender{
	{Name: "ours: callers in one process", Open: ours[1].Open, Callers: []int{1, 16}},
})

const (
	create = "CREATE TABLE IF NOT EXISTS bare (id INTEGER PRIMARY KEY, n INTEGER); INSERT OR IGNORE INTO bare VALUES (1, 0)"
	update = "UPDATE bare SET n = n + 1 WHERE id = 1"
)

// The settings of a connection of sqlitestore, word for word.
const settings = "?mode=rwc&_txlock=immediate&_pragma=busy_timeout(5)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(ON)&_pragma=wal_autocheckpoint(4000)"

// bare runs prepared statements on the driver's own connection, as the store does,
// so that it has no advantage from that. Others are waited for as the store waits.
func bare(texts ...string) duel.Open {
	return func(ctx context.Context, path string, _ int) (func(context.Context) error, func() error, error) {
		connector, err := sqlite.NewConnector("file:" + path + settings)
		if err != nil {
			return nil, nil, err
		}
		var conn driver.Conn
		if err := patiently(func() (err error) { conn, err = connector.Connect(ctx); return err }); err != nil {
			return nil, nil, err
		}
		if err := patiently(func() error {
			_, err := conn.(driver.ExecerContext).ExecContext(ctx, create, nil)
			return err
		}); err != nil {
			return nil, nil, err
		}
		var stmts []driver.StmtExecContext
		for _, text := range texts {
			st, err := conn.(driver.ConnPrepareContext).PrepareContext(ctx, text)
			if err != nil {
				return nil, nil, err
			}
			stmts = append(stmts, st.(driver.StmtExecContext))
		}
		return func(ctx context.Context) error {
			for _, st := range stmts {
				if err := patiently(func() error { _, err := st.ExecContext(ctx, nil); return err }); err != nil {
					return err
				}
			}
			return nil
		}, conn.Close, nil
	}
}

// patiently tries until the file is not busy, with the pauses of sqlitestore.
func patiently(do func() error) error {
	err := do()
	for pause := 50 * time.Microsecond; busy(err); pause = min(2*pause, 2*time.Millisecond) {
		time.Sleep(pause/2 + rand.N(pause))
		err = do()
	}
	return err
}

func busy(err error) bool {
	var fault *sqlite.Error
	return errors.As(err, &fault) && fault.Code()&0xff == sqlite3.SQLITE_BUSY
}
