package verdict

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
)

const (
	good = view.Good
	warn = view.Warn
	bad  = view.Bad
)

// Verdict says whether the next run can start, and what else a person should know.
type Verdict struct {
	Level view.Level
	Word  string
	Says  Sentence
	More  []Sentence
	Tab   Sentence // for the title of a page
	Notes []Note   // what Says and More do not say

	Pool    *quota.Usage       // of which it speaks, or nil
	Window  *quota.WindowUsage // of that, or nil
	Decides *quota.WindowUsage // the same, if it decides
	When    []Sentence         // when units of it come back

	about *chance  // of which it speaks, or nil
	names []string // of jobs of which it says when they start
}

// Note is something that a person should know.
type Note struct {
	Level view.Level
	Says  Sentence
	Link  string // address of more, or empty
}

// tells reports whether the verdict says a fact already.
func (v *Verdict) tells(fact string) bool {
	return slices.ContainsFunc(v.More, func(m Sentence) bool { return strings.Contains(m.String(), fact) })
}

// Verdict judges the facts.
func (s *State) Verdict() *Verdict {
	v := s.judge(s.chances())
	if v.Tab == nil {
		v.Tab = Say(v.Word)
	}
	v.Pool = s.Worst()
	v.Decides = v.Window
	if c := v.about; c != nil && c.pool != nil {
		v.Pool, v.Decides = c.pool, c.window
	}
	if v.Pool != nil {
		v.Window = cmp.Or(v.Decides, Tightest(v.Pool))
		v.When = s.When(v.Pool, v.Decides)
	}
	if s.Outage != nil && (v.Pool == nil || !Known(v.Pool)) {
		v.When = []Sentence{Say("Known again when the ledger answers")}
		if errors.As(s.Outage, new(*quota.ForgottenError)) {
			v.When = []Sentence{Say("Known again when the usage is put back")}
		}
	}
	v.Notes = s.notes(&v)
	if v.Level == good && slices.ContainsFunc(v.Notes, func(n Note) bool { return n.Level == bad }) {
		v.Level = warn
	}
	v.Says = v.Says.Typed(s.Typed)
	for i := range v.More {
		v.More[i] = v.More[i].Typed(s.Typed)
	}
	for i := range v.Notes {
		v.Notes[i].Says = v.Notes[i].Says.Typed(s.Typed)
	}
	return &v
}

// judge judges the runs to come, and the pools of callers.
func (s *State) judge(all []chance) Verdict {
	if len(all) == 0 {
		v := s.judgePools()
		if slices.ContainsFunc(s.Jobs, func(j *Job) bool { return j.Paused }) && v.Level != bad {
			v = Verdict{Level: warn, Word: "Paused", Says: Say("No run starts: each job is paused, on all machines")} // a note says how to resume it
		}
		if v.Level == good && (len(s.Disks) > 0 || s.Outage != nil) {
			v.Level = warn // a note says why
			if s.Outage != nil {
				v.Word = "Available in part"
			}
		}
		return v
	}
	v := s.judgeRuns(all)
	if v.Level == good && (len(s.Disks) > 0 || slices.ContainsFunc(s.Jobs, s.failing)) {
		if v.Level = warn; v.about != nil && s.failing(v.about.job) { // a note says why
			v.Word = "Available, but failing"
		}
	}
	if v.Level == good && (s.Outage != nil || slices.ContainsFunc(s.Pools, func(u quota.Usage) bool { return s.lacking(&u) })) {
		v.Level, v.Word = warn, "Available in part" // a note says which
	}
	if v.Level == good && s.unstarted() {
		v.Level, v.Word = warn, "Not started"
		v.More = append(v.More, Say("No daemon was ever seen here, and no timer has made a run"), Say(remedyDaemon))
	}
	return v
}

