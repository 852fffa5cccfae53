package verdict

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/internal/pattern"
	"github.com/headroom-quota/headroom/quota"
)

// blockedBy says who blocked a pool. The words of the upstream are on the pool's card.
func blockedBy(u *quota.Usage) string {
	switch text := u.Pool.String() + " is blocked"; u.BlockedBy {
	case quota.BlockedByUpstream:
		return text + " by the upstream"
	case quota.BlockedByPerson:
		return text + " by " + ByPerson(u.Reason)
	default:
		return text
	}
}

// byWhom is the end of the reason of what somebody did on a page.
var byWhom = pattern.Of(` \(by ([a-z0-9][a-z0-9_-]{0,39})\)$`)

// Person returns who did something on a page, by its reason, or "".
func Person(reason string) string {
	if m := byWhom().FindStringSubmatch(reason); m != nil {
		return m[1]
	}
	return ""
}

// ByPerson says who did something, and why: "anna: maintenance", or "hand: maintenance".
func ByPerson(reason string) string {
	who := "hand"
	if person := Person(reason); person != "" {
		who, reason = person, byWhom().ReplaceAllString(reason, "")
	}
	if reason == "" {
		return who
	}
	return who + ": " + reason
}

// Worst returns the pool with the least left, blocked ones first; nil without pools.
func (s *State) Worst() (worst *quota.Usage) {
	for i := range s.Pools {
		u := &s.Pools[i]
		if s.Used(u) && (worst == nil || cmp.Or(openAt(worst).Compare(openAt(u)), cmp.Compare(LeftOf(Tightest(u)), LeftOf(Tightest(worst)))) < 0) {
			worst = u
		}
	}
	return worst
}

// openAt returns when a blocked pool opens, or zero for an open one.
func openAt(u *quota.Usage) time.Time {
	if u.Blocked.After(u.Now) {
		return u.Blocked
	}
	return time.Time{}
}

// Tightest returns the window of a pool of which the least part is left, or nil. A short
// one counts only if it is nearly used up, because its units are back soon.
func Tightest(u *quota.Usage) (best *quota.WindowUsage) {
	for i := range u.Allowances {
		w := &u.Allowances[i]
		if len(u.Allowances) > 1 && IsShort(w) && LeftOf(w) > 0.2 {
			continue
		}
		if best == nil || LeftOf(w) < LeftOf(best) {
			best = w
		}
	}
	return cmp.Or(best, Shown(u))
}

// LeftOf returns the part of a window that is left.
func LeftOf(w *quota.WindowUsage) float64 {
	if w == nil || w.Limit <= 0 {
		return 0
	}
	return float64(w.Remaining) / float64(w.Limit)
}

// Shown returns the window of a pool whose spend is shown: the longest sliding one of up to
// a day, or else the shortest.
func Shown(u *quota.Usage) *quota.WindowUsage {
	const day = 24 * time.Hour
	var best *quota.WindowUsage
	worth := func(w *quota.WindowUsage) time.Duration {
		if d := w.Spec.Length(); d > day {
			return -d
		} else if w.Spec.Calendar() {
			return d - 1
		} else {
			return d
		}
	}
	for i := range u.Allowances {
		if w := &u.Allowances[i]; !w.Spec.InFlight() && (best == nil || worth(w) > worth(best)) {
			best = w
		}
	}
	return best
}

// When says which units of a pool come back next, and when: of a window, or of the one that
// is used most.
func (s *State) When(u *quota.Usage, w *quota.WindowUsage) (all []Sentence) {
	if !Known(u) {
		return nil
	}
	if u.Blocked.After(u.Now) {
		all = append(all, Say(u.Pool, " opens at ", s.Moment(u.Blocked), freeAt(u)))
	}
	if w = cmp.Or(w, Tightest(u)); w == nil {
		return all
	}
	switch {
	case w.Used == 0:
		return append(all, Say("Nothing is used ", Period(w), ", and ", view.Units(u.Pool.String(), w.Remaining), " are free"))
	case w.NextUnits <= 0:
		return append(all, Say("No unit comes back before ", s.Moment(w.ResetAt)))
	case w.NextUnits >= w.Used:
		return append(all, Say("All ", view.Units(u.Pool.String(), w.Used), " at ", s.Moment(w.NextAt)))
	}
	all = append(all, Say(view.Units(u.Pool.String(), w.NextUnits), " at ", s.Moment(w.NextAt)))
	if w.ResetAt.After(w.NextAt) {
		all = append(all, Say("All ", view.Amount(u.Pool.String(), w.Used), " by ", s.Moment(w.ResetAt)))
	}
	return all
}

// freeAt says how many units are free when a blocked pool opens.
func freeAt(u *quota.Usage) string {
	free := int64(math.MaxInt64)
	for i := range u.Allowances {
		if w := &u.Allowances[i]; len(u.Allowances) == 1 || !IsShort(w) {
			free = min(free, max(w.Limit-usedAt(w, u.Blocked), 0))
		}
	}
	if free == math.MaxInt64 {
		return ""
	}
	return ", with at least " + view.Units(u.Pool.String(), free) + " free"
}

// judgePools returns the verdict of a server without runs to come, which decides for callers
// only: that of the pool that is worst off.
func (s *State) judgePools() Verdict {
	says, remedy, _ := s.fault(nil)
	switch {
	case s.Outage != nil && !slices.ContainsFunc(s.Pools, func(u quota.Usage) bool { return Known(&u) }):
		return Verdict{Level: bad, Word: "Not known", Says: Say("It is not known what is left"), More: []Sentence{says, remedy}}
	case s.Stuck != nil:
		return Verdict{Level: bad, Word: "Stopped", Says: Say("No call can be charged"), More: []Sentence{says, remedy}}
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
	return Known(u) && s.Used(u) && (u.Blocked.After(u.Now) || s.JobsOf(u.Pool.String()) == 0 && usedUp(u) != nil)
}

// notesOfPools returns a note for each pool that lacks units, but for that of the verdict, and for each budget
// that slows its calls down.
func (s *State) notesOfPools(v *Verdict) (all []Note) {
	for i := range s.Pools {
		u := &s.Pools[i]
		if u.Step != "" && Known(u) {
			all = append(all, Note{warn, Say(u.Pool, " has passed a step: ", u.Step), ""})
		}
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
