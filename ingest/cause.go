package ingest

import (
	"encoding/json"
	"errors"

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

// causes are the sentinels that decide what follows from an error.
var causes = map[string]error{
	"interrupted": ErrInterrupted, "lease": ErrLostLock, "max_runtime": errMaxRuntime, "max_units": meter.ErrBudget,
	"pages": ErrMorePages, "outage": quota.ErrOutage, "down": ErrUpstreamDown, "credential": meter.ErrCredential,
	"impossible": quota.ErrImpossible, "unpriced": quota.ErrUnpriced, "book": quota.ErrStaleBook, "input": quota.ErrBadInput,
	"refused": quota.ErrRefused,
}

const ( // kinds that are types
	causeCatalog = "catalog"
	causeLeft    = "left"
)

// CauseOf returns an error in this form, or nil for nil.
func CauseOf(err error) *Cause {
	if err == nil {
		return nil
	}
	c := &Cause{Text: err.Error()}
	for kind, sentinel := range causes {
		if errors.Is(err, sentinel) {
			c.Kinds = append(c.Kinds, kind)
		}
	}
	var refused *quota.RefusedError
	if errors.As(err, &refused) {
		c.Refused = &refused.Verdict
	}
	var broken *catalogError
	if errors.As(err, &broken) {
		c.Kinds = append(c.Kinds, causeCatalog)
	}
	var left *leftError
	if errors.As(err, &left) {
		c.Kinds = append(c.Kinds, causeLeft)
	}
	return c
}

// words are the kinds of causes, the one that says most first.
var words = []string{"interrupted", "lease", "max_runtime", "max_units", "pages", "outage", "down", "credential", "impossible", "unpriced", "book", "input"}

// causeWord returns why work stopped, in a word for the catalog. It is empty if the answer of
// the upstream says it, or if nothing was wrong.
func causeWord(err error) string {
	var refused *quota.RefusedError
	var broken *catalogError
	switch {
	case errors.As(err, &refused) && refused.Blocked:
		return "blocked"
	case errors.As(err, &refused):
		return "refused"
	case errors.As(err, &broken):
		return causeCatalog
	}
	for _, word := range words {
		if errors.Is(err, causes[word]) {
			return word
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
	for _, kind := range e.Kinds {
		switch kind {
		case causeCatalog:
			all = append(all, &catalogError{errors.New(e.Text)})
		case causeLeft:
			all = append(all, &leftError{errors.New(e.Text)})
		default:
			if sentinel := causes[kind]; sentinel != nil {
				all = append(all, sentinel)
			}
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
