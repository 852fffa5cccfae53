package web

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/guard"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/throttle"
)

// The limits per client are families of the price book. "client" is the limit for all
// routes together; without it the limit is 60 requests a minute. "client_search" is a limit
// of its own for searches, by the name of the limit in the table of routes. Clients on this
// machine are limited too. The counts are in memory, so that a request costs no round trip
// to the store.
const ownLimit = throttle.DefaultFamily + "_"

type limits struct {
	missed *throttle.Throttle            // for requests that match no route
	routes map[string]*throttle.Throttle // by the name of the limit in the table of routes
}

// counts are in memory, and the limits of single keys that were set at run time in the
// ledger.
type counts struct {
	quota.Store
	quota.LimitKeeper
}

// KeyLimit implements [quota.LimitKeeper]. While the ledger is down, the price book's limits
// hold: an unknown limit would be an outage, and in an outage a throttle lets all pass.
func (c counts) KeyLimit(ctx context.Context, family, key string) (*quota.KeyLimit, error) {
	l, err := c.LimitKeeper.KeyLimit(ctx, family, key)
	if err != nil && ctx.Err() == nil {
		return nil, nil
	}
	return l, err
}

func (s *Server) newLimits(book *quota.Book, set quota.LimitKeeper) (*limits, error) {
	names := map[string]bool{strings.TrimPrefix(guard.GuessFamily, ownLimit): true}
	free := map[string][]throttle.Limit{}
	for _, r := range s.table() {
		names[r.limit] = true
		if r.limit == unlimited {
			_, path, _ := strings.Cut(r.pattern, " ")
			free[path] = nil // headers must not tell which method is right
		}
	}
	families := throttle.Book()
	for name, f := range book.Families {
		route, ours := strings.CutPrefix(name, ownLimit)
		if ours && (!names[route] || route == unlimited) {
			delete(names, unlimited)
			return nil, quota.BadInput("family %s of the price book limits no route; the families for routes are %s%s",
				name, ownLimit, strings.Join(slices.Sorted(maps.Keys(names)), ", "+ownLimit))
		}
		if ours || name == throttle.DefaultFamily {
			families.Families[name] = f
		}
	}
	ledger, err := quota.New(families, counts{memstore.New(&memstore.Options{Clock: s.o.Clock}), set}, &quota.Options{Clock: s.o.Clock})
	if err != nil {
		return nil, err
	}
	l := limits{routes: map[string]*throttle.Throttle{}}
	o := throttle.Options{TrustedProxies: s.o.TrustedProxies, Logger: s.o.Log, XRateLimit: s.o.XRateLimit, Delay: s.o.Delay, Delayed: 64}
	for name := range names {
		o.Limits = []throttle.Limit{{}}
		if _, own := book.Families[ownLimit+name]; own {
			o.Limits[0].Family = ownLimit + name
		}
		if l.routes[name], err = throttle.New(ledger, &o); err != nil {
			return nil, fmt.Errorf("limits per client: %w", err)
		}
	}
	o.Limits, o.Routes = nil, free
	if l.missed, err = throttle.New(ledger, &o); err != nil {
		return nil, fmt.Errorf("limits per client: %w", err)
	}
	return &l, nil
}

// limited checks the limit of a route first.
func (s *Server) limited(limit string, next http.Handler) http.Handler {
	if limit == unlimited {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		admit(s.limits.Load().routes[limit], w, r, next)
	})
}

// admit has next answer what a throttle admits. A client that hangs up at once is counted, too.
func admit(t *throttle.Throttle, w http.ResponseWriter, r *http.Request, next http.Handler) {
	if r.Context().Err() == nil {
		t.Handler(next).ServeHTTP(w, r)
		return
	}
	admitted := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { next.ServeHTTP(w, r) })
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), time.Second) // it does not wait longer for nobody
	defer cancel()
	t.Handler(admitted).ServeHTTP(w, r.WithContext(ctx))
}

// keyLimit returns the limit of a key that was set at run time.
func (s *Server) keyLimit(r *http.Request) (any, error) {
	family, key := r.PathValue("family"), r.PathValue("key")
	l, err := s.current().Ledger.Admin().KeyLimit(r.Context(), family, key)
	switch {
	case err != nil:
		return nil, err
	case l == nil || !l.Holds(s.o.Clock.Now()):
		return nil, &problem.Problem{Status: http.StatusNotFound, Detail: fmt.Sprintf("key %.80q of family %.80q has no limit that was set at run time; the price book has its limit", key, family)}
	}
	return *l, nil
}

func (s *Server) setLimit(r *http.Request) (any, error) {
	var units *int64
	var dry bool
	var until *time.Time
	k := keyLimitOf(r)
	if err := readObject(r, field{"quota", &units}, field{"headroom", &k.Headroom}, field{"reason", &k.Reason}, field{"until", &until}, field{"dry_run", &dry}); err != nil {
		return nil, err
	}
	if until != nil {
		if k.Until = *until; until.IsZero() {
			return nil, problem.BadInput("until has passed")
		}
	}
	if units == nil || *units < 1 {
		return nil, problem.BadInput("send the quota of the key, 1 or more, as in {\"quota\": 6000}; to remove the limit, send DELETE")
	}
	if k.Quota = *units; !dry {
		return s.changeLimit(r, k)
	}
	return s.current().Ledger.Admin().TryLimit(r.Context(), k)
}

func (s *Server) removeLimit(r *http.Request) (any, error) {
	if _, err := s.keyLimit(r); err != nil {
		return nil, err
	}
	k := keyLimitOf(r)
	k.Reason = r.URL.Query().Get("reason")
	return s.changeLimit(r, k)
}

// keyLimitOf returns the limit that a request is about.
func keyLimitOf(r *http.Request) quota.KeyLimit {
	return quota.KeyLimit{Family: r.PathValue("family"), Key: r.PathValue("key"), By: caller(r).Name()}
}

func (s *Server) changeLimit(r *http.Request, k quota.KeyLimit) (any, error) {
	l, err := s.current().Ledger.Admin().SetLimit(r.Context(), k)
	if err != nil {
		return nil, err
	}
	s.o.Log.Info("set a limit", "family", l.Family, "quota", l.Quota, "by", l.By, "reason", l.Reason)
	return l, nil
}
