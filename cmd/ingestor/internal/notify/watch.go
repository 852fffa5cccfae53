// Package notify tells people when something of the quota or of the jobs needs them, and once
// more when it is over.
//
// Any number of processes watch the same ledger and catalog. One text in the catalog has the events that
// they know, and what is still to be told of them. Each version of the text has one writer. So each
// event begins once, and each message has one sender. A sender takes a message for a minute. If it
// dies, another process sends the message again, with the same id.
//
// Nothing here delays a call or a run.
package notify

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/lease"
)

const name = "notices"

// Inputs are what a watcher looks at, by the settings in force.
type Inputs struct {
	Targets map[string]Target
	Sources *view.Sources
	Facts   *verdict.Reader
}

// Options are the options of a [Watcher]; nil is valid.
type Options struct {
	Clock quota.Clock
	Log   *slog.Logger
	Once  bool // the watcher looks once, so it tells at once what others look at twice
}

// Watcher tells people what needs them.
type Watcher struct {
	o      Options
	slates verdict.Slates
	inputs func() Inputs
	client *http.Client
	me     string
	mu     sync.Mutex
	fails  map[string]bool // targets of which the log has said so
	broken bool            // the slate
	seen   map[string]bool // facts of the last look
	lasted map[string]bool // events that lasted after it
	alone  alone
}

// New returns a watcher.
func New(slates verdict.Slates, inputs func() Inputs, o *Options) *Watcher {
	w := &Watcher{o: *cmp.Or(o, &Options{}), slates: slates, inputs: inputs, client: newClient(), me: rand.Text(), fails: map[string]bool{}, seen: map[string]bool{}}
	w.o.Clock, w.o.Log = cmp.Or[quota.Clock](w.o.Clock, quota.SystemClock{}), cmp.Or(w.o.Log, slog.Default())
	return w
}

// every is the time between two looks.
const every = 15 * time.Second

// Run watches until the context ends.
func (w *Watcher) Run(ctx context.Context) {
	for {
		w.Look(ctx)
		if w.o.Clock.Sleep(ctx, every) != nil {
			w.alone.leave()
			return
		}
	}
}

// Look looks once, and sends what is due. A target that does not answer holds up nobody but the
// watcher, for 20 seconds at most.
func (w *Watcher) Look(ctx context.Context) {
	in := w.inputs()
	if len(in.Targets) == 0 {
		return
	}
	var shares []int
	for _, t := range in.Targets {
		if s := t.share(); !slices.Contains(shares, s) {
			shares = append(shares, s)
		}
	}
	look := in.Facts.Read
	if in.Sources.Fleet != nil && !w.leads(ctx, lookoutFor(in.Sources.Jobs)) {
		look = in.Facts.ReadHere
	}
	is := look(ctx, in.Sources)
	if ctx.Err() != nil {
		return
	}
	now := is.Now
	f := find(is, in.Facts.Folders, shares)
	w.confirm(f.facts)
	if !w.o.Once { // one that ends soon has its exit code, and the ping
		w.alone.join(in.Facts.Folders)
	}
	var mine []message
	var lost []*message
	var lasting map[string]bool
	err := w.change(ctx, func(s *slate) bool {
		w.doubt(s.lasting(), f.facts)
		changed := is.Unkept == nil && w.alone.ended(s, now)
		changed = s.apply(now, in.Targets, f.facts, f.knows) || changed
		lasting = s.lasting()
		mine = nil
		var taken []*message
		taken, lost = s.take(now, in.Targets, w.me)
		for _, m := range taken {
			mine = append(mine, *m)
		}
		return changed || len(taken)+len(lost) > 0
	})
	if fault := cmp.Or(err, is.Unkept); fault != nil { // without anything to note, the slate is not written
		if !w.broken && ctx.Err() == nil {
			w.o.Log.Error("the catalog cannot be written, so it cannot be noted who is to be notified", "error", fault)
		}
		if w.broken { // what is busy once says little
			w.tellAlone(ctx, &in, now, fault)
		}
		w.broken = true
	} else {
		w.broken, w.alone.told = false, nil
	}
	if err != nil {
		return
	}
	w.lasted = lasting
	for _, m := range lost {
		w.o.Log.Error("a message was never taken, and is given up", "target", m.Target, "events", len(m.Items)+m.More, "tries", m.Tries)
	}
	w.deliver(ctx, in.Targets, mine)
}

// lookout says which process looks at all that the others would find, too.
type lookout struct {
	By    string    `json:"by"`
	Until time.Time `json:"until"`
}

// lookoutFor names the lookout of the processes that have the same jobs: one without a job says nothing of it.
func lookoutFor(jobs []*ingest.Job) string {
	var names []string
	for _, j := range jobs {
		names = append(names, j.Name)
	}
	return digest("lookout", names)
}

// digest names what processes share that have the same words.
func digest(what string, words []string) string {
	h := fnv.New64a()
	_, _ = io.WriteString(h, strings.Join(words, "\n")) // it never fails
	return fmt.Sprintf("%s/%x", what, h.Sum64())
}

// leads reports whether this process does. In a fleet, the others would ask the database the same all the time. When it
// has not looked for three times the interval, another one does.
func (w *Watcher) leads(ctx context.Context, name string) (is bool) {
	if w.o.Once {
		return true
	}
	now, most := w.o.Clock.Now(), 3*every
	err := verdict.Change(ctx, w.slates, name, func(text string) (string, bool) {
		var has lookout
		_ = json.Unmarshal([]byte(text), &has) // a text that is none says nothing
		left := has.Until.Sub(now)
		is = has.By == w.me || left <= 0 || left > most // the clock was set
		written, _ := json.Marshal(lookout{w.me, now.Add(most)})
		return string(written), is && (has.By != w.me || left <= most/2)
	})
	return is || err != nil
}

// confirm lets facts only last that may be gone in a moment, until they are found twice: an answer that was
// slow, and daemons that were silent while the database was away.
func (w *Watcher) confirm(facts []Fact) {
	seen := map[string]bool{}
	for i := range facts {
		f := &facts[i]
		seen[f.Key] = true
		if !w.o.Once && (f.Kind == Ledger || f.Kind == Daemon) && !w.seen[f.Key] {
			f.Lasts = true
		}
	}
	w.seen = seen
}

// doubt lets facts only last whose event another process has just ended: this one may not have asked again.
func (w *Watcher) doubt(lasting map[string]bool, facts []Fact) {
	for i := range facts {
		f := &facts[i]
		f.Lasts = f.Lasts || f.Kind == Ledger && w.lasted[f.Key] && !lasting[f.Key]
	}
}

// deliver sends messages, all at once. A slow target does not keep another's answer from being noted.
func (w *Watcher) deliver(ctx context.Context, targets map[string]Target, all []message) {
	var each sync.WaitGroup
	for i := range all {
		each.Go(func() {
			m, t := &all[i], targets[all[i].Target]
			w.sent(ctx, m, send(ctx, w.client, &t, m, w.o.Clock.Now()))
		})
	}
	each.Wait()
}

// sent notes how the sending of a message ended.
func (w *Watcher) sent(ctx context.Context, m *message, err error) {
	w.mu.Lock()
	fails := w.fails[m.Target]
	w.fails[m.Target] = err != nil
	w.mu.Unlock()
	switch {
	case err == nil:
		w.o.Log.Info("notified", "target", m.Target, "events", len(m.Items)+m.More)
	case !fails:
		w.o.Log.Error("cannot notify; trying again for three days", "target", m.Target, "error", err)
	}
	apart, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	failed := w.change(apart, func(s *slate) bool { s.sent(w.o.Clock.Now(), m.ID, err); return true })
	if failed != nil {
		w.o.Log.Error("cannot note what was told; it is told again, with the same id", "error", failed)
	}
}

// change changes the slate. Another process may write at the same time.
func (w *Watcher) change(ctx context.Context, do func(*slate) bool) error {
	return verdict.Change(ctx, w.slates, name, func(text string) (string, bool) {
		s := read(text)
		changed := do(s)
		return s.String(), changed
	})
}

// Test sends a message of no consequence to a target.
func Test(ctx context.Context, t *Target, now time.Time) error {
	return send(ctx, newClient(), t, &message{ID: "msg_" + rand.Text(), Made: now, Items: []Item{{ID: rand.Text(), Kind: "test", State: began, Text: "This is a test by ingestor notify test", Began: now}}}, now)
}

// Shown is what is to be told now.
type Shown struct {
	Events  []Item   `json:"events"`
	Waiting []string `json:"waiting"` // targets that have not taken their message yet
}

// Show returns the events that last, and the targets that do not answer.
func Show(ctx context.Context, slates verdict.Slates) (s Shown, err error) {
	text, _, err := slates.Slate(ctx, name)
	if err != nil {
		return s, err
	}
	s = Shown{Events: []Item{}, Waiting: []string{}}
	is := read(text)
	for _, e := range is.Events {
		if e.Ended.IsZero() {
			s.Events = append(s.Events, Item{ID: e.ID, Kind: e.Kind, State: began, Text: e.Text, Began: e.Began})
		}
	}
	waits := map[string]bool{}
	for _, m := range is.Messages {
		waits[fmt.Sprintf("%s: %d tries", m.Target, m.Tries)] = true
	}
	s.Waiting = append(s.Waiting, slices.Sorted(maps.Keys(waits))...)
	return s, nil
}

// alone tells what no slate can hold: that the slate cannot be written. Of the processes of a machine that have their
// files in the same folders, the one that holds a lock does so. It takes the lock while all is well, because a full disk
// may have no room for it.
type alone struct {
	lock lease.Lock
	told map[string]*message // by target, while it lasts
	sent map[string]bool     // those that have arrived
}

// join takes the lock, if no other process has it, and reports whether another one has.
func (a *alone) join(folders []string) (other bool) {
	if a.lock != nil || len(folders) == 0 {
		return false
	}
	lock, err := lease.Files(filepath.Join(folders[0], "locks")).Lock(context.Background(), digest(name, folders))
	if err != nil { // one that says twice is better than one that says nothing
		return errors.Is(err, lease.ErrHeld)
	}
	a.lock = lock
	return false
}

func (a *alone) leave() {
	if a.lock != nil {
		_ = a.lock.Unlock() // the end of the process does it, too
		a.lock = nil
	}
}

// tellAlone tells all targets that the slate cannot be written, and those again that have not taken it.
func (w *Watcher) tellAlone(ctx context.Context, in *Inputs, now time.Time, fault error) {
	a := &w.alone
	if ctx.Err() != nil || a.told == nil && a.join(in.Facts.Folders) {
		return
	}
	if a.told == nil {
		a.told, a.sent = map[string]*message{}, map[string]bool{}
	}
	is := event{ID: rand.Text(), Kind: Disk, Text: cut(fmt.Sprintf("On %s, the catalog cannot be written, so no run can do its work: %v", here(), fault))}
	for name, t := range in.Targets {
		m := a.told[name]
		if m == nil && t.wants(&is) {
			m = &message{ID: "msg_" + rand.Text(), Target: name, Made: now, Items: []Item{{ID: is.ID, Kind: is.Kind, State: began, Text: is.Text, Began: now}}}
			a.told[name] = m
		}
		if m == nil || a.sent[name] {
			continue
		}
		if err := send(ctx, w.client, &t, m, now); err != nil {
			w.o.Log.Error("cannot notify; trying again while the catalog cannot be written", "target", name, "error", err)
			continue
		}
		a.sent[name] = true
		w.o.Log.Info("notified", "target", name, "events", 1)
	}
}

// ended notes in a slate that can be written again that this is to be told, and reports whether it is.
func (a *alone) ended(s *slate, now time.Time) (changed bool) {
	for name, m := range a.told {
		if a.sent[name] {
			is := m.Items[0]
			is.State, is.Ended = over, now
			s.Messages, changed = append(s.Messages, &message{ID: m.ID + "_over", Target: name, Made: now, Items: []Item{is}}), true
		}
	}
	return changed
}
