package verdict

import (
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

// judgePools returns the verdict of a server without runs to come, which decides for callers
// only: that of the pool that is worst off.
func (s *State) judgePools() Verdict {
	switch {
	case s.Outage != nil:
		return Verdict{Level: bad, Word: "Not known", Says: Say("It is not known what is left"), More: []Sentence{s.Lost(), s.remedy()}}
	case s.Stuck != nil:
		return Verdict{Level: bad, Word: "Stopped", Says: Say("No call can be charged"), More: []Sentence{s.Lost(), s.remedy()}}
	}
	u := s.Worst()
	if u == nil {
		return Verdict{Level: warn, Word: "Nothing to do", Says: Say("No job has a schedule, and nothing was spent")}
	}
	w, until := usedUp(u), u.Blocked
	v := Verdict{Level: bad, Word: "Blocked"}
	switch blocked := until.After(u.Now); {
	case !blocked && w == nil:
		w = Tightest(u)
		v = Verdict{Level: good, Word: "Available", Says: Say("Calls are admitted")}
		if w != nil && LeftOf(w) <= 0.2 {
			v.Level, v.Word = warn, "Nearly used up"
		}
	case !blocked:
		until, v.Word = backAt(w), "Used up"
	}
	switch {
	case v.Word == "Blocked":
		v.More = []Sentence{Say(blockedBy(u))}
	case w != nil:
		v.More = []Sentence{Say(u.Pool, " has ", view.Amount(u.Pool.String(), w.Remaining), " of ", view.Amount(u.Pool.String(), w.Limit), " left ", Period(w))}
	}
	if v.Level == bad {
		v.Says = Say("Calls that need ", u.Pool, " are refused before ", s.Moment(until))
		v.Tab = Say(v.Word, " until ", s.Clock(until))
	}
	v.Window = w
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
func (s *State) lacking(u *quota.Usage) bool {
	return s.Outage == nil && s.Used(u) && (u.Blocked.After(u.Now) || s.JobsOf(u.Pool.String()) == 0 && usedUp(u) != nil)
}

// notesOfPools returns a note for each pool that lacks units, but for that of the verdict.
func (s *State) notesOfPools(v *Verdict) (all []Note) {
	for i := range s.Pools {
		u := &s.Pools[i]
		switch {
		case u == v.Pool || !s.lacking(u):
		case u.Blocked.After(u.Now):
			all = append(all, Note{bad, Say(blockedBy(u), " until ", s.Moment(u.Blocked)), ""})
		default:
			w := usedUp(u)
			all = append(all, Note{warn, Say(u.Pool, " is used up ", Period(w), ". ", s.When(u, w)[0]), ""})
		}
	}
	return all
}
