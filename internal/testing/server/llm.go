package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// Form is the API of a model.
type Form int

const (
	OpenAI    Form = iota // counts requests and tokens
	Anthropic             // counts requests, input tokens and output tokens
)

// Charging is what a server counts of a call.
type Charging int

const (
	Used      Charging = iota // what the call used, counted at LLMOptions.AtEnd or at its start
	Requested                 // max_tokens, whatever was used
	Adjusted                  // max_tokens at the start, and corrected to what was used at the end
)

func (c Charging) String() string { return [...]string{"used", "requested", "adjusted"}[c] }

// LLMOptions say what a model enforces. A limit without a quota is none.
type LLMOptions struct {
	Form     Form
	Clock    Clock // nil is System
	Requests Limit
	Tokens   Limit // of OpenAI: input and output together
	Input    Limit // of Anthropic
	Output   Limit // of Anthropic
	Charges  Charging
	AtEnd    bool // used tokens count when the call ends, not when it begins
	Rounded  bool // remaining tokens are told to the nearest thousand, as Anthropic does
	Silent   bool // tells no limits in headers
}

// LLM is an upstream with a model. It is safe for concurrent use.
type LLM struct {
	o     LLMOptions
	clock Clock

	mu     sync.Mutex
	limits map[string]*counter
	counts LLMCounts
}

// LLMCounts is what a server did.
type LLMCounts struct {
	Granted  int
	Refused  int
	InFlight int
	Most     int              // in flight at once
	Charged  map[string]int64 // by limit: "requests", "tokens", "input_tokens", "output_tokens"
	Overrun  map[string]int64 // by limit: the most that ever counted above the quota
	Used     int64            // input and output tokens of granted calls, whatever is charged
	Why      []string         // the first refusals
}

// NewLLM returns a server with nothing spent.
func NewLLM(o LLMOptions) *LLM {
	s := &LLM{o: o, clock: o.Clock, limits: map[string]*counter{}}
	if s.clock == nil {
		s.clock = System{}
	}
	for name, l := range map[string]Limit{"requests": o.Requests, "tokens": o.Tokens, "input_tokens": o.Input, "output_tokens": o.Output} {
		if l.Quota > 0 {
			s.limits[name] = newCounter(l, s.clock.Now())
		}
	}
	return s
}

// Counts returns what the server did so far.
func (s *LLM) Counts() LLMCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.Charged, c.Overrun = map[string]int64{}, map[string]int64{}
	for name, l := range s.limits {
		c.Charged[name] = l.total
		c.Overrun[name] = max(0, l.worst-l.most())
	}
	return c
}

// UsedNow returns the units that count now.
func (s *LLM) UsedNow(limit string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limits[limit].used(s.clock.Now())
}

// Take takes units of a limit directly, if they are left. See [Spender].
func (s *LLM) Take(limit string, units int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if s.limits[limit].left(now) < units {
		return false
	}
	s.limits[limit].add(now, units)
	return true
}

// Lower changes the quota of a limit.
func (s *LLM) Lower(limit string, quota int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits[limit].advance(s.clock.Now())
	s.limits[limit].Quota = quota
}

// llmCall is a call that is being served.
type llmCall struct {
	task      Task
	model     string
	stream    bool
	usage     bool // the stream ends with the usage, if asked for
	in, out   int64
	requested int64 // output tokens
	truncated bool

	at    time.Time        // it began
	taken map[string]int64 // at the start
}

// ServeHTTP implements [http.Handler].
func (s *LLM) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, err := s.read(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	head, refused := s.begin(c)
	for name, value := range head {
		w.Header()[name] = value
	}
	if refused != nil {
		s.refuse(w, refused)
		return
	}
	defer s.end(c)
	switch c.task.Fault {
	case Error:
		w.WriteHeader(http.StatusInternalServerError)
		return
	case Lost:
		_ = s.clock.Sleep(r.Context(), c.task.Latency)
		panic(http.ErrAbortHandler)
	}
	if c.stream {
		s.writeStream(w, r, c)
		return
	}
	if s.clock.Sleep(r.Context(), c.task.Latency) != nil {
		return
	}
	s.write(w, c)
}

// read understands a request of either form.
func (s *LLM) read(r *http.Request) (*llmCall, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var asked struct {
		Model         string `json:"model"`
		MaxTokens     int64  `json:"max_tokens"`
		MaxCompletion int64  `json:"max_completion_tokens"`
		Stream        bool   `json:"stream"`
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
		Messages []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		return nil, err
	}
	if want := [...]string{"/v1/chat/completions", "/v1/messages"}[s.o.Form]; r.Method != http.MethodPost || r.URL.Path != want {
		return nil, fmt.Errorf("no such call: %s %s", r.Method, r.URL.Path)
	}
	c := &llmCall{model: asked.Model, stream: asked.Stream, usage: asked.StreamOptions.IncludeUsage}
	for _, m := range asked.Messages {
		c.in += tokens(string(m.Content))
		c.task = readTask(string(m.Content))
	}
	c.requested = max(asked.MaxTokens, asked.MaxCompletion)
	if c.requested == 0 {
		c.requested = 4096
	}
	c.out = min(c.task.Output, c.requested)
	c.truncated = c.out < c.task.Output
	return c, nil
}

// needs returns what a call costs by limit, with so many output tokens.
func (s *LLM) needs(c *llmCall, out int64) map[string]int64 {
	all := map[string]int64{"requests": 1, "tokens": c.in + out, "input_tokens": c.in, "output_tokens": out}
	for name := range all {
		if s.limits[name] == nil {
			delete(all, name)
		}
	}
	return all
}

// begin grants a call or refuses it, and returns the headers about its limits.
func (s *LLM) begin(c *llmCall) (http.Header, *refused) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	c.at, c.taken = now, s.needs(c, c.out)
	if s.o.Charges != Used {
		c.taken = s.needs(c, c.requested)
	}
	for name := range c.taken {
		if s.o.Charges == Used && s.o.AtEnd && name != "requests" {
			c.taken[name] = 0
		}
	}
	if c.task.Fault == Error {
		clear(c.taken)
	}
	var no *refused
	for _, name := range limitNames {
		l, need := s.limits[name], c.taken[name]
		if l == nil || l.left(now) >= max(need, 1) {
			continue
		}
		if wait := l.wait(now, max(need, 1)); no == nil || wait > no.wait {
			no = &refused{limit: name, of: l.Limit, used: l.used(now), need: need, wait: wait}
		}
	}
	if no != nil {
		if s.counts.Refused++; len(s.counts.Why) < 5 {
			s.counts.Why = append(s.counts.Why, fmt.Sprintf("%s: %d used of %d, %d asked for", no.limit, no.used, no.of.most(), no.need))
		}
		head := s.headers(now)
		no.tell(head)
		return head, no
	}
	for name, units := range c.taken {
		s.limits[name].add(now, units)
	}
	s.counts.Granted++
	s.counts.InFlight++
	s.counts.Most = max(s.counts.Most, s.counts.InFlight)
	return s.headers(now), nil
}

// end counts what counts at the end.
func (s *LLM) end(c *llmCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.InFlight--
	if c.task.Fault == Error {
		return
	}
	now := s.clock.Now()
	s.counts.Used += c.in + c.out
	for name, units := range s.needs(c, c.out) {
		switch more := units - c.taken[name]; {
		case s.o.Charges == Requested:
		case more > 0:
			s.limits[name].add(now, more)
		case more < 0:
			s.limits[name].give(now, c.at, -more)
		}
	}
}
