package verdict

import "time"

// Outlook says when a job runs next, and whether it can.
type Outlook struct {
	At      time.Time // when it can start; zero if that is not known, or never
	Resumes bool      // deferred work
	Says    Sentence
}

// Outlook says when a job runs next, and whether it can. Every page shows this. The verdict and
// its notes say why.
func (s *State) Outlook(j *Job) Outlook {
	c := s.chanceOf(j)
	o := Outlook{At: c.at, Resumes: c.resumes}
	switch {
	case j.Paused:
		o.Says = Say("is paused")
	case c.at.IsZero():
		o.Says = Say("has no schedule")
	case s.Outage != nil:
		o.Says = Say("not known")
	case s.Stuck != nil, s.Unread != nil, s.Unkept != nil:
		o.Says = Say("does no work then")
	case s.silence() != nil:
		o.At, o.Says = time.Time{}, Say("nobody runs it")
	case c.never:
		o.At, o.Says = time.Time{}, Say("never")
	case c.blocked:
		o.At, o.Says = c.until, Say("waits for the end of a block")
	case c.shut():
		o.At, o.Says = c.until, Say("waits for units")
	case c.idle:
		o.Says = Say("yes, without a call")
	case !c.enough():
		o.Says = Say("yes, but not to its end")
	default:
		o.Says = Say("yes")
	}
	if !j.Missed.IsZero() && j.Last != nil {
		missed := j.Skips(latest(j.Last.StartedAt, j.Last.Scheduled), s.Now)
		o.Says = Say(o.Says, ". Missed: ", Count(int64(missed.Times), "run"), " since ", s.Clock(missed.First))
	}
	return o
}
