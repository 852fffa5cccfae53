package jobs

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// The rules for progress:
//
//   - Progress goes to standard error. Results go to standard output.
//   - A terminal shows bars, and the log above them. Bars need a terminal that can move its
//     cursor, so TERM=dumb gets lines.
//   - Elsewhere the log gets a line every few seconds, if anything has changed.
//   - With --quiet there is no progress.

// lineEvery is the interval between log lines where there are no bars.
const lineEvery = 5 * time.Second

// watching calls f, and shows the progress that it tells.
func watching(a *session.Session, f func(tell func(ingest.Progress)) error) error {
	switch {
	case a.Quiet:
		return f(func(ingest.Progress) {})
	case console.IsTerminal(a.Stderr) && os.Getenv("TERM") != "dumb":
		b := newBars(a.Stderr, &a.Lines)
		defer b.close()
		return f(b.tell)
	}
	tick := time.NewTicker(lineEvery)
	l := newLog(a.Log, tick.C, tick.Stop)
	defer l.close()
	return f(l.tell)
}

// logged is progress as lines of the log.
type logged struct {
	log  *slog.Logger
	stop func()
	end  chan struct{}
	over sync.WaitGroup

	mu      sync.Mutex
	jobs    []string          // in the order of their first progress
	tallies map[string]*tally // by job
	dirty   bool
}

// tally is how far a job has got.
type tally struct {
	done, works, pages int
	units              map[string]int64 // by unit of work
}

// newLog logs a line at each tick.
func newLog(log *slog.Logger, tick <-chan time.Time, stop func()) *logged {
	l := &logged{log: log, stop: stop, end: make(chan struct{}), tallies: map[string]*tally{}}
	l.over.Go(func() {
		for {
			select {
			case <-tick:
				l.line()
			case <-l.end:
				return
			}
		}
	})
	return l
}

func (l *logged) tell(p ingest.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tallies[p.Job]
	if t == nil {
		t = &tally{units: map[string]int64{}}
		l.tallies[p.Job] = t
		l.jobs = append(l.jobs, p.Job)
	}
	t.works, t.units[p.Work], l.dirty = p.Works, p.Units, true
	if p.Ended != nil {
		t.done++
	} else {
		t.pages++
	}
}

// line logs how far the latest job has got.
func (l *logged) line() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.dirty {
		return
	}
	l.dirty = false
	job := l.jobs[len(l.jobs)-1]
	t := l.tallies[job]
	var units int64
	for _, u := range t.units {
		units += u
	}
	l.log.Info("running", "job", job, "done", t.done, "of", t.works, "pages", t.pages, "units", units)
}

func (l *logged) close() {
	l.stop()
	close(l.end)
	l.over.Wait()
}

// longestName is the longest name that leaves room for a bar on 80 columns.
const longestName = 30

// fewWorks is the number of units of work up to which each has a bar. More share one.
const fewWorks = 12

// bars are progress on a terminal.
type bars struct {
	display *mpb.Progress
	lines   *console.Lines
	below   io.Writer
	ascii   bool

	mu    sync.Mutex
	all   map[string]*bar
	units map[string]int64 // of jobs whose work shares a bar
}

// bar is the bar of a unit of work, or of a job with many.
type bar struct {
	*mpb.Bar
	mu    sync.Mutex
	units int64
	state string
}

func newBars(w io.Writer, l *console.Lines) *bars {
	b := &bars{display: mpb.New(mpb.WithOutput(w), mpb.WithWidth(64), mpb.WithRefreshRate(100*time.Millisecond)), lines: l, below: w, ascii: console.ASCIIOnly(), all: map[string]*bar{}, units: map[string]int64{}}
	l.Redirect(b.display)
	return b
}

func (b *bars) tell(p ingest.Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.Works > fewWorks {
		if p.Ended != nil {
			b.units[p.Job] += p.Units
			b.find(p.Job, p.Works, "").step(b.units[p.Job])
		}
		return
	}
	if p.Ended != nil && b.all[p.Job+" "+p.Work] == nil {
		return // it never began; the table at the end says why
	}
	shown := b.find(p.Job+" "+p.Work, p.Pages, " pages")
	switch {
	case p.Ended == nil:
		shown.step(p.Units)
	case p.Ended.State == catalog.Done:
		shown.say(p.Units, "done")
		shown.SetTotal(-1, true) // it may have had fewer pages
	default:
		shown.say(p.Units, string(p.Ended.State))
		shown.Abort(false)
	}
}

// find returns the bar of a name. It creates the bar if it does not exist.
func (b *bars) find(name string, total int, of string) *bar {
	if known := b.all[name]; known != nil && known.IsRunning() {
		return known
	}
	made := &bar{}
	on, off := "━", "┄"
	if b.ascii {
		on, off = "=", "-"
	}
	style := mpb.BarStyle().Lbound(" ").Rbound(" ").Filler(on).Tip(on).Padding(off)
	made.Bar = b.display.New(0, style, // a bar with a total from the start would end before its state is known
		mpb.PrependDecorators(decor.Name((&console.Sheet{ASCII: b.ascii}).Cut(name, longestName), decor.WCSyncSpaceR)),
		mpb.AppendDecorators(
			decor.CountersNoUnit("%d/%d"+of, decor.WCSyncSpace),
			decor.Any(func(decor.Statistics) string { return made.tail() }, decor.WCSyncSpaceR),
		),
	)
	made.SetTotal(int64(total), false)
	b.all[name] = made
	return made
}

func (b *bar) step(units int64) {
	b.say(units, "")
	b.Increment()
}

func (b *bar) say(units int64, state string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.units, b.state = units, state
}

func (b *bar) tail() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Sprintf(" %s %s", view.Units("", b.units), b.state)
}

// close stops the bars and returns the log to the terminal.
func (b *bars) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.all {
		one.Abort(false)
	}
	b.display.Wait()
	b.lines.Redirect(b.below)
}