func (s *State) judgeRuns(all []chance) Verdict {
	first := all[0]
	next := &first // all is changed below
	says, remedy, _ := s.fault(nil)
	open := slices.IndexFunc(all, func(c chance) bool { return !c.shut() && !c.idle })
	switch {
	case s.Unread != nil || s.Unkept != nil:
		v := Verdict{Level: bad, Word: "Stopped", Says: Say("No run can do its work"), More: s.noCatalog(), about: next}
		if s.Outage != nil || s.Stuck != nil {
			v.More = append(v.More, says, remedy)
		}
		return v
	case s.locked() != nil:
		return Verdict{Level: bad, Word: "Stopped", Says: Say("No run can do its work"), More: s.locked(), about: next}
	case next.lost || s.Stuck != nil:
		v := s.unknown(next)
		gone := s.silence()
		if gone != nil && v.Word == "Stopped" { // of a file or a disk that a new daemon may find otherwise
			return s.notRunning(next, says, remedy)
		}
		if gone != nil {
			v.Level, v.More = bad, append(v.More, gone...)
		}
		return v
	case s.silence() != nil:
		return s.notRunning(next)
	case next.never:
		return Verdict{Level: bad, Word: "Impossible", Says: Say("The next run, ", next.job.Name, ", can never start"), More: []Sentence{next.tooExpensive()}, about: next}
	case next.idle:
		return Verdict{Level: warn, Word: "Available in part", Says: s.sayOf(next, "can start, and do what needs no call"), about: next, More: []Sentence{Say(next.why())}}
	case open < 0:
		which := "No run can"
		if slices.ContainsFunc(all, func(c chance) bool { return c.idle }) {
			which = "No run that needs units can"
		}
		all = slices.DeleteFunc(all, func(c chance) bool { return c.never || c.idle || c.lost })
		soonest := slices.MinFunc(all, func(a, b chance) int { return a.until.Compare(b.until) })
		v := s.shut(&soonest)
		v.Says = Say(which, " start before ", s.Moment(soonest.until))
		for i := range all {
			v.names = append(v.names, all[i].job.Name)
		}
		return v
	case next.shut():
		other := all[open]
		v := s.shut(next)
		v.Says = Say("The next run, ", next.job.Name, ", cannot start before ", s.Moment(next.until))
		v.More = append(v.More, Say(other.job.Name, " can start at ", s.Moment(other.at)))
		v.names = []string{next.job.Name}
		return v
	case !next.enough():
		return Verdict{Level: warn, Word: "Available in part", Says: s.sayOf(next, "can start but not finish"), about: next, More: []Sentence{
			Say(next.needs(), ". ", next.left()), Say("The rest resumes by itself"),
		}}
	}
	if names := s.before(next); len(names) > 0 {
		return Verdict{Level: warn, Word: "Available in part", Says: s.sayOf(next, "may find no units"), about: next, More: []Sentence{
			Say(next.needs(), ". ", next.left()), Say("Runs that are due come first: ", List(names)),
		}}
	}
	return s.canStart(next, all)
}

// notRunning returns the verdict while no daemon would start the next run.
func (s *State) notRunning(next *chance, more ...Sentence) Verdict {
	return Verdict{
		Level: bad, Word: "Not running", Says: Say("The next run, ", next.job.Name, " at ", s.Moment(next.at), ", will not start"),
		More: append(s.silence(), more...), about: next,
	}
}

// shut returns the verdict of a run that cannot start, without the run.
func (s *State) shut(c *chance) Verdict {
	word := "Used up"
	if c.blocked {
		word = "Blocked"
	}
	return Verdict{Level: bad, Word: word, Tab: Say(word, " until ", s.Clock(c.until)), More: []Sentence{Say(c.why())}, about: c}
}

func (s *State) canStart(next *chance, all []chance) Verdict {
	v := Verdict{Level: good, Word: "Available", Says: s.sayOf(next, "can start"), about: next}
	needs := next.needs()
	if next.window != nil {
		needs = Say(needs, ". ", next.left())
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
		v.More = append(v.More, Say(List(v.names), " cannot start before ", s.Moment(first.until), ": ", first.why()))
	}
	if j := next.job; !j.Missed.IsZero() && j.Last != nil { // a note names those that never ran
		v.Level, v.Word = warn, "Available, not running"
		v.More = append(v.More, Say(j.Name, s.due(j), " and has not run. Check that ingestor run, or its timer, is up"))
	}
	return v
}

