package ledger

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/internal/boundary"
	"github.com/headroom-quota/headroom/internal/svg"
)

// compared is what prove and judge show, in tables and in a picture.
type compared struct {
	rate         boundary.Rate
	title, about string   // of the picture
	head         string   // above the panels
	panels       [2]panel // without bursts if there were none
	each         string   // what let the most through: each limiter, or it
	tried        string   // the first column of the rows
	rows         []provedLimiter
}

// panel shows two bursts around a boundary.
type panel struct {
	column, title string
	bursts        []drawn
}

// drawn is a burst in the picture.
type drawn struct {
	after           float64 // the boundary, in windows
	asked, accepted int
}

// total returns how many requests were asked and accepted around the boundary.
func (p *panel) total() (asked, accepted int) {
	for _, b := range p.bursts {
		asked, accepted = asked+b.asked, accepted+b.accepted
	}
	return asked, accepted
}

// apart returns how far apart the two bursts around a boundary are.
func apart(r boundary.Rate) time.Duration { return 2 * r.Per / 10 }

func (c *compared) show(s *console.Sheet) {
	if left, right := &c.panels[0], &c.panels[1]; len(left.bursts) == 2 && len(right.bursts) == 2 {
		s.Line("")
		s.Line("%s", s.In(console.Bold, "A full burst just before a boundary, and another just after it"))
		var rows [][]string
		for i, b := range left.bursts {
			when := console.Length(apart(c.rate)/2) + [...]string{" before", " after"}[i]
			rows = append(rows, []string{when, figure(b.asked), figure(b.accepted), figure(right.bursts[i].accepted)})
		}
		asked, one := left.total()
		_, other := right.total()
		rows = append(rows, []string{"within " + console.Length(apart(c.rate)), figure(asked), s.In(c.ink(one), figure(one)), s.In(c.ink(other), figure(other))})
		s.Table(console.Columns("accepted", ">of", ">"+left.column, ">"+right.column), rows)
	}
	s.Line("")
	s.Line("%s", s.In(console.Bold, c.most()+", on the timeline that was its worst"))
	console.List(s, console.Columns(c.tried, ">accepted", ">limit", "verdict", "~timeline"), c.rows, func(l *provedLimiter) []string {
		return []string{l.Name, figure(l.Accepted), fmt.Sprintf("%.2fx", l.Times), s.In(c.ink(l.Accepted), l.verdict()), l.About}
	})
}

// print prints a result, and draws the picture into a file, if it has a path.
func (c *compared) print(a *session.Session, path string, v any, show func(*console.Sheet)) error {
	if path == "" {
		return a.Print(v, show)
	}
	if err := os.WriteFile(path, c.svg(), 0o644); err != nil {
		return console.Config(err) // exit code 1 would mean that a limiter failed
	}
	return a.Print(v, func(s *console.Sheet) {
		show(s)
		s.Line("\nThe picture is in %s.", console.Plain(path))
	})
}

// most begins a sentence about the fullest windows.
func (c *compared) most() string {
	return "The most that " + c.each + " let through in " + console.Length(c.rate.Per)
}

func inAny(r boundary.Rate) string {
	if r.Limit == 1 {
		return "1 request in any " + console.Length(r.Per)
	}
	return figure(r.Limit) + " requests in any " + console.Length(r.Per)
}

// ink returns red above the limit, and green within it.
func (c *compared) ink(accepted int) lipgloss.Style {
	if accepted > c.rate.Limit {
		return console.Bad
	}
	return console.Good
}

func figure(n int) string { return view.Number(int64(n)) }

// The measures of the picture, in pixels.
const (
	proveWidth  = 760
	proveMargin = 24
	panelWidth  = 340 // around a boundary, two windows
	panelTop    = 84
	panelHeight = 96 // of a full burst
	barsTop     = 286
	barsLeft    = 170
	barsWidth   = 430 // twice the limit, or more
	barHeight   = 18
	barStep     = 30
)

