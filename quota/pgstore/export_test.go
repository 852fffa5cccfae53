package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pagestore"
	"github.com/headroom-quota/headroom/quota/window"
)

// Lock returns the key under which transactions lock an account.
func Lock(s *Store, p quota.Pool) int64 {
	t := newTx(context.Background(), s.server, nil)
	return t.wants(&pagestore.Scope{Charges: []quota.Charge{{Pool: p}}}).locks[0]
}

// Prune deletes old charges at once, and returns how many.
func Prune(s *Store) int64 { return PruneAt(s, s.server.clock.Now()) }

// PruneAt is Prune that began at a time.
func PruneAt(s *Store, now time.Time) int64 { return s.server.pruneSome(window.At(now)) }

// Steps is the version that this program knows.
var Steps = len(steps())

// Statement returns a statement by its name.
func Statement(name string) string { return statements()[name] }

// Over opens a store on connections that it shares, in the schema that the options name. Its Close
// leaves them open.
func Over(pool *pgxpool.Pool, where string, o *Options) *Store {
	return over(pool, func() {}, where, o.Schema, o)
}
