package kept

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Version is what answers depend on beside the time, such as the change counter of a file.
// If it differs, no answer is true any more.
type Version [2]int64

// Options are the settings of [NewStore].
type Options struct {
	Now  func() time.Time
	Most int // bytes in all
	Each int // bytes of an answer; a longer one is not kept
}

// life is by when answers leave the memory, if nobody asks either.
const life = time.Minute

// Store keeps answers of one [Version]. A nil store keeps none. It is safe for concurrent use.
type Store struct {
	o Options

	mu      sync.Mutex
	version Version
	bytes   int
	answers map[string]*list.Element // of *entry
	recent  *list.List               // the one that was asked for last is the first
	flights map[string]*flight
	timer   *time.Timer // nil if there are no answers
}

type entry struct {
	key    string
	answer *Answer
	from   time.Time // when it was made
	bytes  int
}

// flight is an answer that is being made.
type flight struct {
	version Version
	waiting int // requests
	cancel  context.CancelFunc
	done    chan struct{}
	answer  *Answer // after done; nil if making it failed
}

// NewStore returns an empty store.
func NewStore(o Options) *Store {
	return &Store{o: o, answers: map[string]*list.Element{}, recent: list.New(), flights: map[string]*flight{}}
}

// Get returns the kept answer of a key, or nil: see [Store.Do].
func (s *Store) Get(v Version, key string) *Answer {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.get(v, key)
}

func (s *Store) get(v Version, key string) *Answer {
	if v != s.version {
		s.clear()
		s.version = v
	}
	at := s.answers[key]
	if at == nil {
		return nil
	}
	e, now := at.Value.(*entry), s.now()
	if now.Before(e.from) || !now.Before(e.answer.Until) { // the clock was set back, or it is too old
		s.drop(at)
		return nil
	}
	s.recent.MoveToFront(at)
	return e.answer
}

// Do returns the kept answer of a key, or the one that maker returns. The caller read the
// version after its request came, and before anything else, so that no answer is older than
// the request: what a commit deleted is in no answer to a request that came later.
//
// If several ask for the same at once, one of them makes it for all. Its context ends when
// all of them are gone. An error is for the request that made it: each of the others then
// tries by itself.
func (s *Store) Do(ctx context.Context, v Version, key string, maker func(context.Context) (*Answer, error)) (*Answer, error) {
	if s == nil {
		return maker(ctx)
	}
	a, f, mine := s.join(v, key)
	switch {
	case a != nil:
		return a, nil
	case mine:
		return s.make(ctx, key, f, maker)
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		s.leave(key, f)
		return nil, ctx.Err()
	}
	if f.answer != nil {
		return f.answer, nil
	}
	return maker(ctx)
}

// join returns the answer of a key, or the flight to wait for. Mine says that the flight is
// new, and the caller's.
func (s *Store) join(v Version, key string) (a *Answer, f *flight, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.get(v, key); a != nil {
		return a, nil, false
	}
	if f = s.flights[key]; f != nil && f.version == v {
		f.waiting++
		return nil, f, false
	}
	f = &flight{version: v, waiting: 1, done: make(chan struct{})}
	s.flights[key] = f // those that wait for one of another version still do
	return nil, f, true
}

// now returns the time of the wall clock, which may be set back.
func (s *Store) now() time.Time { return s.o.Now().Round(0) }

// make makes an answer for all that wait for the flight.
func (s *Store) make(ctx context.Context, key string, f *flight, maker func(context.Context) (*Answer, error)) (a *Answer, err error) {
	from := s.now()
	defer func() { s.land(key, f, from, a) }() // also if maker panics
	making, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if end, bound := ctx.Deadline(); bound {
		making, cancel = context.WithDeadline(context.WithoutCancel(ctx), end)
	}
	defer cancel()
	s.mu.Lock()
	f.cancel = cancel
	s.mu.Unlock()
	defer context.AfterFunc(ctx, func() { s.leave(key, f) })()
	return maker(making)
}

// leave tells a flight that a request is gone.
func (s *Store) leave(key string, f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.waiting--; f.waiting > 0 {
		return
	}
	f.cancel()
	if s.flights[key] == f { // later requests must not wait for what fails
		delete(s.flights, key)
	}
}

// land ends a flight, and keeps its answer if it is still true.
func (s *Store) land(key string, f *flight, from time.Time, a *Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flights[key] == f {
		delete(s.flights, key)
		if a != nil && f.version == s.version {
			s.keep(key, from, a)
		}
	}
	f.answer = a
	close(f.done)
}

// keep adds an answer, in place of those that were asked for least recently.
func (s *Store) keep(key string, from time.Time, a *Answer) {
	size := a.size(key)
	if !s.now().Before(a.Until) || size > s.o.Each {
		return
	}
	if old := s.answers[key]; old != nil {
		s.drop(old)
	}
	for s.bytes+size > s.o.Most {
		s.drop(s.recent.Back())
	}
	a.often = true
	s.bytes += size
	s.answers[key] = s.recent.PushFront(&entry{key, a, from, size})
	if s.timer == nil {
		s.timer = time.AfterFunc(life, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.clear()
		})
	}
}

func (s *Store) drop(at *list.Element) {
	e := s.recent.Remove(at).(*entry)
	delete(s.answers, e.key)
	s.bytes -= e.bytes
}

func (s *Store) clear() {
	clear(s.answers)
	s.recent.Init()
	s.bytes = 0
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}
