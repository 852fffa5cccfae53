package main

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
	"github.com/headroom-quota/headroom/quota/window"
)

// A contender commits one transaction per call, and each must be granted or
// refused as it is meant to.
type contender struct {
	name   string
	open   open
	judged bool // by the goal

	callers []int // in one process, instead of processes
}

// open opens a file that others have open too, and returns what is timed and what
// ends it.
type open func(ctx context.Context, path string) (do func(context.Context) error, end func() error, err error)

// contenders are compared with the first.
var contenders = []contender{
	{name: "bare UPDATE of one row", open: bare("BEGIN IMMEDIATE", update, "COMMIT")},
	{name: "bare UPDATE, without BEGIN and COMMIT", open: bare(update)},
	{name: "ours: 1 window, receipt, spend", open: reserves(1, roomy), judged: true},
	{name: "ours: 2 windows, receipt, spend", open: reserves(2, roomy), judged: true},
	{name: "ours: 2 windows, refused", open: reserves(2, 0)},
	{name: "ours: callers in one process", open: reserves(2, roomy), callers: []int{1, 16}},
}

// roomy is a limit that no timed call comes near.
const roomy = 1<<31 - 1

var pacific = must(time.LoadLocation("America/Los_Angeles"))

// reserves reserves as a ledger does for a transport: with an id that is fresh.
func reserves(windows int, limit int64) open {
	return func(ctx context.Context, path string) (func(context.Context) error, func() error, error) {
		s, err := sqlitestore.Open(ctx, path, nil)
		if err != nil {
			return nil, nil, err
		}
		c := quota.Charge{
			Pool:  quota.Pool{Upstream: "youtube", Account: quota.DefaultAccount, Name: "units"},
			Units: 3, Revision: 1, Zone: pacific,
		}
		for _, spec := range []window.Spec{{Per: 24 * time.Hour}, {Period: window.Day, Zone: pacific}}[:windows] {
			c.Windows = append(c.Windows, window.NewLimit(must(spec.Normal()), limit))
		}
		r := quota.Request{
			Charges: []quota.Charge{c}, Fresh: true,
			Labels: quota.Labels{Method: "videos.list", Job: "trending", Region: "DE", Class: "backfill"},
		}
		var n atomic.Int64
		return func(ctx context.Context) error {
			mine := r
			mine.ID = fmt.Sprintf("%08x%08x", os.Getpid(), n.Add(1))
			v, err := s.Reserve(ctx, mine)
			if err == nil && v.Allowed != (limit > 0) {
				err = errors.New("granted what it should have refused, or the other way round")
			}
			return err
		}, s.Close, nil
	}
}

const (
	create = "CREATE TABLE IF NOT EXISTS bare (id INTEGER PRIMARY KEY, n INTEGER); INSERT OR IGNORE INTO bare VALUES (1, 0)"
	update = "UPDATE bare SET n = n + 1 WHERE id = 1"
)

// The settings of a connection of sqlitestore, word for word.
const settings = "?mode=rwc&_txlock=immediate&_pragma=busy_timeout(5)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(ON)&_pragma=wal_autocheckpoint(4000)"

// bare runs prepared statements on the driver's own connection, as the store does,
// so that it has no advantage from that. Others are waited for as the store waits.
func bare(texts ...string) open {
	return func(ctx context.Context, path string) (func(context.Context) error, func() error, error) {
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

// must is for what is made from constants.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
