package ledger

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/internal/boundary"
)

// JudgeView is the result of ingestor judge, in JSON.
type JudgeView struct {
	URL     string          `json:"url"`
	Limit   int             `json:"limit"`
	Per     float64         `json:"per_seconds"`
	From    string          `json:"limit_from"` // a header, or --limit
	Calls   int             `json:"calls"`
	Refused int             `json:"refused"`
	Seconds float64         `json:"seconds"`
	Rounds  []provedLimiter `json:"rounds"`
	Claims  []claimView     `json:"claims"`

	rate   boundary.Rate
	panels [2]panel
}

// claimView is what headers said, beside what happened.
type claimView struct {
	Header string `json:"header"`
	Says   string `json:"says"`
	Holds  string `json:"holds"` // yes, no or unknown
	About  string `json:"about"`

	limit bool // says a limit with its window
}

func holds(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func (j *judging) view(now time.Time) *JudgeView {
	v := &JudgeView{URL: j.url, Limit: j.rate.Limit, Per: j.rate.Per.Seconds(), From: j.rate.header, Calls: len(j.answers), rate: j.rate.Rate}
	v.Seconds = now.Sub(j.answers[0].sent).Round(time.Millisecond).Seconds()
	v.panels[0] = panel{column: "boundary of the clock", title: "Around a boundary of the clock"}
	v.panels[1] = panel{column: "first call's window", title: "Around the end of a first call's window"}
	for _, r := range j.rounds {
		sent, done := span(j.answers[r.from:r.to])
		row := fullest(r.id, r.name, v.rate, boundary.Fullest(sent, done, v.rate.Per), r.trial.Timeline)
		switch last := len(v.Rounds) - 1; {
		case last < 0 || v.Rounds[last].ID != r.id:
			v.Rounds = append(v.Rounds, row)
		case row.Accepted > v.Rounds[last].Accepted: // the same again
			v.Rounds[last] = row
		}
		var bursts []drawn
		for i, step := range r.trial.Timeline.Steps {
			if step.After > -v.rate.Per {
				bursts = append(bursts, drawn{step.After.Seconds() / v.Per, step.Ask, r.trial.Given[i]})
			}
		}
		switch r.id {
		case "clock":
			v.panels[0].bursts = bursts
		case "first":
			v.panels[1].bursts = bursts
		}
	}
	for i := range j.answers {
		if !j.answers[i].passed {
			v.Refused++
		}
	}
	sent, done := span(j.answers)
	for _, c := range distinct(j.answers) {
		v.Claims = append(v.Claims, v.limitClaim(c, sent, done))
	}
	if j.answers[0].remainingBy != "" {
		v.Claims = append(v.Claims, j.remainingClaim())
	}
	v.Claims = append(v.Claims, j.retryClaim())
	return v
}

// limitClaim compares a limit with the fullest window. A limit without a window is only
// compared if it is the one that is judged.
func (v *JudgeView) limitClaim(c claimedRate, sent, done []time.Time) claimView {
	claim := claimView{Header: c.header, Says: inAny(c.Rate), limit: c.Per > 0}
	if !claim.limit {
		claim.Says, c.Per = figure(c.Limit)+", without a window", v.rate.Per
	}
	worst := boundary.Fullest(sent, done, c.Per).Accepted
	claim.Holds, claim.About = holds(worst <= c.Limit), fmt.Sprintf("at most %s passed in %s", figure(worst), console.Length(c.Per))
	if !claim.limit && c.Limit != v.rate.Limit {
		claim.Holds = "unknown"
	}
	return claim
}

func (j *judging) remainingClaim() claimView {
	left, by := j.misled()
	if left > 0 {
		return claimView{Header: by, Says: "how much is left", Holds: "no", About: "with " + figure(left) + " left, the next call was refused"}
	}
	return claimView{Header: j.answers[0].remainingBy, Says: "how much is left", Holds: "yes", About: "no call was refused while some was left"}
}

func (j *judging) retryClaim() claimView {
	o := &j.obeyed
	c := claimView{Header: o.by, Says: "when to call again", Holds: "no"}
	sooner := j.sooner()
	switch {
	case o.neverRefused:
		return claimView{Header: "Retry-After", Holds: "unknown", About: "no call was refused"}
	case o.by == "":
		return claimView{Header: "Retry-After", Says: "nothing", Holds: "no", About: "refusals name no time"}
	case o.tooFar > 0:
		c.About = "it names a time in " + console.Length(o.tooFar.Round(time.Second)) + ", though the window is shorter"
	case o.refused > 0:
		c.About = "a call at that time was refused, for " + console.Length(o.refusedFor.Round(time.Millisecond)) + " more"
	case sooner > time.Second: // the header has whole seconds
		c.About = "a call passed " + console.Length(sooner.Round(time.Millisecond)) + " before that time"
	default:
		c.Holds, c.About = "yes", fmt.Sprintf("a call at that time passed, %d of %[1]d times", o.passed)
	}
	return c
}

func (v *JudgeView) compared() *compared {
	c := &compared{rate: v.rate, each: "it", tried: "tried", rows: v.Rounds, panels: v.panels}
	c.title = "How much a rate limiter lets through in the worst case"
	c.about = fmt.Sprintf("It is set to %s, and let %s through at worst.", inAny(v.rate), figure(v.worst().Accepted))
	c.head = "It is set to " + inAny(v.rate) + ", and gets two full bursts"
	return c
}

func (v *JudgeView) worst() provedLimiter {
	var worst provedLimiter
	for _, r := range v.Rounds {
		if r.Accepted > worst.Accepted {
			worst = r
		}
	}
	return worst
}

func (v *JudgeView) show(s *console.Sheet) {
	s.Line("%s, by %s, at %s.", inAny(v.rate), v.From, console.Plain(v.URL))
	s.Line("%s requests were sent in %s, and %s of them refused.", figure(v.Calls), console.Length(time.Duration(v.Seconds*float64(time.Second)).Round(100*time.Millisecond)), figure(v.Refused))
	v.compared().show(s)
	s.Line("")
	s.Line("%s", s.In(console.Bold, "What the headers say, and what happened"))
	var rows [][]string
	for _, c := range v.Claims {
		ink := map[string]lipgloss.Style{"yes": console.Good, "no": console.Bad}[c.Holds]
		rows = append(rows, []string{c.Header, c.Says, s.In(ink, c.Holds), c.About})
	}
	s.Table(console.Columns("header", "says", "holds", "~what happened"), rows)
}

// broken returns the error for a limiter that let too much through, or of which nothing is
// proved.
func (v *JudgeView) broken(spent *spentError) error {
	over := slices.ContainsFunc(v.Claims, func(c claimView) bool { return c.limit && c.Holds == "no" })
	switch worst := v.worst(); {
	case worst.OverBy > 0:
		return fmt.Errorf("the limiter let %s through in %s, %s more than %s", figure(worst.Accepted), console.Length(v.rate.Per), figure(worst.OverBy), v.From)
	case over:
		return errors.New("the limiter let more through than a header says")
	case spent != nil:
		return &console.Exit{Code: console.ExitDeferred, Err: fmt.Errorf("%w; nothing is proved\nTo allow more, set %s", spent, spent.flag)}
	case v.Refused == 0:
		return &console.Exit{Code: console.ExitDeferred, Err: fmt.Errorf("no call was refused: the calls were too slow to fill %s; nothing is proved\nTo send more at a time: ingestor judge URL --yes --parallel 64\nOr set the limiter to a lower limit and a longer window for the test", inAny(v.rate))}
	}
	return nil
}
