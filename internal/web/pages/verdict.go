package pages

import (
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/internal/web/view"
)

type level = view.Level

const (
	good = view.Good
	warn = view.Warn
	bad  = view.Bad
)

// verdict answers the first question: can the next run start?
type verdict struct {
	Level level
	Word  string
	Says  sentence
	More  []sentence
}

// verdict says whether the next run can start.
func (s *state) verdict() verdict {
	all := s.chances()
	if len(all) == 0 {
		return verdict{Level: warn, Word: "Nothing to do", Says: say("No run is to come: no job has a schedule")}
	}
	next := all[0]
	switch open := slices.IndexFunc(all, func(c chance) bool { return !c.shut() }); {
	case s.outage != nil:
		return s.unknown(&next)
	case next.never:
		return verdict{Level: bad, Word: "It cannot start", Says: append(s.sayOf(&next, " can never start: "), next.tooExpensive()...)}
	case open < 0:
		all = slices.DeleteFunc(all, func(c chance) bool { return c.never })
		first := slices.MinFunc(all, func(a, b chance) int { return a.until.Compare(b.until) })
		return verdict{Level: bad, Word: "Nothing can start", Says: say("No run can start before ", s.moment(first.until), ": ", first.why()), More: s.spenders(&first)}
	case next.shut():
		other := say(all[open].job.Name, " can start, at ", s.moment(all[open].at))
		return verdict{Level: bad, Word: "It cannot start", Says: s.sayOf(&next, " cannot start before ", s.moment(next.until), ": ", next.why()), More: append(s.spenders(&next), other)}
	case !next.enough():
		rest := say("The rest is deferred and resumes by itself when units come back")
		return verdict{Level: warn, Word: "It can start, not finish", Says: s.sayOf(&next, " can start but not finish: ", next.needs(), ", and ", view.Number(next.free), " are left of ",
			next.pool.Pool, " ", period(next.window)), More: append([]sentence{rest}, s.spenders(&next)...)}
	}
	return s.canStart(&next, all)
}

// canStart returns the verdict of a next run that can start.
func (s *state) canStart(next *chance, all []chance) verdict {
	v := verdict{Level: good, Word: "It can start", Says: s.sayOf(next, " can start: ", next.needs())}
	if next.window != nil {
		v.Says = append(v.Says, say(", and ", view.Number(next.free), " are left of ", next.pool.Pool)...)
	}
	if waiting := slices.DeleteFunc(all, func(c chance) bool { return c.until.IsZero() }); len(waiting) > 0 {
		v.Level, v.Word = warn, "It can start, others cannot"
		v.More = s.shortOf(waiting)
	}
	if missed := next.job.missed; !missed.IsZero() {
		v.Level, v.Word = warn, "It could start"
		v.More = append(v.More, say("It was due at ", s.moment(missed), " and has not run: check that ingestor run, or its timer, is up"))
	}
	if s.unread != nil {
		v.Level = warn
	}
	return v
}

// shortOf says which runs cannot start yet, and who spent the units that the first lacks.
func (s *state) shortOf(waiting []chance) []sentence {
	var names []string
	for i := range waiting {
		names = append(names, waiting[i].job.Name)
	}
	first := slices.MinFunc(waiting, func(a, b chance) int { return a.until.Compare(b.until) })
	return append([]sentence{say(list(names), " cannot start before ", s.moment(first.until), ": ", first.why())}, s.spenders(&first)...)
}

// sayOf starts a sentence with a future run.
func (s *state) sayOf(c *chance, rest ...any) sentence {
	name := "The next run, " + c.job.Name
	if c.resumes {
		name = "Deferred work of " + c.job.Name + ", to resume"
	}
	return say(append([]any{name, " at ", s.moment(c.at), ","}, rest...)...)
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// spenders says who spent the units that are missing.
func (s *state) spenders(c *chance) []sentence {
	var who []string
	w := c.window
	if w == nil {
		w = shown(c.pool)
	}
	h := s.hours(c.pool, w, byJob)
	for _, l := range h.legend() {
		who = append(who, l.Name+" "+l.Units)
	}
	if len(who) == 0 {
		return nil
	}
	return []sentence{say("Spent ", h.within, ": ", strings.Join(who, ", "))}
}
