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
func (s *State) Worst() *quota.Usage {
	var used []*quota.Usage
	for i := range s.Pools {
		if u := &s.Pools[i]; s.Used(u) {
			used = append(used, u)
		}
	}
	if len(used) == 0 {
		return nil
	}
	return slices.MinFunc(used, func(a, b *quota.Usage) int {
		return cmp.Or(openAt(b).Compare(openAt(a)), cmp.Compare(LeftOf(Tightest(a)), LeftOf(Tightest(b))))
	})
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
	if s.Outage != nil {
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
		w := &u.Allowances[i]
		used := w.Used
		switch {
		case len(u.Allowances) > 1 && IsShort(w):
			continue
		case !w.ResetAt.IsZero() && !u.Blocked.Before(w.ResetAt):
			used = 0
		case !w.NextAt.IsZero() && !u.Blocked.Before(w.NextAt):
			used -= w.NextUnits
		}
		free = min(free, max(w.Limit-used, 0))
	}
	if free == math.MaxInt64 {
		return ""
	}
	return ", with at least " + view.Units(u.Pool.String(), free) + " free"
}
