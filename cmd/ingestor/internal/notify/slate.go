package notify

import (
	"crypto/rand"
	"encoding/json"
	"slices"
	"time"
)

// slate is what the processes share.
type slate struct {
	Events   []*event   `json:"events"`
	Messages []*message `json:"messages"`
}

// event is something that people are told, from when it begins.
type event struct {
	ID    string    `json:"id"`
	Key   string    `json:"key"` // what it is about: there is one event of it at a time
	Kind  Kind      `json:"kind"`
	Share int       `json:"share,omitempty"`
	Text  string    `json:"text"`
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended,omitzero"`
	Seen  time.Time `json:"seen"` // about when somebody saw that it lasts

	Due  map[string]phase `json:"due"`  // what targets have still to be told
	Told map[string]bool  `json:"told"` // the targets that were told, or are due
}

type phase string

const (
	began phase = "began"
	over  phase = "over"
)

// message goes to a target, until it has arrived.
type message struct {
	ID     string    `json:"id"`
	Target string    `json:"target"`
	Items  []Item    `json:"items"`
	More   int       `json:"more,omitempty"` // items that found no room
	Tries  int       `json:"tries,omitempty"`
	Next   time.Time `json:"next,omitzero"`
	By     string    `json:"by,omitempty"` // who sends it now
	Until  time.Time `json:"until,omitzero"`
	Made   time.Time `json:"made"`
}

// Item is what a message says of an event.
type Item struct {
	ID    string    `json:"id"`
	Kind  Kind      `json:"kind"`
	State phase     `json:"state"`
	Text  string    `json:"text"`
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended,omitzero"`
}

// Bounds of what is kept and sent.
const (
	mostItems  = 100 // of a message
	mostText   = 500 // bytes of an item
	mostEvents = 2000
	forgotten  = 24 * time.Hour     // after which an event that nobody sees is over
	givenUp    = 3 * 24 * time.Hour // after which a message is
	seenEvery  = time.Hour          // between two notes that an event lasts
	held       = time.Minute        // by its sender
	firstWait  = 15 * time.Second
	longestTry = 10 * time.Minute
)

// Fact is something that needs people now. A fact that only Lasts begins no event, and keeps one from
// being over: so a pool that is used up does not come and go with each unit.
type Fact struct {
	Lasts bool
	Key   string
	Kind  Kind
	Share int
	Text  string
}

// apply brings the events up to date with the facts. Knows reports whether the caller would have found a
// fact with that key. Other processes may have other targets, so what is due to those stays. It
// reports whether anything changed.
func (s *slate) apply(now time.Time, targets map[string]Target, facts []Fact, knows func(key string) bool) (changed bool) {
	is := map[string]*event{}
	for _, e := range s.Events {
		if e.Ended.IsZero() {
			is[e.Key] = e
		}
	}
	lasts := map[string]bool{}
	for _, f := range facts {
		if lasts[f.Key] = true; is[f.Key] != nil || f.Lasts || len(s.Events) >= mostEvents {
			continue
		}
		e := &event{ID: rand.Text(), Key: f.Key, Kind: f.Kind, Share: f.Share, Text: cut(f.Text), Began: now, Seen: now, Due: map[string]phase{}, Told: map[string]bool{}}
		s.Events, is[f.Key], changed = append(s.Events, e), e, true
	}
	for key, e := range is {
		switch {
		case !lasts[key] && (knows(key) || now.Sub(e.Seen) >= forgotten):
			e.Ended, changed = now, true
			for name := range e.Told {
				e.Due[name] = over
			}
			continue
		case lasts[key] && now.Sub(e.Seen) >= seenEvery:
			e.Seen, changed = now, true
		}
		for name, t := range targets { // also one that is new
			if t.wants(e) && !e.Told[name] {
				e.Due[name], e.Told[name], changed = began, true, true
			}
		}
	}
	n := len(s.Events)
	s.Events = slices.DeleteFunc(s.Events, func(e *event) bool {
		return !e.Ended.IsZero() && (len(e.Due) == 0 || now.Sub(e.Ended) > givenUp)
	})
	return changed || len(s.Events) != n
}

// lasting returns the keys of the events that are not over.
func (s *slate) lasting() map[string]bool {
	all := map[string]bool{}
	for _, e := range s.Events {
		if e.Ended.IsZero() {
			all[e.Key] = true
		}
	}
	return all
}

func cut(text string) string {
	if len(text) > mostText {
		return text[:mostText] + "…"
	}
	return text
}

// take returns the messages that the caller has to send now. Each target has one message at a time:
// what begins meanwhile goes into its next one. Lost are messages that nobody could send for days.
func (s *slate) take(now time.Time, targets map[string]Target, me string) (mine, lost []*message) {
	s.Messages = slices.DeleteFunc(s.Messages, func(m *message) bool {
		old := now.Sub(m.Made) > givenUp
		if old {
			lost = append(lost, m)
		}
		return old
	})
	busy := map[string]bool{}
	for _, m := range s.Messages {
		busy[m.Target] = true
		if _, there := targets[m.Target]; !there {
			continue // another process may have it
		}
		if !m.Next.After(now) && (m.By == "" || !m.Until.After(now)) {
			mine = append(mine, m)
		}
	}
	for name := range targets {
		if busy[name] {
			continue
		}
		m := &message{ID: "msg_" + rand.Text(), Target: name, Made: now}
		for _, e := range s.Events {
			what, due := e.Due[name]
			if !due {
				continue
			}
			delete(e.Due, name)
			if len(m.Items) == mostItems {
				m.More++
				continue
			}
			m.Items = append(m.Items, Item{ID: e.ID, Kind: e.Kind, State: what, Text: e.Text, Began: e.Began, Ended: e.Ended})
		}
		if len(m.Items) > 0 {
			s.Messages, mine = append(s.Messages, m), append(mine, m)
		}
	}
	for _, m := range mine {
		m.By, m.Until = me, now.Add(held)
	}
	return mine, lost
}

// sent notes how the sending of a message ended.
func (s *slate) sent(now time.Time, id string, err error) {
	s.Messages = slices.DeleteFunc(s.Messages, func(m *message) bool { return m.ID == id && err == nil })
	for _, m := range s.Messages {
		if m.ID == id {
			m.By, m.Until = "", time.Time{}
			m.Next = now.Add(min(firstWait<<min(m.Tries, 10), longestTry))
			m.Tries++
		}
	}
}

// read reads a slate. A text that is none counts as empty: nobody's data is in it.
func read(text string) *slate {
	s := &slate{}
	if json.Unmarshal([]byte(text), s) != nil {
		return &slate{}
	}
	return s
}

func (s *slate) String() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // it has only plain fields
	}
	return string(text)
}
