package content

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
)

// How many bytes of a text are kept: of one that is looked into, and of others. A text of a
// request may be longer, because one that is cut is refused.
const (
	longText  = 1024
	shortText = 256
	asked     = 64 // times as long
)

// Sources are places of a message that are read together.
type Sources struct {
	all    []*book.Source
	root   *place
	slots  []int    // by source: its slot in a reading, or -1
	of     []int    // by slot: its source
	most   []int    // by slot
	json   []*place // by source: where in its text the value is
	body   bool     // one of them is in the body
	length bool     // one of them is the length of the body

	request bool // the message decides what is charged before it is sent: see [Reading.Doubt]
	prices  int  // of a request: how many of the first sources are prices; the others are keys
}

// NewSources prepares sources. A reading gives their values by their index.
func NewSources(sources ...*book.Source) *Sources {
	s := &Sources{all: sources, root: &place{}, slots: make([]int, len(sources)), json: make([]*place, len(sources))}
	for i, source := range sources {
		s.slots[i] = -1
		if source.JSON != "" {
			s.json[i] = &place{}
			s.json[i].add(source.JSON, false, 0)
		}
		s.length = s.length || source.Bytes
		path, count := source.Body, false
		if source.Count != "" {
			path, count = source.Count, true
		}
		if path == "" {
			continue
		}
		most := shortText
		if source.JSON != "" || source.Match != nil || source.Cases != nil {
			most = longText
		}
		s.body, s.slots[i] = true, len(s.most)
		s.root.add(path, count, len(s.most))
		s.of, s.most = append(s.of, i), append(s.most, most)
	}
	return s
}

// newRequest prepares sources of a request: the prices, and then the keys.
func newRequest(prices int, sources []*book.Source) *Sources {
	s := NewSources(sources...)
	s.request, s.prices = true, prices
	for i := range s.most {
		s.most[i] *= asked
	}
	return s
}

// NeedsBody reports whether a reading needs the body of a message of a length, which is -1
// if it is not known.
func (s *Sources) NeedsBody(length int64) bool { return s.body || s.length && length < 0 }

// Message is what a reading knows of a request or an answer beside its body.
type Message struct {
	Header http.Header
	Query  string                           // of the request's URL
	Path   func(name string) (string, bool) // the {name} of the request's route
	Call   string                           // the name of the request's method
	Caller string                           // the name of who makes the request
	Length int64                            // of the body; -1 if it is not known
	Took   func() time.Duration             // from sending the call until now; nil for a request
	Most   int64                            // bytes to decode of the body; 0 is 1 GiB
}

// text returns the text of a source that is not in the body.
func (m *Message) text(s *book.Source) (string, bool) {
	switch {
	case s.Header != "":
		values := m.Header.Values(s.Header)
		if len(values) == 0 {
			return "", false
		}
		return strings.TrimSpace(values[0]), true
	case s.Query != "":
		value, has := Param(m.Query, s.Query)
		plain, err := url.QueryUnescape(value)
		return plain, has && err == nil
	case s.Path != "":
		if m.Path == nil {
			return "", false
		}
		return m.Path(s.Path)
	case s.Call:
		return m.Call, m.Call != ""
	case s.Caller:
		return m.Caller, m.Caller != ""
	}
	return strconv.FormatInt(s.Number, 10), true
}

// Param returns the first value of a parameter of a query, with its escapes.
func Param(query, name string) (value string, has bool) {
	for query != "" {
		var part string
		part, query, _ = strings.Cut(query, "&")
		key, value, _ := strings.Cut(part, "=")
		if plain, err := url.QueryUnescape(key); err == nil && plain == name {
			return value, true
		}
	}
	return "", false
}

func units(s *book.Source, text string) (n int64, ok bool) {
	if s.Cases != nil {
		n, ok = cases(s, text)
	} else {
		n, ok = Number(text)
	}
	if !ok {
		return 0, false
	}
	n = max(scale(n, s.Per, s.Times), s.Min)
	if s.Max > 0 {
		n = min(n, s.Max)
	}
	return n, true
}

// cases adds up the numbers that the parts of a text stand for.
func cases(s *book.Source, text string) (sum int64, ok bool) {
	if s.Split == "" {
		sum, ok = s.Cases[text]
		return sum, ok
	}
	for part := range strings.SplitSeq(text, s.Split) {
		n, ok := s.Cases[strings.TrimSpace(part)]
		if !ok {
			return 0, false
		}
		sum = add(sum, n)
	}
	return sum, true
}

func (s *Sources) units(i int, text string) (int64, bool) {
	text, ok := s.within(i, text)
	if !ok {
		return 0, false
	}
	return units(s.all[i], text)
}

// within returns the part of a source's text that its json and match name.
func (s *Sources) within(i int, text string) (string, bool) {
	if at := s.json[i]; at != nil {
		found := paths{root: at, slots: []slot{{most: longText}}}
		scan := scanner{to: &found}
		scan.write([]byte(text))
		if scan.flush(); !scan.between() || !found.slots[0].found || found.slots[0].bad {
			return "", false
		}
		text = string(found.slots[0].text)
	}
	if match := s.all[i].Match; match != nil {
		groups := match.FindStringSubmatch(text)
		if groups == nil {
			return "", false
		}
		text = groups[min(1, len(groups)-1)]
	}
	return text, true
}
