package pgstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// bound returns a context that ends within the store's timeout.
func (b *server) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, b.timeout)
}

// remedies say what to do about the server's errors, by their code. A code may be cut to
// its class.
var remedies = [...]struct{ code, do string }{
	{"42501", "this user lacks a right; ingestor check prints the GRANT to type"},
	{"28", "give the user and password of one who may do this"},
	{"3D000", "create the database, or name another one in the address"},
	{"25006", "the server is a standby: connect to its primary, or name all hosts and add target_session_attrs=read-write"},
	{"53300", "the server has no connection left: raise its max_connections, or lower pool_max_conns in the address"},
	{"53100", "the server's disk is full: make room; nothing that was granted is lost"},
	{"55P03", "another process holds the lock of this account"},
	{"57P", "the server is starting or going down"},
	{"42P05", "behind PgBouncer in transaction mode, add default_query_exec_mode=exec to the address"},
	{"26000", "behind PgBouncer in transaction mode, add default_query_exec_mode=exec to the address"},
}

// fault says which ledger an error is about, and what to do. It has no password.
func (b *server) fault(op string, err error) error {
	if err == nil {
		return nil
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch class := refused.Code[:min(2, len(refused.Code))]; class {
		case "42", "3F", "26": // a table is missing: a later program may have made another schema
			b.opened.Store(false)
		}
		for _, r := range remedies {
			if strings.HasPrefix(refused.Code, r.code) {
				return fmt.Errorf("%s %s: %s: %w", op, b.where, r.do, refused)
			}
		}
		return fmt.Errorf("%s %s: %w", op, b.where, refused)
	}
	if lost, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		err = lost.Unwrap()                                    // without the user
		if first, ok := errors.AsType[*net.OpError](err); ok { // of several tries, with TLS and without
			err = first
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s %s: it did not answer in time, %s at most: %w", op, b.where, b.timeout.Round(time.Millisecond), context.DeadlineExceeded)
	}
	return fmt.Errorf("%s %s: %w", op, b.where, err)
}
