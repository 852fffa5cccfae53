package view

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// Pool is the state of a pool.
type Pool struct {
	Pool    string     `json:"pool"`
	Known   bool       `json:"known"` // whether anything was spent of it that may still count
	Blocked *time.Time `json:"blocked_until"`
	// BlockedBy says who shut it: see [quota.Blocker].
	BlockedBy quota.Blocker `json:"blocked_by,omitempty"`
	Reason    string        `json:"reason,omitempty"`
	Windows   []Window      `json:"windows"`
	Keys      int           `json:"keys,omitempty"` // of a key of a pool: how many keys the pool has
	Learned   *Learned      `json:"learned,omitempty"`
	Spaced    *Spaced       `json:"spaced,omitempty"`
	Waiting   []Waiting     `json:"waiting,omitempty"`
	Step      string        `json:"step,omitempty"`      // of a budget: what its last step now does to calls
	SpillsTo  string        `json:"spills_to,omitempty"` // where calls go that lack its units
	LedgerAt  time.Time     `json:"ledger_time"`
}

// Waiting is who waits for units of a pool.
type Waiting struct {
	Flow  string    `json:"flow"` // a job, a token, or "process k3d9ab"
	Units int64     `json:"units"`
	Since time.Time `json:"since"`
}

// Waits says who waits, or returns "".
func (p *Pool) Waits() string {
	const most = 5
	var all []string
	for _, w := range p.Waiting[:min(most, len(p.Waiting))] {
		all = append(all, w.Flow+" ("+Amount(p.Pool, w.Units)+", for "+max(p.LedgerAt.Sub(w.Since), 0).Round(time.Second).String()+")")
	}
	if more := len(p.Waiting) - most; more > 0 {
		all = append(all, Number(int64(more))+" more")
	}
	return strings.Join(all, ", ")
}

// Learned is what was learned of the limit of a pool.
type Learned struct {
	Rate       float64    `json:"rate"`             // units a second that are sent now
	Measured   float64    `json:"measured"`         // units a second that passed; 0: no call was refused yet
	Places     int        `json:"places,omitempty"` // calls in flight that are let through, in place of a rate
	Refusals   int64      `json:"refusals"`
	Since      *time.Time `json:"since"`
	MeasuredAt *time.Time `json:"measured_at"`
	Refused    bool       `json:"refused,omitempty"` // a call was refused, and none has passed since
}

// Words says what was learned.
func (l *Learned) Words() string {
	switch {
	case l.Since == nil:
		return "nothing learned yet: it begins with " + Rate(l.Rate)
	case l.Refusals == 0:
		return "nothing learned yet: no call was refused; sending " + Rate(l.Rate)
	case l.Measured == 0 || l.MeasuredAt == nil:
		return "a call was refused, and none has passed since"
	}
	limit, sends := Rate(l.Measured), "; sending "+Rate(l.Rate)
	if l.Places > 0 {
		limit, sends = Number(int64(l.Places))+" calls in flight", ""
	}
	text := "learned: about " + limit + ", from " + Number(l.Refusals) + " refusals"
	if l.Refusals == 1 {
		text = strings.TrimSuffix(text, "s")
	}
	if l.Refused {
		return text + "; a call was refused, and one goes first"
	}
	return text + sends
}

// Spaced is how a process spaces the calls of a pool.
type Spaced struct {
	Rate  float64   `json:"rate"`  // units a second
	Since time.Time `json:"since"` // the end of a block for which no limit was the reason
}

// Words says so, and why.
func (s *Spaced) Words() string {
	return "calls are spaced since " + s.Since.Format(time.DateTime) + " UTC, sending " + Rate(s.Rate) + ": the upstream refused one though units were left"
}

// Rate is a rate for people: "9.8 a second", "0.5 a minute".
func Rate(perSecond float64) string {
	for _, unit := range []struct {
		name string
		rate float64
	}{{"second", perSecond}, {"minute", 60 * perSecond}, {"hour", 3600 * perSecond}} {
		if unit.rate >= 1 {
			return strconv.FormatFloat(unit.rate, 'f', max(0, 1-int(unit.rate)/100), 64) + " a " + unit.name
		}
	}
	return strconv.FormatFloat(86400*perSecond, 'f', 1, 64) + " a day"
}

// Window is the state of a window of a pool.
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
	// Reported is the limit that holds in place of Quota. The upstream reports it, or a person has set it.
	Reported         int64      `json:"reported_limit,omitempty"`
	ReportedHeadroom int64      `json:"reported_headroom,omitempty"` // of Reported
	ReportedUntil    *time.Time `json:"reported_until,omitempty"`
	ByHand           bool       `json:"set_by_hand,omitempty"`
}

// Pools returns the usage of pools for JSON.
func Pools(all []quota.Usage) []Pool {
	views := make([]Pool, 0, len(all))
	for _, u := range all {
		views = append(views, pool(u))
	}
	return views
}

