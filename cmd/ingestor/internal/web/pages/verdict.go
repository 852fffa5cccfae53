package pages

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

type level = view.Level

const (
	good = view.Good
	warn = view.Warn
	bad  = view.Bad
)

// verdict answers the three questions: can the next run start, who spent the units, and
// when do they come back?
type verdict struct {
	Level level
	Word  string
	Says  sentence
	More  []sentence
	Tab   sentence // for the title of the page
	Who   *who
	When  []sentence

	History string             // address of that of the pool
	window  *quota.WindowUsage // of Who and When, or nil
	about   *chance            // of which the verdict speaks, or nil
	pool    *quota.Usage       // of Who and When, or nil
	names   []string           // of jobs of which the verdict says when they start
}

// tells reports whether the verdict says a fact already.
func (v *verdict) tells(fact string) bool {
	return slices.ContainsFunc(v.More, func(m sentence) bool { return strings.Contains(m.String(), fact) })
}

// verdict says whether the next run can start.
func (s *state) verdict() verdict {
	all := s.chances()
	v := s.judge(all)
	if v.Tab == nil {
		v.Tab = say(v.Word)
	}
	v.pool, v.History = s.worst(), "/history"
	w := v.window
	if c := v.about; c != nil && c.pool != nil {
		v.pool, w = c.pool, c.window
	}
	if v.pool != nil {
		v.window = cmp.Or(w, tightest(v.pool))
		v.History += "?" + url.Values{"pool": {pageOf(v.pool.Pool)}}.Encode()
		v.Who, v.When = s.who(v.pool, w), s.when(v.pool, w)
	}
	if s.outage != nil {
		v.When = []sentence{say("Known again when the ledger answers")}
	}
	return v
}

// judge judges the runs to come, and the pools of callers.
func (s *state) judge(all []chance) verdict {
	if len(all) == 0 {
		return s.judgePools()
	}
	v := s.judgeRuns(all)
	if v.Level == good && slices.ContainsFunc(s.pools, func(u quota.Usage) bool { return s.lacking(&u) }) {
		v.Level, v.Word = warn, "Available in part" // a note says which
	}
	return v
}

func (s *state) judgeRuns(all []chance) verdict {
	first := all[0]
	next := &first // all is changed below
	open := slices.IndexFunc(all, func(c chance) bool { return !c.shut() })
	switch {
	case s.outage != nil:
		return s.unknown(next)
	case next.never:
		return verdict{Level: bad, Word: "Impossible", Says: say("The next run, ", next.job.Name, ", can never start"), More: []sentence{next.tooExpensive()}, about: next}
	case open < 0:
		all = slices.DeleteFunc(all, func(c chance) bool { return c.never })
		soonest := slices.MinFunc(all, func(a, b chance) int { return a.until.Compare(b.until) })
		v := s.shut(&soonest)
		v.Says = say("No run can start before ", s.moment(soonest.until))
		for i := range all {
			v.names = append(v.names, all[i].job.Name)
		}
		return v
	case next.shut():
		other := all[open]
		v := s.shut(next)
		v.Says = say("The next run, ", next.job.Name, ", cannot start before ", s.moment(next.until))
		v.More = append(v.More, say(other.job.Name, " can start at ", s.moment(other.at)))
		v.names = []string{next.job.Name}
		return v
	case !next.enough():
		return verdict{Level: warn, Word: "Available in part", Says: s.sayOf(next, "can start but not finish"), about: next, More: []sentence{
			say(next.needs(), ". ", next.left()), say("The rest resumes by itself"),
		}}
	}
	return s.canStart(next, all)
}

// shut returns the verdict of a run that cannot start, without the run.
func (s *state) shut(c *chance) verdict {
	word := "Used up"
	if c.blocked {
		word = "Blocked"
	}
	return verdict{Level: bad, Word: word, Tab: say(word, " until ", s.clock(c.until)), More: []sentence{say(c.why())}, about: c}
}

