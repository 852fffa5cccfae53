package verdict

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// Beat is what a daemon notes of itself in a catalog that is a file. The daemons of a fleet have a table.
type Beat struct {
	Host string    `json:"host"`
	PID  int       `json:"pid"`
	At   time.Time `json:"at"`
	// Ended says that it ended by itself then.
	Ended bool `json:"ended,omitempty"`
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

// Beats notes that this daemon is alive until the context ends, and then that it has ended. A nil clock is the
// machine's.
func Beats(ctx context.Context, c Slates, clock quota.Clock, log *slog.Logger) {
	clock = cmp.Or[quota.Clock](clock, quota.SystemClock{})
	me := Beat{PID: os.Getpid()}
	me.Host, _ = os.Hostname() // without a name, the process says enough
	failed := false
	for ctx.Err() == nil {
		me.At = clock.Now()
		err := me.note(ctx, c, true)
		if err != nil && !failed && ctx.Err() == nil {
			log.Error("the catalog cannot be written, so it is not known that this daemon runs", "error", err)
		}
		failed = err != nil
		_ = clock.Sleep(ctx, beatEvery) // it fails when the context ends
	}
	me.At = clock.Now()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), beatEvery)
	defer cancel()
	if err := me.note(last, c, false); err != nil {
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

// beats reads the daemons of a catalog.
func beats(ctx context.Context, c Slates) ([]Beat, error) {
	text, _, err := c.Slate(ctx, beatsIn)
	return readBeats(text), err
}

// readBeats reads what [Beat.note] wrote. What a later version may have written in another form says nothing.
func readBeats(text string) (all []Beat) {
	if json.Unmarshal([]byte(text), &all) != nil {
		return nil
	}
	return all
}

// silence says which daemon is gone whose work nobody does, and what to do; nil if none is.
func (s *State) silence() []Sentence {
	const remedy = "To start one: ingestor run"
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
		return []Sentence{Say("No daemon of the fleet is alive"), Say(remedy)}
	}
	gone := s.Gone()
	if gone == nil {
		return nil
	}
	if gone.Ended {
		return []Sentence{Say("The daemon on ", gone.Host, " (process ", gone.PID, ") ended at ", s.Moment(gone.At), ", and no timer has run a job since"), Say(remedy)}
	}
	return []Sentence{Say("The daemon on ", gone.Host, " (process ", gone.PID, ") has been silent since ", s.Moment(gone.At), ". Look whether it is up", s.whyNot()), Say(remedy)}
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
// is no sign of one.
func (s *State) ranSince(t time.Time) bool {
	return slices.ContainsFunc(s.Jobs, func(j *Job) bool { return j.Last != nil && j.Last.Scheduled.After(t.Add(silent)) })
}

// Later returns the later one of two times.
func Later(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }
