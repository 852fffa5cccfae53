package ingest

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// Cause is an error of a run in a form that another process can read. The error that it
// makes there has the same text, matches the same sentinels, and carries the same refusal.
type Cause struct {
	Text    string         `json:"text"`
	Kinds   []string       `json:"kinds,omitempty"`
	Refused *quota.Verdict `json:"refused,omitempty"`
}

// cause is an error that decides what follows, with its word.
type cause struct {
	word string
	is   error
}

// words are the causes that the catalog names, the one that says most first.
var words = []cause{
	{"catalog", errCatalog},
	{"interrupted", ErrInterrupted},
	{"lease", ErrLostLock},
	{"max_runtime", errMaxRuntime},
	{"max_units", meter.ErrBudget},
	{"pages", ErrMorePages},
	{"outage", quota.ErrOutage},
	{"down", ErrUpstreamDown},
	{"credential", meter.ErrCredential},
	{"impossible", quota.ErrImpossible},
	{"unpriced", quota.ErrUnpriced},
	{"book", quota.ErrStaleBook},
	{"input", quota.ErrBadInput},
}

// causes are all of them.
var causes = append(slices.Clip(words), cause{"refused", quota.ErrRefused}, cause{"left", errLeft})

// CauseOf returns an error in this form, or nil for nil.
func CauseOf(err error) *Cause {
	if err == nil {
		return nil
	}
	c := &Cause{Text: err.Error()}
	for _, one := range causes {
		if errors.Is(err, one.is) {
			c.Kinds = append(c.Kinds, one.word)
		}
	}
	if refused, is := errors.AsType[*quota.RefusedError](err); is {
		c.Refused = &refused.Verdict
	}
	return c
}

// causeWord returns why work stopped, in a word for the catalog. It is empty if the answer of
// the upstream says it, or if nothing was wrong.
func causeWord(err error) string {
	if refused, is := errors.AsType[*quota.RefusedError](err); is {
		if refused.Blocked {
			return "blocked"
		}
		return "refused"
	}
	for _, one := range words {
		if errors.Is(err, one.is) {
			return one.word
		}
	}
	return ""
}

// Err returns the error, or nil for nil.
func (c *Cause) Err() error {
	if c == nil {
		return nil
	}
	return &elsewhere{c}
}

// elsewhere is an error that occurred in another process, or earlier in this one.
type elsewhere struct{ *Cause }

func (e *elsewhere) Error() string { return e.Text }

// Unwrap returns what errors.Is and errors.As find.
func (e *elsewhere) Unwrap() (all []error) {
	if e.Refused != nil {
		all = append(all, &quota.RefusedError{Verdict: *e.Refused})
	}
	for _, one := range causes {
		if slices.Contains(e.Kinds, one.word) {
			all = append(all, one.is)
		}
	}
	return all
}

// MarshalJSON keeps an error of a [State] readable elsewhere.
func (s State) MarshalJSON() ([]byte, error) {
	type plain State
	return json.Marshal(struct {
		plain
		Halted *Cause
	}{plain(s), CauseOf(s.Halted)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *State) UnmarshalJSON(text []byte) error {
	type plain State
	read := struct {
		*plain
		Halted *Cause
	}{plain: (*plain)(s)}
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	s.Halted = read.Halted.Err()
	return nil
}
