package verdict

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
)

// Beat is what a daemon notes of itself in a catalog that is a file. The daemons of a fleet have a table.
type Beat struct {
	Host string    `json:"host"`
	PID  int       `json:"pid"`
	At   time.Time `json:"at"`
	// Ended says that it ended by itself then.
	Ended bool `json:"ended,omitempty"`
	// Stuck says why it cannot write the ledger, or is empty.
	Stuck string `json:"stuck,omitempty"`
	// Shut says that nothing can be written beside the ledger.
	Shut bool `json:"shut,omitempty"`
}

const (
	beatsIn   = "daemons" // the slate
	beatEvery = 10 * time.Second
	silent    = 45 * time.Second // since the last beat: the daemon is gone, or frozen
)

// Slates is where processes share short texts: a catalog.
type Slates interface {
	Slate(ctx context.Context, name string) (text string, version int64, err error)
	SetSlate(ctx context.Context, name, text string, version int64) (written bool, err error)
}

// Change changes a text that processes share. Do is called again if another has written meanwhile; it reports
// whether there is anything to write.
func Change(ctx context.Context, c Slates, name string, do func(text string) (string, bool)) error {
	for range 20 {
		text, version, err := c.Slate(ctx, name)
		if err != nil {
			return err
		}
		text, changed := do(text)
		if !changed {
			return nil
		}
		written, err := c.SetSlate(ctx, name, text, version)
		if err != nil || written {
			return err
		}
	}
	return errors.New("other processes write all the time")
}

// Heart notes in a catalog that a daemon is alive, and whether it can write the ledger: those who only read
// cannot know.
type Heart struct {
	me    Beat
	in    Slates
	of    *quota.Ledger
	facts *Reader
}

// NewHeart returns the heart of this process.
func NewHeart(in Slates, of *quota.Ledger, o *Options) *Heart {
	h := &Heart{me: Beat{PID: os.Getpid()}, in: in, of: of, facts: NewReader(o)}
	h.facts.Writes = true
	h.me.Host, _ = os.Hostname() // without a name, the process says enough
	return h
}

// Beat notes that the daemon is alive.
func (h *Heart) Beat(ctx context.Context) error {
	h.me.Stuck, h.me.Shut = "", false
	if err := h.facts.charge(ctx, h.of); err != nil {
		h.me.Stuck, h.me.Shut = err.Error(), sqlitefile.Unwritable(err)
	}
	h.me.At = h.facts.Clock.Now()
	return h.me.note(ctx, h.in, true)
}

// Stop notes that the daemon has ended.
func (h *Heart) Stop(ctx context.Context) error {
	h.me.At = h.facts.Clock.Now()
	return h.me.note(ctx, h.in, false)
}

// Run notes that the daemon is alive until the context ends, and then that it has ended.
func (h *Heart) Run(ctx context.Context, log *slog.Logger) {
	failed := false
	for ctx.Err() == nil {
		err := h.Beat(ctx)
		if err != nil && !failed && ctx.Err() == nil {
			log.Error("the catalog cannot be written, so it is not known that this daemon runs", "error", err)
		}
		failed = err != nil
		_ = h.facts.Clock.Sleep(ctx, beatEvery) // it fails when the context ends
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), beatEvery)
	defer cancel()
	if err := h.Stop(last); err != nil {
		log.Error("the end of this daemon cannot be noted, so it counts as silent", "error", err)
	}
}

// note writes that the daemon is alive, or that it has ended. One that is alive does the work of those that
// are not.
func (b Beat) note(ctx context.Context, c Slates, alive bool) error {
	b.Ended = !alive
	return Change(ctx, c, beatsIn, func(text string) (string, bool) {
		others := slices.DeleteFunc(readBeats(text), func(o Beat) bool {
			return o.Ended || o.Host == b.Host && o.PID == b.PID || alive && b.At.Sub(o.At).Abs() > silent
		})
		written, _ := json.Marshal(append(others, b)) // it cannot fail
		return string(written), true
	})
}

// readBeats reads what [Beat.note] wrote. What a later version may have written in another form says nothing.
func readBeats(text string) (all []Beat) {
	if json.Unmarshal([]byte(text), &all) != nil {
		return nil
	}
	return all
}

const remedyDaemon = "To start one: ingestor run"

