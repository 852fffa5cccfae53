package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// Rules of what is shown while runs are under way:
//
//   - It is written to standard error; standard output is for what came of it.
//   - On a terminal there are bars, and the log is written above them. They need a
//     terminal that can move its cursor: TERM=dumb has lines.
//   - Elsewhere there is a line in the log every few seconds, if anything has
//     changed, whatever the number of pages.
//   - Quiet is quiet.

// progress shows how far runs have got.
type progress interface {
	tell(ingest.Progress)
	close()
}

// lineEvery is how often a line is logged where there are no bars.
const lineEvery = 5 * time.Second

// watch begins to show progress.
func (a *app) watch() progress {
	switch {
	case a.quiet:
		return nobody{}
	case isTerminal(a.stderr) && os.Getenv("TERM") != "dumb":
		return newBars(a.stderr, &a.lines)
	}
	tick := time.NewTicker(lineEvery)
	return newLog(a.log, tick.C, tick.Stop)
}

// nobody watches.
type nobody struct{}

func (nobody) tell(ingest.Progress) {}
func (nobody) close()               {}

// logged is progress in lines of the log.
type logged struct {
	log  *slog.Logger
	stop func()
	end  chan struct{}
	over sync.WaitGroup

	mu    sync.Mutex
	jobs  []string // in order
	of    map[string]*tally
	dirty bool
}

// tally is how far a job has got.
type tally struct {
	done, works, pages int
	units              map[string]int64 // by unit of work
}

// newLog logs a line at each tick.
func newLog(log *slog.Logger, tick <-chan time.Time, stop func()) *logged {
	l := &logged{log: log, stop: stop, end: make(chan struct{}), of: map[string]*tally{}}
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
	t := l.of[p.Job]
	if t == nil {
		t = &tally{units: map[string]int64{}}
		l.of[p.Job] = t
		l.jobs = append(l.jobs, p.Job)
	}
	t.works, t.units[p.Work], l.dirty = p.Works, p.Units, true
	if p.Ended != nil {
		t.done++
	} else {
		t.pages++
	}
}

// line logs how far the job that is under way has got: the last one.
func (l *logged) line() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.dirty {
		return
	}
	l.dirty = false
	job := l.jobs[len(l.jobs)-1]
	t := l.of[job]
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

// longestName leaves room for a bar on a terminal of 80 columns.
const longestName = 30

// fewWorks is up to how many units of work each have a bar; more share one.
const fewWorks = 12

// bars are progress on a terminal.
type bars struct {
	on    *mpb.Progress
	lines *lines
	below io.Writer
	ascii bool

	mu  sync.Mutex
	all map[string]*bar
	of  map[string]int64 // units of jobs whose work shares a bar
}

// bar is that of a unit of work, or of a job that has many.
type bar struct {
	*mpb.Bar
	mu    sync.Mutex
	units int64
	state string
}

func newBars(w io.Writer, l *lines) *bars {
	b := &bars{on: mpb.New(mpb.WithOutput(w), mpb.WithWidth(64), mpb.WithRefreshRate(100*time.Millisecond)), lines: l, below: w, ascii: asciiOnly(), all: map[string]*bar{}, of: map[string]int64{}}
	l.to(b.on)
	return b
}

func (b *bars) tell(p ingest.Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.Works > fewWorks {
		if p.Ended != nil {
			b.at(p.Job, p.Works, "").step(b.spent(&p))
		}
		return
	}
	if p.Ended != nil && b.all[p.Job+" "+p.Work] == nil {
		return // it never began: the table at the end says why
	}
	at := b.at(p.Job+" "+p.Work, p.Pages, " pages")
	switch {
	case p.Ended == nil:
		at.step(p.Units)
	case p.Ended.State == catalog.Done:
		at.say(p.Units, "done")
		at.SetTotal(-1, true) // what it had is all there is
	default:
		at.say(p.Units, string(p.Ended.State))
		at.Abort(false)
	}
}

// spent adds up what a job whose work shares a bar has cost.
func (b *bars) spent(p *ingest.Progress) int64 {
	b.of[p.Job] += p.Units
	return b.of[p.Job]
}

// at is the bar of a name, made if it is not there.
func (b *bars) at(name string, total int, of string) *bar {
	if known := b.all[name]; known != nil && known.IsRunning() {
		return known
	}
	made := &bar{}
	on, off := "━", "┄"
	if b.ascii {
		on, off = "=", "-"
	}
	style := mpb.BarStyle().Lbound(" ").Rbound(" ").Filler(on).Tip(on).Padding(off)
	made.Bar = b.on.New(0, style, // a bar that is given its total at once ends by itself, before its state is known
		mpb.PrependDecorators(decor.Name((&sheet{ascii: b.ascii}).cut(name, longestName), decor.WCSyncSpaceR)),
		mpb.AppendDecorators(
			decor.CountersNoUnit("%d/%d"+of, decor.WCSyncSpace),
			decor.Any(func(decor.Statistics) string { return made.tail() }, decor.WCSyncSpaceR),
		),
	)
	made.SetTotal(int64(total), false)
	b.all[name] = made
	return made
}

// step moves a bar by one.
func (b *bar) step(units int64) {
	b.say(units, "")
	b.Increment()
}

func (b *bar) say(units int64, state string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.units, b.state = units, state
}

// tail is what stands behind a bar.
func (b *bar) tail() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Sprintf(" %s %s", units(b.units), b.state)
}

// close leaves the bars as they are and gives the terminal back.
func (b *bars) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.all {
		one.Abort(false)
	}
	b.on.Wait()
	b.lines.to(b.below)
}