// sayOf says when a future run starts, and what of it.
func (s *State) sayOf(c *chance, can string) Sentence {
	name := "The next run, " + c.job.Name
	if c.resumes {
		name = "Deferred work of " + c.job.Name
	}
	return Say(name, " at ", s.Moment(c.at), ", ", can)
}

// Standing is what is left of the pools, with the verdict, in JSON.
type Standing struct {
	Pools   []view.Pool `json:"pools"`
	Lost    []LostPool  `json:"lost,omitempty"`
	Verdict *Said       `json:"verdict"` // nil without jobs, or without a catalog
}

// LostPool is a pool whose spend the ledger has forgotten.
type LostPool struct {
	Pool  string    `json:"pool"`
	Since time.Time `json:"since"`
	Says  string    `json:"says"` // with what to type
}

// Stand returns the pools that a ledger has read, and those that it has forgotten.
func Stand(ctx context.Context, l *quota.Ledger, all []quota.Usage, err error) (*Standing, error) {
	is := &Standing{Pools: view.Pools(all)}
	if !errors.As(err, new(*quota.ForgottenError)) {
		return is, err
	}
	lost, failed := l.View().Forgotten(ctx)
	if len(lost) == 0 {
		return is, cmp.Or(failed, err)
	}
	for _, f := range lost {
		is.Lost = append(is.Lost, LostPool{f.Pool.String(), f.Born.UTC(), f.Error()})
	}
	return is, failed
}

// Said is a verdict for programs and terminals.
type Said struct {
	Level view.Level `json:"level"` // good, warn or bad
	Word  string     `json:"word"`
	Says  string     `json:"says"`
	More  []string   `json:"more"`
	Notes []SaidNote `json:"notes"`
}

// SaidNote is a note for programs and terminals.
type SaidNote struct {
	Level view.Level `json:"level"`
	Says  string     `json:"says"`
}

// String returns the verdict in one line, without its notes.
func (s *Said) String() string {
	return s.Word + ": " + strings.Join(append([]string{s.Says}, s.More...), ". ")
}

// Said returns the verdict for programs and terminals. Its lists are never null.
func (v *Verdict) Said() *Said {
	s := &Said{Level: v.Level, Word: v.Word, Says: v.Says.Still(), More: []string{}, Notes: []SaidNote{}}
	for _, m := range v.More {
		s.More = append(s.More, m.Still())
	}
	for _, n := range v.Notes {
		s.Notes = append(s.Notes, SaidNote{n.Level, n.Says.Still()})
	}
	return s
}

// fault says why the pools are not known, or why they cannot be charged, what to do, and when calls are
// decided again. Of several pools, it names those that the job charges; nil: those that any job charges.
func (s *State) fault(j *Job) (says, remedy Sentence, until string) {
	look := Say("To see what is wrong: ingestor check")
	var forgotten *quota.ForgottenError
	switch {
	case errors.As(s.Outage, &forgotten):
		says, remedy = s.lost(forgotten, j)
		return says, remedy, "Until the usage is put back"
	case errors.Is(s.Outage, quota.ErrStaleBook):
		return Say("Another process uses a newer price book than this server"), Say("Restart the server with that price book"), "Until the server is restarted"
	case moved(s.Outage) != "":
		return Say("The ledger's file ", moved(s.Outage)), startAgain, "Until the server is restarted"
	case s.Outage == nil:
		return Say("The ledger can be read, but not written", s.whyNot()), look, "Until it can"
	}
	return Say("The ledger cannot be reached"), look, "Until the ledger answers"
}