// svg draws the picture. The upper part shows what happens at a boundary, the lower part
// the fullest windows.
func (c *compared) svg() []byte {
	bottom := barsTop + float64(len(c.rows))*barStep
	to := svg.New(proveWidth, bottom+28, c.title, c.about)
	to.Rect(0, 0, proveWidth, bottom+28, "page")
	to.Text(proveMargin, 30, "head", c.head)
	c.draw(to, proveMargin, &c.panels[0])
	c.draw(to, proveWidth-proveMargin-panelWidth, &c.panels[1])
	most := 2 * c.rate.Limit
	for _, l := range c.rows {
		most = max(most, l.Accepted)
	}
	perUnit := barsWidth / float64(most)
	limit := barsLeft + float64(c.rate.Limit)*perUnit
	to.Text(proveMargin, barsTop-26, "head", c.most()+", at its worst")
	for i, l := range c.rows {
		y := barsTop + float64(i)*barStep
		within := float64(min(l.Accepted, c.rate.Limit)) * perUnit
		hint := fmt.Sprintf("%s: %s accepted in %s, %s", l.Name, figure(l.Accepted), console.Length(c.rate.Per), l.verdict())
		to.Text(barsLeft-10, y+13, "end", l.Name)
		to.Bar(barsLeft, y, within, barHeight, "s2", hint)
		end := barsLeft + within
		if l.OverBy > 0 {
			over := float64(l.OverBy) * perUnit
			to.Bar(limit, y, over, barHeight, "bad", hint)
			end = limit + over
		}
		to.Text(end+8, y+13, "", figure(l.Accepted)+", "+l.verdict())
	}
	to.Line(limit, barsTop-8, limit, bottom, "limit")
	to.Text(limit, bottom+14, "middle faint", "the limit: "+figure(c.rate.Limit))
	return to.File()
}

// draw shows what was accepted around a boundary.
func (c *compared) draw(to *svg.Canvas, left float64, p *panel) {
	const wide = 22 // a burst
	middle, base := left+panelWidth/2, float64(panelTop+panelHeight)
	at := func(windows float64) float64 { return middle + windows*panelWidth/2 }
	tall := func(n int) float64 { return float64(n) / float64(c.rate.Limit) * panelHeight }
	to.Text(left, panelTop-26, "", p.title)
	to.Rect(at(-0.5), panelTop-14, panelWidth/2, panelHeight+14, "shade")
	to.Text(at(0.5)-6, panelTop-3, "end faint", "any "+console.Length(c.rate.Per))
	to.Line(middle, panelTop-14, middle, base+6, "axis")
	to.Line(left, base, left+panelWidth, base, "axis")
	total := 0
	for _, b := range p.bursts {
		class := "s2"
		if total += b.accepted; total > c.rate.Limit {
			class = "bad"
		}
		x := at(b.after) - wide/2
		side := "" // of the number: away from the boundary
		number := x + wide + 6
		if b.after < 0 {
			side, number = "end", x-6
		}
		if b.accepted > 0 {
			to.Bar(x, base-tall(b.accepted), wide, tall(b.accepted), class, fmt.Sprintf("%s of %s accepted", figure(b.accepted), figure(b.asked)))
			to.Text(number, base-tall(b.accepted)+12, side, figure(b.accepted)+" pass")
		}
		if refused := b.asked - b.accepted; refused > 0 {
			to.Bar(x, base-tall(b.asked), wide, tall(refused), "axis line", fmt.Sprintf("%s of %s refused", figure(refused), figure(b.asked)))
			to.Text(number, base-tall(b.asked)+12, side, figure(refused)+" refused")
		}
	}
	to.Text(middle, base+20, "middle faint", "boundary")
	to.Text(left, base+20, "faint", console.Length(c.rate.Per)+" before")
	to.Text(left+panelWidth, base+20, "end faint", console.Length(c.rate.Per)+" after")
	sum := fmt.Sprintf("%s pass within %s", figure(total), console.Length(apart(c.rate)))
	if total > c.rate.Limit {
		sum += fmt.Sprintf(": %.3g times the limit", float64(total)/float64(c.rate.Limit))
	}
	to.Text(middle, base+42, "middle head", sum)
}

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
	console.List(s, console.Columns("header", "says", "holds", "~what happened"), v.Claims, func(c *claimView) []string {
		ink := map[string]lipgloss.Style{"yes": console.Good, "no": console.Bad}[c.Holds]
		return []string{c.Header, c.Says, s.In(ink, c.Holds), c.About}
	})
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
