package pages

import (
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

// judgePools returns the verdict of a server without runs to come, which decides for callers
// only: that of the pool that is worst off.
func (s *state) judgePools() verdict {
	if s.outage != nil {
		return verdict{Level: bad, Word: "Not known", Says: say("It is not known what is left"), More: []sentence{s.lost(), s.remedy()}}
	}
	u := s.worst()
	if u == nil {
		return verdict{Level: warn, Word: "Nothing to do", Says: say("No job has a schedule, and nothing was spent")}
	}
	w, until := usedUp(u), u.Blocked
	v := verdict{Level: bad, Word: "Blocked"}
	switch blocked := until.After(u.Now); {
	case !blocked && w == nil:
		w = tightest(u)
		v = verdict{Level: good, Word: "Available", Says: say("Calls are admitted")}
		if w != nil && leftOf(w) <= 0.2 {
			v.Level, v.Word = warn, "Nearly used up"
		}
	case !blocked:
		until, v.Word = backAt(w), "Used up"
	}
	switch {
	case v.Word == "Blocked":
		v.More = []sentence{say(blockedBy(u))}
	case w != nil:
		v.More = []sentence{say(u.Pool, " has ", view.Number(w.Remaining), " of ", view.Number(w.Limit), " left ", period(w))}
	}
	if v.Level == bad {
		v.Says = say("Calls that need ", u.Pool, " are refused before ", s.moment(until))
		v.Tab = say(v.Word, " until ", s.clock(until))
	}
	v.window = w
	return v
}

// usedUp returns the window of a pool that is used up, the one that takes longest to have
// units again, or nil.
func usedUp(u *quota.Usage) (last *quota.WindowUsage) {
	for i := range u.Allowances {
		w := &u.Allowances[i]
		if w.Remaining == 0 && w.Used > 0 && !w.Spec.InFlight() && (last == nil || backAt(w).After(backAt(last))) {
			last = w
		}
	}
	return last
}

// backAt returns when units of a window come back next.
func backAt(w *quota.WindowUsage) time.Time {
	if w.NextUnits > 0 {
		return w.NextAt
	}
	return w.ResetAt
}

// lacking reports whether callers are refused units of a pool. It leaves out pools that jobs
// charge, unless they are blocked: for those, the verdict and the notes say what it means.
func (s *state) lacking(u *quota.Usage) bool {
	return s.outage == nil && s.used(u) && (u.Blocked.After(u.Now) || s.jobsOf(u.Pool.String()) == 0 && usedUp(u) != nil)
}

// notesOfPools returns a note for each pool that lacks units, but for that of the verdict.
func (s *state) notesOfPools(v *verdict) (all []note) {
	for i := range s.pools {
		u := &s.pools[i]
		switch {
		case u == v.pool || !s.lacking(u):
		case u.Blocked.After(u.Now):
			all = append(all, note{bad, say(blockedBy(u), " until ", s.moment(u.Blocked)), ""})
		default:
			w := usedUp(u)
			all = append(all, note{warn, say(u.Pool, " is used up ", period(w), ". ", s.when(u, w)[0]), ""})
		}
	}
	return all
}