// canStart returns the verdict of a next run that can start.
func (s *state) canStart(next *chance, all []chance) verdict {
	v := verdict{Level: good, Word: "Available", Says: s.sayOf(next, "can start"), about: next}
	needs := next.needs()
	if next.window != nil {
		needs = say(needs, ". ", next.left())
	}
	v.More = append(v.More, needs)
	if waiting := slices.DeleteFunc(all, func(c chance) bool { return c.until.IsZero() }); len(waiting) > 0 {
		first := slices.MinFunc(waiting, func(a, b chance) int { return a.until.Compare(b.until) })
		for i := range waiting {
			if waiting[i].until.Equal(first.until) {
				v.names = append(v.names, waiting[i].job.Name)
			}
		}
		v.Level, v.Word, v.about = warn, "Available in part", &first
		v.More = append(v.More, say(list(v.names), " cannot start before ", s.moment(first.until), ": ", first.why()))
	}
	if missed := next.job.missed; !missed.IsZero() && next.job.last != nil { // a note names those that never ran
		v.Level, v.Word = warn, "Available, not running"
		v.More = append(v.More, say("It", s.due(next.job), " and has not run. Check that ingestor run, or its timer, is up"))
	}
	if s.unread != nil {
		v.Level = warn
	}
	return v
}

// sayOf says when a future run starts, and what of it.
func (s *state) sayOf(c *chance, can string) sentence {
	name := "The next run, " + c.job.Name
	if c.resumes {
		name = "Deferred work of " + c.job.Name
	}
	return say(name, " at ", s.moment(c.at), ", ", can)
}

// blockedBy says who blocked a pool. The words of the upstream are on the pool's card.
func blockedBy(u *quota.Usage) string {
	switch text := u.Pool.String() + " is blocked"; u.BlockedBy {
	case quota.BlockedByUpstream:
		return text + " by the upstream"
	case quota.BlockedByPerson:
		return text + " by " + byPerson(u.Reason)
	default:
		return text
	}
}

// byPerson says who blocked a pool, and why: "anna: maintenance", or "hand: maintenance".
func byPerson(reason string) string {
	who := "hand"
	if m := byWhom.FindStringSubmatch(reason); m != nil {
		who, reason = m[1], strings.TrimSuffix(reason, m[0])
	}
	if reason == "" {
		return who
	}
	return who + ": " + reason
}

// worst returns the pool with the least left, blocked ones first; nil without pools.
func (s *state) worst() *quota.Usage {
	var used []*quota.Usage
	for i := range s.pools {
		if u := &s.pools[i]; s.used(u) {
			used = append(used, u)
		}
	}
	if len(used) == 0 {
		return nil
	}
	return slices.MinFunc(used, func(a, b *quota.Usage) int {
		return cmp.Or(openAt(b).Compare(openAt(a)), cmp.Compare(leftOf(tightest(a)), leftOf(tightest(b))))
	})
}

// openAt returns when a blocked pool opens, or zero for an open one.
func openAt(u *quota.Usage) time.Time {
	if u.Blocked.After(u.Now) {
		return u.Blocked
	}
	return time.Time{}
}

// tightest returns the window of a pool of which the least part is left, or nil. A short
// one counts only if it is nearly used up, because its units are back soon.
func tightest(u *quota.Usage) (best *quota.WindowUsage) {
	for i := range u.Allowances {
		w := &u.Allowances[i]
		if len(u.Allowances) > 1 && isShort(w) && leftOf(w) > 0.2 {
			continue
		}
		if best == nil || leftOf(w) < leftOf(best) {
			best = w
		}
	}
	return cmp.Or(best, shown(u))
}

// leftOf returns the part of a window that is left.
func leftOf(w *quota.WindowUsage) float64 {
	if w == nil || w.Limit <= 0 {
		return 0
	}
	return float64(w.Remaining) / float64(w.Limit)
}