// lost says which pools the ledger has forgotten, and what to do.
func (s *State) lost(first *quota.ForgottenError, j *Job) (says, remedy Sentence) {
	all := slices.DeleteFunc(slices.Clone(s.Lost), func(f *quota.ForgottenError) bool {
		if j != nil {
			return j.Share[f.Pool.String()] == 0
		}
		return s.JobsOf(f.Pool.String()) == 0
	})
	if len(all) == 0 {
		all = append(all, first)
	}
	says, remedy = Say("The ledger has forgotten what was spent"), Say("Look up today's usage in the upstream's console, then run")
	for i, f := range all {
		of, run, flags := " of ", ": ", f.Flag
		if i > 0 {
			of, run = " and of ", "; and: "
		}
		if len(all) > 1 { // Typed adds them to one command only
			flags = cmp.Or(flags, s.Typed)
		}
		says = Say(says, of, f.Pool, " since ", s.Moment(f.Born))
		remedy = Say(remedy, run, "ingestor quota adjust ", f.Pool, " UNITS --reason TEXT", flags)
	}
	return says, remedy
}

// moved says what became of a file that was in use, or returns "".
func moved(err error) string {
	if m, is := errors.AsType[*sqlitefile.MovedError](err); is {
		return m.How + " while it was in use"
	}
	return ""
}

var startAgain = Say("Stop all processes that use it, and start them again: they say what is lost")

// whyNot says what may keep files from being written, if that is known.
func (s *State) whyNot() string {
	if sqlitefile.ReadOnly(s.Stuck) || sqlitefile.ReadOnly(s.Unkept) {
		return ". Its disk is mounted for reading only"
	}
	if len(s.Disks) > 0 {
		return ". " + s.Disks[0].String()
	}
	return ""
}

// String says how full the disk is.
func (d Disk) String() string {
	return "The disk of " + d.Folder + " has only " + view.Number(d.Left>>20) + " MiB left"
}

func (s *State) noCatalog() []Sentence {
	if how := moved(cmp.Or(s.Unread, s.Unkept)); how != "" {
		return []Sentence{Say("The catalog's file ", how), startAgain}
	}
	switch {
	case s.Unread == nil:
		return []Sentence{Say("The catalog can be read, but not written", s.whyNot()), Say("To see what is wrong: ingestor check")}
	case s.Unseen != nil: // it is in a database
		return []Sentence{Say("The catalog cannot be read, so runs and regions are missing"), Say("To see what is wrong: ingestor check")}
	}
	return []Sentence{Say("The catalog cannot be read, so runs and regions are missing"), Say("To look for damage: ingestor doctor")}
}

// unknown returns the verdict while the pools are not known, or cannot be charged.
func (s *State) unknown(next *chance) Verdict {
	says, remedy, until := s.fault(next.job)
	v := Verdict{Level: bad, Word: "Not known", Says: Say("It is not known whether the next run, ", next.job.Name, " at ", s.Moment(next.at), ", can start"), More: []Sentence{says}}
	afterwards := "charged afterwards"
	if moved(s.Outage) != "" { // the new file is another ledger
		afterwards = "ingestor check names their units afterwards"
	}
	if s.Outage == nil || moved(s.Outage) != "" {
		v.Word, v.about = "Stopped", next
		v.Says = Say("The next run, ", next.job.Name, " at ", s.Moment(next.at), ", cannot be charged")
	}
	calls := strings.Join(next.job.Methods, " and ")
	if next.job.outage == quota.Admit && !errors.Is(s.Outage, quota.ErrStaleBook) && !s.unadmitted() {
		v.Level = warn
		v.More = append(v.More, Say(until, ", the calls of ", next.job.Name, " (", calls, ") are admitted within a small allowance, and ", afterwards))
	} else {
		v.More = append(v.More, Say(until, ", the calls of ", next.job.Name, " (", calls, ") are refused. Fetched data stays"))
	}
	v.More = append(v.More, remedy)
	return v
}

// addPoolsOfJobs adds the pools that jobs charge, and of which nothing is known.
func (s *State) addPoolsOfJobs() {
	for _, j := range s.Jobs {
		for _, name := range j.Pools() {
			if pool, err := quota.ParsePool(name); err == nil && s.Pool(name) == nil {
				s.Pools = append(s.Pools, quota.Usage{PageState: quota.PageState{Pool: pool}})
			}
		}
	}
}