// unstarted reports whether nobody has ever been there who makes the runs.
func (s *State) unstarted() bool {
	return len(s.Daemons) == 0 && s.Unseen == nil && (s.Fleet == nil || len(s.Fleet.Daemons) == 0) && !s.ranSince(time.Time{})
}

// alive reports whether a daemon was, a moment ago.
func (s *State) alive(b Beat) bool { return !b.Ended && s.Now.Sub(b.At).Abs() <= silent }

// anyAlive reports whether a daemon of the catalog or of the fleet is alive.
func (s *State) anyAlive() bool {
	if s.Fleet != nil {
		n, _, _ := s.Fleet.Alive()
		return n > 0
	}
	return slices.ContainsFunc(s.Daemons, s.alive)
}

// stuck returns what a daemon that is alive noted of the ledger: that it cannot be written.
func (s *State) stuck() error {
	for _, b := range s.Daemons {
		if b.Stuck != "" && s.alive(b) {
			return &stuckError{b.Stuck, b.Shut}
		}
	}
	return nil
}

// stuckError is what a daemon noted.
type stuckError struct {
	text string
	shut bool // nothing can be written beside the ledger
}

func (e *stuckError) Error() string { return e.text }

// unadmitted reports whether no call can be admitted: the journal is beside the ledger.
func (s *State) unadmitted() bool {
	noted, is := errors.AsType[*stuckError](s.Stuck)
	return sqlitefile.Unwritable(s.Stuck) || is && noted.shut
}

// silence says which daemon is gone whose work nobody does, and what to do; nil if none is.
func (s *State) silence() []Sentence {
	if s.Fleet != nil {
		if why := s.Fleet.Idle(); why != "" {
			return []Sentence{Say("No daemon of the fleet works: ", why)}
		}
		if alive, _, _ := s.Fleet.Alive(); alive > 0 || len(s.Fleet.Daemons) == 0 {
			return nil
		}
		var last time.Time
		for i := range s.Fleet.Daemons {
			last = Later(last, s.Fleet.Daemons[i].SeenAt)
		}
		if s.ranSince(last) {
			return nil
		}
		return []Sentence{Say("No daemon of the fleet is alive"), Say(remedyDaemon)}
	}
	gone := s.Gone()
	if gone == nil {
		return nil
	}
	if gone.Ended {
		return []Sentence{Say("The daemon on ", gone.Host, " (process ", gone.PID, ") ended at ", s.Moment(gone.At), ", and no timer has run a job since"), Say(remedyDaemon)}
	}
	since := ""
	if gone.At.After(s.Now) {
		since = "the clock was set back from "
	}
	return []Sentence{Say("The daemon on ", gone.Host, " (process ", gone.PID, ") has been silent since ", since, s.Moment(gone.At), ". Look whether it is up", s.whyNot()), Say(remedyDaemon)}
}

// locked names the locks on whole tables, which keep each daemon of a fleet from working.
func (s *State) locked() (all []Sentence) {
	var locks []fleet.Lock
	if is, some := errors.AsType[*fleet.LockedError](s.Unseen); some {
		locks = is.Locks
	} else if s.Fleet != nil {
		locks = s.Fleet.Locks
	}
	for _, l := range locks {
		if l.Table != "" {
			all = append(all, Say(l.String()))
		}
	}
	return all
}

// Gone returns the daemon of a catalog in a file that has ended or is silent, and whose work nobody does: no
// other daemon, and no timer. Otherwise it returns nil.
func (s *State) Gone() *Beat {
	if len(s.Daemons) == 0 {
		return nil // timers may start the runs
	}
	last := slices.MaxFunc(s.Daemons, func(a, b Beat) int { return a.At.Compare(b.At) })
	if s.Now.Sub(last.At).Abs() <= silent || s.ranSince(last.At) {
		return nil
	}
	return &last
}

// ranSince reports whether a timer has made a run since a daemon became silent. What a person runs by hand
// is no sign of one, and neither is a run of a time to come, from before the clock was set back.
func (s *State) ranSince(t time.Time) bool {
	return slices.ContainsFunc(s.Jobs, func(j *Job) bool {
		return j.Timed.After(t.Add(silent)) && !j.Timed.After(s.Now)
	})
}

// Later returns the later one of two times.
func Later(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }
