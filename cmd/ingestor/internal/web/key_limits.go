package web

import (
	"fmt"
	"net/http"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
	"github.com/headroom-quota/headroom/quota"
)

// KeyLimit is a [quota.KeyLimit] for JSON.
type KeyLimit struct {
	Family  string    `json:"family"`
	Key     string    `json:"key"`
	Quota   int64     `json:"quota"` // 0: it was removed
	By      string    `json:"by"`
	Reason  string    `json:"reason"`
	At      time.Time `json:"at"`
	Version int64     `json:"version"`
}

// LimitOf returns a limit for JSON.
func LimitOf(l quota.KeyLimit) KeyLimit { return KeyLimit(l) }

// keyLimit returns the limit of a key that was set at run time.
func (s *Server) keyLimit(r *http.Request) (any, error) {
	family, key := r.PathValue("family"), r.PathValue("key")
	ledger := s.current().Ledger
	l, err := ledger.Admin().KeyLimit(r.Context(), family, key)
	switch {
	case err != nil:
		return nil, problem.OfLedger(ledger.Book(), err)
	case l == nil || l.Quota == 0:
		return nil, &problem.Problem{Status: http.StatusNotFound, Detail: fmt.Sprintf("key %.80q of family %.80q has no limit that was set at run time; the price book has its limit", key, family)}
	}
	return LimitOf(*l), nil
}

func (s *Server) setLimit(r *http.Request) (any, error) {
	var units *int64
	var reason string
	if err := readObject(r, field{"quota", &units}, field{"reason", &reason}); err != nil {
		return nil, err
	}
	if units == nil || *units < 1 {
		return nil, problem.BadInput("send the quota of the key, 1 or more, as in {\"quota\": 6000}; to remove the limit, send DELETE")
	}
	return s.changeLimit(r, *units, reason)
}

func (s *Server) removeLimit(r *http.Request) (any, error) {
	if _, err := s.keyLimit(r); err != nil {
		return nil, err
	}
	return s.changeLimit(r, 0, r.URL.Query().Get("reason"))
}

func (s *Server) changeLimit(r *http.Request, units int64, reason string) (any, error) {
	ledger := s.current().Ledger
	l, err := ledger.Admin().SetLimit(r.Context(), quota.KeyLimit{
		Family: r.PathValue("family"), Key: r.PathValue("key"), Quota: units, By: caller(r).Name(), Reason: reason,
	})
	if err != nil {
		return nil, problem.OfLedger(ledger.Book(), err)
	}
	s.o.Log.Info("set a limit", "family", l.Family, "quota", l.Quota, "by", l.By, "reason", l.Reason)
	return LimitOf(l), nil
}