func pool(u quota.Usage) Pool {
	p := Pool{Pool: u.Pool.String(), Known: u.Known, LedgerAt: u.Now.UTC(), Keys: u.Keys, Step: u.Step, SpillsTo: u.SpillsTo}
	if u.Blocked.After(u.Now) {
		p.Blocked, p.BlockedBy, p.Reason = Instant(u.Blocked), u.BlockedBy, u.Reason
	}
	clean(&p.Pool, &p.Reason, &p.Step, &p.SpillsTo)
	if k := u.Learned; k != nil {
		p.Learned = &Learned{Rate: k.Rate, Measured: k.Measured, Places: k.Places, Refusals: k.Refusals, Since: Instant(k.Since), MeasuredAt: Instant(k.At), Refused: k.Refused}
	}
	if s := u.Spaced; s != nil {
		p.Spaced = &Spaced{s.Rate, s.Since.UTC()}
	}
	for _, w := range u.Waiting {
		p.Waiting = append(p.Waiting, Waiting{Plain(w.Flow), w.Units, w.Since.UTC()})
	}
	for _, w := range u.Allowances {
		v := Window{
			Window: w.Window, Spec: w.Spec, Used: w.Used, Limit: w.Limit, Remaining: w.Remaining,
			Quota: w.Quota, Headroom: w.Headroom, NextUnits: w.NextUnits, Reported: w.Reported, ReportedHeadroom: w.ReportedHeadroom, ReportedUntil: Instant(w.ReportedUntil), ByHand: w.ByHand,
		}
		if w.NextUnits > 0 {
			v.NextAt = Instant(w.NextAt)
		}
		if w.Used > 0 || w.Spec.Calendar() { // a calendar window always has one
			v.ResetAt = Instant(w.ResetAt)
		}
		p.Windows = append(p.Windows, v)
	}
	return p
}

// OwnLimit says which limit of a pool holds in place of the quota, or returns "".
func (w *Window) OwnLimit(pool string) string {
	if w.Reported == 0 {
		return ""
	}
	says, ends := "the upstream reports a limit of ", " if it is not reported again"
	if w.ByHand {
		says, ends = "somebody has set a limit of ", ""
	}
	switch says += Amount(pool, w.Reported); {
	case w.ReportedHeadroom > 0:
		says += ", of which " + Amount(pool, w.ReportedHeadroom) + " stay free"
	case w.Headroom > 0:
		says += ", of which none stay free"
	}
	if w.ReportedUntil == nil {
		return says
	}
	return says + ", which holds until " + w.ReportedUntil.Format(time.DateTime) + " UTC" + ends
}

// Shut returns "is shut by hand", "is shut by the upstream", or "is shut".
func Shut(by quota.Blocker) string { return strings.TrimSpace("is shut " + by.Words()) }

// Name returns the name of window i for people. It leaves out the zone of a calendar
// window unless another window of the pool has the same period.
func (p *Pool) Name(i int) string {
	own := p.Windows[i]
	for j, w := range p.Windows {
		if !own.Spec.Calendar() || j != i && w.Spec.Period == own.Spec.Period {
			return own.Window
		}
	}
	return string(own.Spec.Period)
}

// Dimensions are the dimensions that spend can be summed by.
var Dimensions = []quota.Dimension{quota.ByMethod, quota.ByModel, quota.ByKey, quota.ByJob, quota.ByRegion, quota.ByClass, quota.ByAccount, quota.ByDay}

// Spent is the spend of one set of labels in a pool. Only the labels it was summed by are
// set.
type Spent struct {
	Pool    string `json:"pool"`
	Day     string `json:"day,omitempty"`
	Account string `json:"account,omitempty"`
	Method  string `json:"method,omitempty"`
	Model   string `json:"model,omitempty"`
	Key     string `json:"key,omitempty"`
	Job     string `json:"job,omitempty"`
	Region  string `json:"region,omitempty"`
	Class   string `json:"class,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Units   int64  `json:"units"`
	Calls   int64  `json:"calls"`
}

// Spend returns spend for JSON, as it was summed by these dimensions.
func Spend(all []quota.Spent, by []quota.Dimension) []Spent {
	views := make([]Spent, 0, len(all))
	for _, s := range all {
		v := Spent{
			Pool: s.Pool.Upstream + "/" + s.Pool.Name, Day: s.Day, Method: s.Labels.Method, Model: s.Model, Key: s.Key, Job: s.Labels.Job,
			Region: s.Labels.Region, Class: s.Labels.Class, Reason: s.Labels.Reason, Units: s.Units, Calls: s.Calls,
		}
		if slices.Contains(by, quota.ByAccount) {
			v.Account = s.Pool.Account
		}
		clean(&v.Pool, &v.Account, &v.Method, &v.Model, &v.Key, &v.Job, &v.Region, &v.Class, &v.Reason)
		views = append(views, v)
	}
	return views
}

// SpendTable returns a row for each set of labels, with a column for each dimension.
func SpendTable(all []Spent, by []quota.Dimension) Table {
	columns := []column[Spent]{{Column{Name: "pool", Long: true}, func(s *Spent) any { return s.Pool }}}
	for _, d := range by {
		columns = append(columns, column[Spent]{Column{Name: string(d), Long: d != quota.ByDay}, func(s *Spent) any {
			switch label := s.Label(d); {
			case label != "":
				return label
			case s.Reason != "":
				return "(correction)"
			}
			return "-"
		}})
	}
	return table(append(columns, []column[Spent]{
		{Column{Name: "units", Number: true}, func(s *Spent) any {
			if text := Amount(s.Pool, s.Units); text != Number(s.Units) {
				return text // money
			}
			return s.Units
		}},
		{Column{Name: "calls", Number: true}, func(s *Spent) any { return s.Calls }},
		{Column{Name: "reason", Long: true}, func(s *Spent) any { return text(s.Reason) }},
	}...), all)
}

// Label returns the label of a dimension.
func (s *Spent) Label(d quota.Dimension) string {
	return map[quota.Dimension]string{
		quota.ByMethod: s.Method, quota.ByModel: s.Model, quota.ByKey: s.Key, quota.ByJob: s.Job,
		quota.ByRegion: s.Region, quota.ByClass: s.Class, quota.ByAccount: s.Account, quota.ByDay: s.Day,
	}[d]
}
