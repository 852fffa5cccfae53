package view

import (
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// Pool is how a pool stands.
type Pool struct {
	Pool    string     `json:"pool"`
	Known   bool       `json:"known"` // something was spent of it, and may count still
	Blocked *time.Time `json:"blocked_until"`
	// BlockedBy is who shut it: see [quota.Blocker].
	BlockedBy quota.Blocker `json:"blocked_by,omitempty"`
	Reason    string        `json:"reason,omitempty"`
	Windows   []Window      `json:"windows"`
	LedgerAt  time.Time     `json:"ledger_time"`
}

// Window is how a window of a pool stands.
type Window struct {
	Window    string      `json:"window"`
	Spec      window.Spec `json:"-"` // what Window names
	Used      int64       `json:"used"`
	Limit     int64       `json:"limit"`
	Remaining int64       `json:"remaining"`
	Quota     int64       `json:"quota"`
	Headroom  int64       `json:"headroom"`
	NextUnits int64       `json:"next_units"`
	NextAt    *time.Time  `json:"next_at"`
	ResetAt   *time.Time  `json:"reset_at"`
}

// Pools shows what the ledger says of its pools.
func Pools(all []quota.Usage) []Pool {
	views := make([]Pool, 0, len(all))
	for _, u := range all {
		views = append(views, pool(u))
	}
	return views
}

func pool(u quota.Usage) Pool {
	p := Pool{Pool: u.Pool.String(), Known: u.Known, LedgerAt: u.Now.UTC()}
	if u.Blocked.After(u.Now) {
		p.Blocked, p.BlockedBy, p.Reason = Instant(u.Blocked), u.BlockedBy, u.Reason
	}
	for _, w := range u.Allowances {
		v := Window{
			Window: w.Window, Spec: w.Spec, Used: w.Used, Limit: w.Limit, Remaining: w.Remaining,
			Quota: w.Quota, Headroom: w.Headroom, NextUnits: w.NextUnits,
		}
		if w.NextUnits > 0 {
			v.NextAt = Instant(w.NextAt)
		}
		if w.Used > 0 || w.Spec.Calendar() { // a calendar has one in any case
			v.ResetAt = Instant(w.ResetAt)
		}
		p.Windows = append(p.Windows, v)
	}
	return p
}

// Shut says that a pool is shut, and by whom if that is known: "is shut by hand".
func Shut(by quota.Blocker) string { return strings.TrimSpace("is shut " + by.Words()) }

// Name returns the name of window i of a pool for people: without a calendar's
// zone, where no other window of the pool has the same period.
func (p *Pool) Name(i int) string {
	own := p.Windows[i]
	for j, w := range p.Windows {
		if !own.Spec.Calendar() || j != i && w.Spec.Period == own.Spec.Period {
			return own.Window
		}
	}
	return string(own.Spec.Period)
}
